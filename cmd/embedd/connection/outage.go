package connection

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/natsx"
)

// outage is the state of a lost connection.
type outage struct {
	since   time.Time // zero: connected
	rounds  int       // attempts through all servers
	refused int       // rounds in which the login was refused
	err     error     // the last one
	logged  time.Time // when it was logged
}

// Backoff between two rounds of attempts: up to longPause if no server listens, up to longRefusal if the login is
// refused.
const (
	shortPause  = 100 * time.Millisecond
	longPause   = 2 * time.Second
	longRefusal = 10 * time.Second
)

const (
	logInterval = time.Minute // how often the same error is logged
	maxReports  = 64          // distinct errors
	maxDenied   = 16          // permissions that are remembered
)

// backoff is called before each round of attempts and returns how long to wait.
func (c *Conn) backoff(int) time.Duration {
	if nc := c.nc(); nc != nil {
		if err := nc.LastError(); err != nil {
			c.recordFailure(err)
		}
	}
	c.mu.Lock()
	d := &c.down
	d.rounds++
	rounds, refused, most := d.rounds, d.refused, longPause
	if isLogin(d.err) {
		d.refused++
		rounds, most = d.refused, longRefusal
	}
	err, since := d.err, d.since
	wait := min(shortPause<<min(rounds-1, 10), most)
	wait += time.Duration(rand.Int64N(int64(wait)/4 + 1)) // jitter: many clients reconnect at the same time
	// Log the first refusal immediately, and other errors only if they last.
	shouldLog := err != nil && (refused == 0 && d.refused == 1 || rounds > 3 && time.Since(d.logged) > logInterval)
	if shouldLog {
		d.logged = time.Now()
	}
	c.mu.Unlock()
	if shouldLog {
		c.log.Warn("cannot reconnect; retrying indefinitely", "since", since.UTC().Format(time.RFC3339), "next", wait,
			"error", c.explain(err))
	}
	return wait
}

// recordFailure records why an attempt failed.
func (c *Conn) recordFailure(err error) {
	c.mu.Lock()
	c.down.err = err
	c.mu.Unlock()
}

func (c *Conn) onDisconnect(nc *nats.Conn, err error) {
	if nc.IsClosed() {
		return
	}
	c.mu.Lock()
	c.down = outage{since: time.Now(), err: err}
	c.mu.Unlock()
	c.log.Warn("disconnected from the server; reconnecting indefinitely", "error", err)
}

func (c *Conn) onReconnect(*nats.Conn) {
	c.mu.Lock()
	c.down = outage{}
	c.mu.Unlock()
	c.log.Info("reconnected", "server", c.Address())
}

// Trouble is the reason that there is no connection, "" if there is one.
func (c *Conn) Trouble() string {
	c.mu.Lock()
	d := c.down
	c.mu.Unlock()
	select {
	case <-c.closed: // not nc.IsClosed: a write that hangs may hold the lock of the client
		return fmt.Sprintf("the connection to %s has ended: %v", c.target.where, c.LastError())
	default:
	}
	if d.since.IsZero() {
		return ""
	}
	text := fmt.Sprintf("not connected since %s; retrying indefinitely", d.since.UTC().Format(time.RFC3339))
	if d.err != nil {
		text += ": " + c.explain(d.err).Error()
	}
	return text
}

// onError is the error handler of the client.
func (c *Conn) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if isLogin(err) {
		return // backoff logs it
	}
	text := err.Error()
	if permission := deniedIn(err); permission != "" {
		text = permission
		c.deny(permission)
		err = fmt.Errorf("permission denied: %s; `embedd setup --permissions` prints the required permissions", text)
	} else if sub != nil {
		text += sub.Subject
	}
	c.mu.Lock()
	maps.DeleteFunc(c.loggedAt, func(_ string, at time.Time) bool { return time.Since(at) >= logInterval })
	_, quiet := c.loggedAt[text]
	quiet = quiet || len(c.loggedAt) == maxReports
	if !quiet {
		c.loggedAt[text] = time.Now()
	}
	c.mu.Unlock()
	if !quiet {
		c.log.Warn("connection error", "error", err)
	}
}

// deniedIn is the permission that an error reports as denied, "" if it is another error.
func deniedIn(err error) string {
	if p, ok := natsx.DeniedPermission(err); ok {
		return string(p.Action) + " to " + p.Subject
	}
	return ""
}

// deny remembers a denied permission.
func (c *Conn) deny(permission string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = append(slices.DeleteFunc(c.denied, func(p string) bool { return p == permission }), permission)
	if len(c.denied) > maxDenied {
		c.denied = c.denied[1:]
	}
}

// Explain adds the permissions that the server denied to an error, which otherwise may only be a timeout.
func (c *Conn) Explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if permission := deniedIn(err); permission != "" {
		c.deny(permission)
	}
	c.mu.Lock()
	denied := slices.Clone(c.denied)
	c.mu.Unlock()
	if len(denied) == 0 {
		return err
	}
	return fmt.Errorf("%w; the server denied: %s; `embedd setup --permissions` prints the required permissions", err,
		strings.Join(denied, ", "))
}

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

// shouldRetry reports whether another attempt at the first connection may succeed: no server listens yet, or it is
// starting. Everything else is an error of the configuration.
func shouldRetry(err error) bool {
	op, isNetwork := errors.AsType[*net.OpError](err)
	return errors.Is(err, nats.ErrNoServers) || isSilence(err) ||
		isNetwork && (op.Op == "dial" || op.Op == "read" || op.Op == "write")
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

// refusal names the login that was refused, and the reason if it is known.
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
