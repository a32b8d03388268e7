package main

import (
	"context"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
)

// clientWait is how long a verb other than run waits for its connection.
const clientWait = 5 * time.Second

// address is what the command line says of the server, over the configuration.
type address struct{ url, context, creds *string }

func (f *flags) address(about string) *address {
	a := &address{
		f.String("server", "", about),
		f.String("context", "", "`NAME` of a context of the nats tool, instead of --server"),
		f.String("creds", "", "credentials `FILE`"),
	}
	f.command.MarkFlagsMutuallyExclusive("server", "context")
	f.command.MarkFlagsMutuallyExclusive("creds", "context")
	return a
}

// given tells whether the command line says anything of the server.
func (a *address) given() bool { return *a.url != "" || *a.context != "" }

// over puts what was given over a configuration.
func (a *address) over(n config.NATS) config.NATS {
	if *a.url != "" {
		n.URL, n.Context = *a.url, ""
	}
	if *a.context != "" {
		n.URL, n.Context, n.Login = "", *a.context, config.Login{}
	}
	if *a.creds != "" {
		n.Login = config.Login{Creds: *a.creds}
	}
	return n
}

// serverFlags say which server a verb without a configuration of its own talks to, and who it is there.
type serverFlags struct {
	*address
	config *string
}

// server declares them; of says whose server it is.
func (f *flags) server(of string) *serverFlags {
	return &serverFlags{
		f.address("NATS `URL`" + of + " (default that of -c, else NATS_URL, else nats://127.0.0.1:4222)"),
		f.StringP("config", "c", "", "configuration `FILE` whose nats section says how to connect and who"),
	}
}

// dial connects as the flags say.
func (s *serverFlags) dial(ctx context.Context, e *env) (*connection.Conn, error) {
	var n config.NATS
	if *s.config != "" {
		c, err := loadConfig(*s.config)
		if err != nil {
			return nil, err
		}
		n = c.NATS
	}
	return dial(ctx, e, usual(s.over(n)))
}

// usual is the server where none is named.
func usual(n config.NATS) config.NATS {
	if n.Embedded() {
		if n.URL = os.Getenv("NATS_URL"); n.URL == "" {
			n.URL = nats.DefaultURL
		}
	}
	return n
}

// dial connects a verb that is no daemon.
func dial(ctx context.Context, e *env, n config.NATS) (*connection.Conn, error) {
	if err := checkAddress(n); err != nil {
		return nil, err
	}
	nc, err := connection.Dial(ctx, n, connection.Options{Wait: clientWait})
	if err != nil {
		return nil, err
	}
	e.conns = append(e.conns, nc)
	return nc, nil
}

// checkAddress looks at what came from the command line or the environment.
func checkAddress(n config.NATS) error {
	if n.Context != "" {
		return nil
	}
	if err := config.CheckURL(n.URL); err != nil {
		return usagef("--server, NATS_URL or nats.url: %w", err)
	}
	if _, err := config.LoginOf(n.URL); err != nil {
		return usagef("--server, NATS_URL or nats.url: %w", err)
	}
	return nil
}

// dialServer connects to the embedded server without a socket between.
func dialServer(ctx context.Context, s *server.Server, o connection.Options) (*connection.Conn, error) {
	o.Server = s
	return connection.Dial(ctx, config.NATS{}, o)
}
