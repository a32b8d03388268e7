package connection

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"golang.org/x/net/proxy"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// target is what a configuration comes to.
type target struct {
	where   string // for messages
	servers []string
	tls     config.TLS
	inbox   string
	prefix  string // of JetStream's requests
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
		if urls == "" {
			urls = nats.DefaultURL
		}
		if domain == "" {
			domain = c.Domain
		}
		if t.inbox == "" {
			t.inbox = c.InboxPrefix
		}
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
	// The client's own error would hold the address with its password.
	if err := config.CheckURL(urls); err != nil && urls != "" {
		return t, fmt.Errorf("the server's address: %w", err)
	}
	inURL, err := config.LoginOf(urls)
	if err != nil {
		return t, fmt.Errorf("the server's address: %w", err)
	}
	if inURL != (config.Login{}) && n.Context == "" {
		t.login = func() (config.Login, error) { return inURL, nil }
	}
	t.servers = config.Servers(urls)
	t.where += strings.Join(t.servers, ",")
	return t, nil
}

// identity is who connects now.
func (t target) identity() (config.Identity, config.Login, error) {
	l, err := t.login()
	if err != nil {
		return config.Identity{}, l, err
	}
	id, err := l.Read()
	return id, l, err
}

// dialer goes through a SOCKS proxy, where there is one, and keeps the way that it has made last, for Leave. It
// counts what comes on it.
type dialer struct {
	proxy string
	conn  *Conn
}

func (d *dialer) Dial(network, address string) (way net.Conn, err error) {
	if way, err = d.dial(network, address); err != nil {
		return nil, err
	}
	d.conn.mu.Lock()
	defer d.conn.mu.Unlock()
	d.conn.way = way
	return counted{way, &d.conn.received}, nil
}

// counted is a way to a server that counts what comes.
type counted struct {
	net.Conn
	bytes *atomic.Uint64
}

func (c counted) Read(p []byte) (int, error) {
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
