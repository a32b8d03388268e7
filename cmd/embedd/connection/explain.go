package connection

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// isLogin tells whether the server refused who connects.
func isLogin(err error) bool {
	if err == nil {
		return false
	}
	// The error of an attempt to connect again is the server's own sentence, which is not always the client's.
	text := strings.ToLower(err.Error())
	if strings.Contains(text, "authentication expired") || strings.Contains(text, "authentication revoked") {
		return true
	}
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// passes tells whether another try of the first connection may do better: no server listens yet, or it is just
// starting. Everything else is a fault of the configuration.
func passes(err error) bool {
	var op *net.OpError
	return errors.Is(err, nats.ErrNoServers) || isSilence(err) ||
		errors.As(err, &op) && (op.Op == "dial" || op.Op == "read" || op.Op == "write")
}

// isSilence is a port that says nothing, or not enough, before it closes.
func isSilence(err error) bool {
	var slow interface{ Timeout() bool } // net.Error, without its deprecated part
	return errors.Is(err, nats.ErrTimeout) || !errors.Is(err, nats.ErrTLS) && errors.Is(err, io.EOF) ||
		errors.As(err, &slow) && slow.Timeout()
}

// explain names cause and cure of an attempt that failed.
func (c *Conn) explain(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
		text    = err.Error()
		where   = c.target.where
	)
	because := func(format string, args ...any) error {
		return fmt.Errorf("%s (%s): %w", fmt.Sprintf(format, args...), where, err)
	}
	switch {
	case isLogin(err):
		return because("%s", c.refusal())
	case errors.Is(err, nats.ErrNoServers):
		return because("no NATS server answers; start one (nats-server -js), or name another with --server, NATS_URL or nats.url")
	case errors.As(err, &unknown):
		return because("the server's certificate is of an authority that is not trusted; name the file of its authority's certificate in nats.tls.ca")
	case errors.As(err, &name):
		return because("the server's certificate is for other names; connect to one of them, or give the server a certificate for this one")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return because("the server's certificate is expired, or a clock is wrong; give the server a new one")
	case strings.Contains(text, "tls: unknown certificate authority"), strings.Contains(text, "tls: bad certificate"),
		strings.Contains(text, "tls: unknown certificate"):
		if c.target.tls.Cert != "" {
			return because("the server does not accept the client certificate; nats.tls.cert (%s) must be of an authority that the server trusts, and not expired", c.target.tls.Cert)
		}
		return because("%s", noCertificate)
	case strings.Contains(text, "tls: expired certificate"):
		return because("the client certificate is expired; put a new one into nats.tls.cert (%s)", c.target.tls.Cert)
	case strings.Contains(text, "tls: certificate required"),
		errors.Is(err, nats.ErrTLS) && c.target.tls.Cert == "" && strings.Contains(text, "after TLS handshake"):
		return because("%s", noCertificate)
	case errors.As(err, &record):
		return because("the port does not begin with TLS; delete nats.tls.first, or name the port that does")
	case errors.Is(err, nats.ErrSecureConnWanted):
		return because("the server has no TLS, and the configuration asks for it; write nats:// instead of tls:// and delete nats.tls, or turn TLS on in the server")
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return because("the server knows no NKeys, and the login is one; name a server that has this user")
	case strings.Contains(text, "maximum control line"):
		return because("the JWT is longer than the server takes; raise max_control_line there, or put its rights into a scoped signing key of the account")
	case isSilence(err):
		if c.target.tls.First {
			return because("the port does not answer the TLS handshake; delete nats.tls.first, or name the port that begins with TLS")
		}
		return because("the port says nothing, as one that begins with TLS; set nats.tls.first to true if it does, else look whether it is a NATS server and whether it is overloaded")
	}
	return because("connecting failed")
}

const noCertificate = "the server asks for a client certificate and got none; name its files in nats.tls.cert and nats.tls.key"

// refusal says which login was refused, and why where that can be known here.
func (c *Conn) refusal() string {
	id, login, err := c.target.identity()
	if err != nil {
		return fmt.Sprintf("the NATS server refuses the credentials, and they cannot be read now: %v", err)
	}
	if at := id.Expires(); !at.IsZero() && at.Before(time.Now()) {
		return fmt.Sprintf("the NATS server refuses the credentials: %s expired at %s; make new ones, as with `nsc generate creds`, and put them in their place", login.Name(), at.UTC().Format(time.RFC3339))
	}
	if login.Name() == "no credentials" {
		return "the NATS server wants credentials and there are none; give nats.creds, nats.user, nats.token_file, nats.nkey or nats.context, or --creds or --context"
	}
	return fmt.Sprintf("the NATS server refuses the credentials: %s; look whether they are those of this server", login.Name())
}
