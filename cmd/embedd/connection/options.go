package connection

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/cmd/embedd/config"
)

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
		nats.DisconnectErrHandler(c.disconnected),
		nats.ReconnectHandler(c.reconnected),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.failed(err) }),
		nats.ErrorHandler(c.reported),
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
	id, login, err := t.identity()
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
			if id, _, err = c.target.identity(); err == nil && id.JWT == "" && id.Seed != "" {
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
	read := func() {
		if id, _, err = c.target.identity(); err == nil {
			public, err = id.Public()
		}
	}
	return []nats.Option{
		nats.Nkey(public, func(nonce []byte) ([]byte, error) {
			if err != nil {
				return nil, err
			}
			return id.Sign(nonce)
		}),
		nats.ReconnectToServer(func([]nats.Server, nats.ServerInfo) (*nats.Server, time.Duration) {
			if read(); err == nil {
				if nc := c.nc(); nc != nil {
					nc.Opts.Nkey = public
				}
			}
			return nil, 0
		}),
	}
}
