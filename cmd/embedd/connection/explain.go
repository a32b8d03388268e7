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

// isLogin reports whether the server refused the login.
func isLogin(err error) bool {
	if err == nil {
		return false
	}
	// The error of a reconnect is the text of the server, which is not always an error value of the client.
	text := strings.ToLower(err.Error())
	if strings.Contains(text, "authentication expired") || strings.Contains(text, "authentication revoked") {
		return true
	}
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// passes reports whether another attempt at the first connection may succeed: no server listens yet, or it is starting.
// Everything else is an error of the configuration.
func passes(err error) bool {
	var op *net.OpError
	return errors.Is(err, nats.ErrNoServers) || isSilence(err) ||
		errors.As(err, &op) && (op.Op == "dial" || op.Op == "read" || op.Op == "write")
}

// isSilence reports whether a port sent nothing, or too little, before it closed.
func isSilence(err error) bool {
	var slow interface{ Timeout() bool } // net.Error, without its deprecated part
	return errors.Is(err, nats.ErrTimeout) || !errors.Is(err, nats.ErrTLS) && errors.Is(err, io.EOF) ||
		errors.As(err, &slow) && slow.Timeout()
}

// explain returns the cause of a failed attempt, and the fix.
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
		return because("no NATS server answers; start one (nats-server -js), or name another with --server, NATS_URL or " +
			"nats.url")
	case errors.As(err, &unknown):
		return because("the certificate authority of the server is not trusted; set nats.tls.ca to the file of its " +
			"certificate")
	case errors.As(err, &name):
		return because("the certificate of the server is for other names; connect to one of them, or give the server a " +
			"certificate for this name")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return because("the certificate of the server has expired, or a clock is wrong; renew the certificate")
	case strings.Contains(text, "tls: unknown certificate authority"), strings.Contains(text, "tls: bad certificate"),
		strings.Contains(text, "tls: unknown certificate"):
		if c.target.tls.Cert != "" {
			return because("the server does not accept the client certificate; nats.tls.cert (%s) must be signed by an "+
				"authority that the server trusts and must not be expired", c.target.tls.Cert)
		}
		return because("%s", noCertificate)
	case strings.Contains(text, "tls: expired certificate"):
		return because("the client certificate has expired; renew nats.tls.cert (%s)", c.target.tls.Cert)
	case strings.Contains(text, "tls: certificate required"),
		errors.Is(err, nats.ErrTLS) && c.target.tls.Cert == "" && strings.Contains(text, "after TLS handshake"):
		return because("%s", noCertificate)
	case errors.As(err, &record):
		return because("the port does not begin with a TLS handshake; delete nats.tls.first, or use the port that does")
	case errors.Is(err, nats.ErrSecureConnWanted):
		return because("the server has no TLS, and the configuration requires it; use nats:// instead of tls:// and " +
			"delete nats.tls, or enable TLS in the server")
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return because("the server does not support NKeys, and the login is an NKey; use a server that has this user")
	case strings.Contains(text, "maximum control line"):
		return because("the JWT is longer than the server allows; raise max_control_line there, or move its permissions " +
			"to a scoped signing key of the account")
	case isSilence(err):
		if c.target.tls.First {
			return because("the port does not answer the TLS handshake; delete nats.tls.first, or use the port that begins " +
				"with TLS")
		}
		return because("the port sends nothing, like one that begins with a TLS handshake; if it does, set " +
			"nats.tls.first to true, else check that it is a NATS server and not overloaded")
	}
	return because("the connection failed")
}

const noCertificate = "the server requires a client certificate; set nats.tls.cert and nats.tls.key"

// refusal says which login was refused, and why if that is known.
func (c *Conn) refusal() string {
	id, login, err := c.target.identity()
	if err != nil {
		return fmt.Sprintf("the NATS server refused the credentials, which cannot be read now: %v", err)
	}
	if at := id.Expires(); !at.IsZero() && at.Before(time.Now()) {
		return fmt.Sprintf("the NATS server refused the credentials: %s expired at %s; replace them, for example with "+
			"`nsc generate creds`", login.Name(), at.UTC().Format(time.RFC3339))
	}
	if login.Name() == "no credentials" {
		return "the NATS server requires credentials, and none are set; set nats.creds, nats.user, nats.token_file, " +
			"nats.nkey or nats.context, or --creds or --context"
	}
	return fmt.Sprintf("the NATS server refused the credentials: %s; check that they are for this server", login.Name())
}
