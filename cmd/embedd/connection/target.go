package connection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/net/proxy"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// target is a resolved configuration.
type target struct {
	where   string // for messages
	servers []string
	tls     config.TLS
	inbox   string
	prefix  string // of the JetStream API
	proxy   string
	login   func() (config.Login, error) // read again at each connect
}

func targetOf(n config.NATS) (target, error) {
	t := target{tls: n.TLS, inbox: n.InboxPrefix, login: func() (config.Login, error) { return n.Login, nil }}
	urls, domain := n.URL, n.Domain
	if n.Context != "" {
		c, err := config.ReadContext(n.Context)
		if err != nil {
			return t, err
		}
		urls, t.proxy, t.prefix = c.URL, c.Proxy, strings.TrimSuffix(c.APIPrefix, ".")
		urls = cmp.Or(urls, nats.DefaultURL)
		domain = cmp.Or(domain, c.Domain)
		t.inbox = cmp.Or(t.inbox, c.InboxPrefix)
		if t.tls == (config.TLS{}) {
			t.tls = c.TLS
		}
		t.login = func() (config.Login, error) {
			c, err := config.ReadContext(n.Context)
			if err != nil {
				return config.Login{}, err
			}
			return c.Login, nil
		}
		t.where = "context " + n.Context + ", "
	}
	if domain != "" {
		t.prefix = "$JS." + domain + ".API"
	}
	// The error of the client would contain the URL with its password.
	if err := config.CheckURL(urls); err != nil && urls != "" {
		return t, fmt.Errorf("server URL: %w", err)
	}
	inURL, err := config.LoginOf(urls)
	if err != nil {
		return t, fmt.Errorf("server URL: %w", err)
	}
	if inURL != (config.Login{}) && n.Context == "" {
		t.login = func() (config.Login, error) { return inURL, nil }
	}
	t.servers = config.Servers(urls)
	t.where += strings.Join(t.servers, ",")
	return t, nil
}

// identity returns the current login.
func (t target) identity() (config.Identity, config.Login, error) {
	l, err := t.login()
	if err != nil {
		return config.Identity{}, l, err
	}
	id, err := l.Read()
	return id, l, err
}

// identity returns the current login.
func (c *Conn) identity() (config.Identity, config.Login, error) {
	t := c.target
	if login := c.relogin.Load(); login != nil {
		t.login = *login
	}
	return t.identity()
}

// loginKind is how a login is presented to the server; the client cannot change it.
func loginKind(id config.Identity, l config.Login) string {
	switch {
	case l == (config.Login{}):
		return "none"
	case id.JWT == "" && id.Seed != "":
		return "an NKey"
	}
	return "a user, a token or a JWT"
}

// PrepareLogin connects once with the login of n. What it returns makes the connection use that login from now on, and
// connect again with it.
func (c *Conn) PrepareLogin(ctx context.Context, n config.NATS) (use func(), err error) {
	t, err := targetOf(n)
	if err != nil {
		return nil, err
	}
	next, login, err := t.identity()
	if err != nil {
		return nil, err
	}
	now, old, err := c.identity()
	if before, after := loginKind(now, old), loginKind(next, login); err == nil && before != after {
		return nil, fmt.Errorf("the login was %s and is %s now: restart embedd", before, after)
	}
	trial, err := Dial(ctx, n, Options{})
	if err != nil {
		return nil, fmt.Errorf("connecting with the new login: %w", err)
	}
	trial.Close()
	return func() {
		c.relogin.Store(&t.login)
		if err := c.Leave(); err != nil {
			c.log.Debug("the connection cannot be closed; the next one uses the new login", "error", err)
		}
	}, nil
}

// dialer connects, through a SOCKS proxy if there is one. It keeps the connection for Leave and counts the bytes
// received.
type dialer struct {
	proxy string
	conn  *Conn
}

func (d *dialer) Dial(network, address string) (raw net.Conn, err error) {
	if raw, err = d.dial(network, address); err != nil {
		return nil, err
	}
	d.conn.mu.Lock()
	defer d.conn.mu.Unlock()
	d.conn.raw = raw
	return countingConn{raw, &d.conn.received}, nil
}

// countingConn is a network connection that counts the bytes received.
type countingConn struct {
	net.Conn
	bytes *atomic.Uint64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(uint64(n))
	return n, err
}

func (d *dialer) dial(network, address string) (net.Conn, error) {
	if d.proxy == "" {
		return net.DialTimeout(network, address, nats.DefaultTimeout)
	}
	u, err := url.Parse(d.proxy)
	if err != nil {
		return nil, errors.New("the context's socks_proxy is not a URL")
	}
	through, err := proxy.FromURL(u, proxy.Direct)
	if err != nil {
		return nil, fmt.Errorf("the context's socks_proxy: %w", err)
	}
	return through.Dial(network, address)
}

// options are the options of the client.
func (c *Conn) options() ([]nats.Option, error) {
	t := c.target
	options := []nats.Option{
		nats.Name("embedd"),
		nats.MaxReconnects(-1),
		// Otherwise the client would close the connection when a server refuses the login twice.
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(c.backoff),
		nats.PingInterval(20 * time.Second), // detects a dead peer within a minute; the default takes four
		nats.PermissionErrOnSubscribe(true),
		nats.DisconnectErrHandler(c.onDisconnect),
		nats.ReconnectHandler(c.onReconnect),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.recordFailure(err) }),
		nats.ErrorHandler(c.onError),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.SetCustomDialer(&dialer{t.proxy, c}),
	}
	if t.inbox != "" {
		options = append(options, nats.CustomInboxPrefix(t.inbox))
	}
	if t.tls.CA != "" {
		options = append(options, nats.RootCAs(t.tls.CA))
	}
	if t.tls.Cert != "" {
		options = append(options, nats.ClientCert(t.tls.Cert, t.tls.Key))
	}
	if t.tls.First {
		options = append(options, nats.TLSHandshakeFirst())
	}
	id, login, err := c.identity()
	if err != nil {
		return nil, err
	}
	if id.JWT == "" && id.Seed != "" {
		return append(options, c.key(id)...), nil
	}
	if login == (config.Login{}) {
		return options, nil
	}
	return append(options, c.login()...), nil
}

// login gives the client one reading of the login at each connect. The client asks for the user first.
func (c *Conn) login() []nats.Option {
	var id config.Identity
	var err error
	return []nats.Option{
		nats.UserInfoHandler(func() (string, string) {
			if id, _, err = c.identity(); err == nil && id.JWT == "" && id.Seed != "" {
				err = errors.New("the login was a user, a token or a JWT and is an NKey now: restart embedd")
			}
			return id.User, id.Password
		}),
		nats.UserJWT(func() (string, error) { return id.JWT, err },
			func(nonce []byte) ([]byte, error) { return id.Sign(nonce) }),
		nats.TokenHandler(func() string { return id.Token }),
	}
}

// key signs with a seed alone. The client keeps the public key, which may change with the seed's file, so it is set
// before each attempt, while the client holds the lock of its options.
func (c *Conn) key(id config.Identity) []nats.Option {
	public, err := id.Public()
	return []nats.Option{
		nats.Nkey(public, func(nonce []byte) ([]byte, error) {
			if err != nil {
				return nil, err
			}
			return id.Sign(nonce)
		}),
		nats.ReconnectToServer(func([]nats.Server, nats.ServerInfo) (*nats.Server, time.Duration) {
			if id, _, err = c.identity(); err == nil {
				public, err = id.Public()
			}
			if nc := c.nc(); nc != nil && err == nil {
				nc.Opts.Nkey = public
			}
			return nil, 0
		}),
	}
}
