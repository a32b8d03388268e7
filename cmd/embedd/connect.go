package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// connect reaches the server that n names, trying again until wait is over. The connection that it returns reconnects
// for ever. More options go over those of n.
func connect(ctx context.Context, n config.NATS, wait time.Duration, more ...nats.Option) (*nats.Conn, error) {
	if n.Context == "" {
		// The client's own error would hold the URL with its password.
		if err := config.CheckURL(n.URL); err != nil {
			return nil, usagef("--server, NATS_URL or nats.url: %w", err)
		}
	}
	options := append(connectOptions(n), more...)
	deadline := time.Now().Add(wait)
	for {
		nc, err := connectOnce(n, options)
		if err == nil {
			return nc, nil
		}
		switch {
		case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired),
			errors.Is(err, nats.ErrAuthRevoked):
			return nil, fmt.Errorf("the NATS server (%s) refuses the credentials: %w: check nats.creds, nats.context or the user in the URL", serverOf(n), err)
		case !waits(err):
			return nil, fmt.Errorf("connecting to NATS (%s): %w", serverOf(n), err)
		case time.Now().Add(retryPause).After(deadline):
			return nil, fmt.Errorf("no NATS server answers (%s) within %v: %w: start one (nats-server -js), or name another with --server, NATS_URL or nats.url", serverOf(n), wait, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retryPause):
		}
	}
}

const retryPause = 250 * time.Millisecond

// waits says whether another try may do better: no server listens yet. Everything else is a fault of the configuration.
func waits(err error) bool {
	var unreachable interface{ Timeout() bool } // net.Error, without its deprecated part
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &unreachable)
}

func connectOnce(n config.NATS, options []nats.Option) (*nats.Conn, error) {
	if n.Context != "" {
		nc, _, err := natscontext.Connect(n.Context, options...)
		return nc, err
	}
	return nats.Connect(n.URL, options...)
}

func connectOptions(n config.NATS) []nats.Option {
	options := []nats.Option{
		nats.Name("embedd"),
		nats.MaxReconnects(-1),
		nats.PingInterval(20 * time.Second), // a dead peer is seen within a minute; the client's default takes four
	}
	if n.Creds != "" {
		options = append(options, nats.UserCredentials(n.Creds))
	}
	if n.TLS.CA != "" {
		options = append(options, nats.RootCAs(n.TLS.CA))
	}
	if n.TLS.Cert != "" {
		options = append(options, nats.ClientCert(n.TLS.Cert, n.TLS.Key))
	}
	if n.TLS.First {
		options = append(options, nats.TLSHandshakeFirst())
	}
	return options
}
