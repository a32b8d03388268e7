// Package client connects verbs to a NATS server and asks the daemons that run there.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/registry"
)

// ConnectTimeout is how long a verb other than run waits for its connection.
const ConnectTimeout = 5 * time.Second

// Address is the server as the command line gives it. It overrides the configuration.
type Address struct{ url, context, creds *string }

// AddressFlags declares --server, --context and --creds; about is the description of --server.
func AddressFlags(f *cli.Flags, about string) *Address {
	a := &Address{
		f.String("server", "", about),
		f.String("context", "", "`NAME` of a context of the nats CLI, instead of --server"),
		f.String("creds", "", "credentials `FILE`"),
	}
	f.Exclusive("server", "context")
	f.Exclusive("creds", "context")
	return a
}

// IsSet reports whether the command line names a server.
func (a *Address) IsSet() bool { return *a.url != "" || *a.context != "" }

// Apply returns the configuration with the overrides of the command line.
func (a *Address) Apply(n config.NATS) config.NATS {
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

// Server is the server of a verb that needs no pipeline configuration, and the credentials for it.
type Server struct {
	*Address
	config *string
}

// ServerFlags declares the flags of a Server. of completes the description of --server.
func ServerFlags(f *cli.Flags, of string) *Server {
	return &Server{
		AddressFlags(f, "NATS `URL`"+of+" (default that of -c, else NATS_URL, else nats://127.0.0.1:4222)"),
		f.StringP("config", "c", "", "configuration `FILE` whose nats section has the server and the login (default "+
			"embedd.yaml, if there is one and no server is named)"),
	}
}

// defaultConfig is the configuration of the current directory.
const defaultConfig = "embedd.yaml"

// Config reads the file of -c, by default embedd.yaml, which the connection uses too.
func (s *Server) Config() (path string, c *config.Config, err error) {
	*s.config = cmp.Or(*s.config, defaultConfig)
	c, err = LoadConfig(*s.config)
	return *s.config, c, err
}

// Dial connects as the flags say.
func (s *Server) Dial(ctx context.Context, e *cli.Env) (*connection.Conn, error) {
	var n config.NATS
	if _, err := os.Stat(defaultConfig); *s.config == "" && !s.IsSet() && err == nil {
		*s.config = defaultConfig
	}
	if *s.config != "" {
		c, err := LoadConfig(*s.config)
		if err != nil {
			return nil, err
		}
		n = c.NATS
	}
	return Dial(ctx, e, WithDefaultURL(s.Apply(n)))
}

// WithDefaultURL fills in NATS_URL or the default URL if the configuration names no server.
func WithDefaultURL(n config.NATS) config.NATS {
	if n.Embedded() {
		n.URL = cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL)
	}
	return n
}

// Inbox is what follows the prefix of reply subjects in those of a verb: its role.
func Inbox(verb string) string { return string(admin.RoleOf(verb)) }

// Dial connects a verb other than run. The connection explains the verb's error.
func Dial(ctx context.Context, e *cli.Env, n config.NATS) (*connection.Conn, error) {
	if err := CheckAddress(n); err != nil {
		return nil, err
	}
	nc, err := connection.Dial(ctx, n, connection.Options{Wait: ConnectTimeout, Inbox: Inbox(e.Verb)})
	if err != nil {
		return nil, err
	}
	e.OnError(nc.Explain)
	return nc, nil
}

// JetStream takes the results of Dial, and returns the connection's JetStream context and the function that closes it.
func JetStream(nc *connection.Conn, err error) (jetstream.JetStream, func(), error) {
	if err != nil {
		return nil, nil, err
	}
	js, err := nc.JetStream()
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return js, nc.Close, nil
}

// CheckAddress returns a usage error if the URL, which may come from the command line or the environment, is invalid.
func CheckAddress(n config.NATS) error {
	if n.Context != "" {
		return nil
	}
	if err := config.CheckURL(n.URL); err != nil {
		return cli.Usagef("--server, NATS_URL or nats.url: %w", err)
	}
	if _, err := config.LoginOf(n.URL); err != nil {
		return cli.Usagef("--server, NATS_URL or nats.url: %w", err)
	}
	return nil
}

// LoadConfig reads a configuration. Its error is a usage error that lists every problem.
func LoadConfig(path string) (*config.Config, error) {
	c, err := config.Load(path)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	return c, nil
}

// Store is the model store of a verb.
type Store struct {
	server    *Server
	directory *string
}

// StoreFlags declares the flags of a verb that reads or changes the model store.
func StoreFlags(f *cli.Flags) *Store {
	return &Store{
		ServerFlags(f, " of the model store"),
		f.String("store", "", "`DIRECTORY` of the model store, if model.store is one"),
	}
}

// Open opens the store that the flags name. The caller calls done.
func (s *Store) Open(ctx context.Context, e *cli.Env) (store registry.Store, done func(), err error) {
	if *s.directory != "" {
		if _, err := os.Stat(*s.directory); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, cli.Usagef("--store %s: no such directory", *s.directory)
		}
		store, err = registry.Directory(*s.directory)
		return store, func() {}, err
	}
	js, done, err := JetStream(s.server.Dial(ctx, e))
	if err != nil {
		return nil, nil, err
	}
	if store, err = registry.JetStream(ctx, js); err != nil {
		done()
		return nil, nil, fmt.Errorf("%w; a pipeline without input.stream keeps its models in a directory: name it with "+
			"--store", err)
	}
	return store, done, nil
}
