// Package client connects verbs to a NATS server and asks the daemons that run there.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/registry"
)

// ConnectTimeout is how long a verb other than run waits for its connection.
const ConnectTimeout = 5 * time.Second

// Address is the server and the login as the command line gives them. It overrides the configuration.
type Address struct{ url, context, creds, user *string }

// AddressFlags declares --server, --context, --creds and --user; about is the description of --server.
func AddressFlags(f *cli.Flags, about string) *Address {
	a := &Address{
		f.String("server", "", about),
		f.String("context", "", "`NAME` of a context of the nats CLI, instead of --server"),
		f.String("creds", "", "credentials `FILE`"),
		f.String("user", "", "log in as this `ROLE` of nats.users in the configuration"),
	}
	f.Exclusive("server", "context")
	f.Exclusive("creds", "user", "context")
	f.Complete("user", func(cmd *cobra.Command) []string { return slices.Sorted(maps.Keys(configOf(cmd).NATS.Users)) })
	return a
}

// configured is the value of a --server without one.
const configured = "the configured one"

// OrConfigured lets --server have no value: it is the configured server then.
func (a *Address) OrConfigured(f *cli.Flags) *Address {
	f.Optional("server", configured)
	return a
}

// IsSet reports whether the command line names a server.
func (a *Address) IsSet() bool { return *a.url != "" || *a.context != "" }

// Apply returns the configuration with the overrides of the command line.
func (a *Address) Apply(n config.NATS) (config.NATS, error) {
	if *a.url != "" && *a.url != configured {
		n.URL, n.Context = *a.url, ""
	}
	if *a.context != "" {
		n.URL, n.Context, n.Login = "", *a.context, config.Login{}
	}
	if *a.creds != "" {
		n.Login = config.Login{Creds: *a.creds}
	}
	if *a.user != "" {
		var err error
		if n, err = n.WithUser(*a.user); err != nil {
			return n, cli.Usagef("--user %s: %w", *a.user, err)
		}
	}
	return n, nil
}

// File is the configuration file of a verb, which has the pipelines.
type File struct {
	path *string
	read *config.Config // once read
}

// FileFlag declares the flag of a File; has completes its description.
func FileFlag(f *cli.Flags, has string) *File {
	return &File{path: f.StringP("config", "c", "", "configuration `FILE` that has "+has+" (default "+DefaultConfig+
		", if there is one)")}
}

// Server is the server of a verb, and the configuration that names it and the pipelines, if there is one.
type Server struct {
	*Address
	*File
}

// ServerFlags declares the flags of a Server. of completes the description of --server.
func ServerFlags(f *cli.Flags, of string) *Server {
	return &Server{
		Address: AddressFlags(f, "NATS `URL`"+of+" (default that of -c, else NATS_URL, else nats://127.0.0.1:4222)"),
		File:    FileFlag(f, "the server, the login and the pipelines"),
	}
}

// DefaultConfig is the configuration of the current directory.
const DefaultConfig = "embedd.yaml"

// Config reads the file of -c, by default embedd.yaml.
func (s *File) Config() (path string, c *config.Config, err error) {
	path = cmp.Or(*s.path, DefaultConfig)
	if s.read == nil {
		s.read, err = LoadConfig(path)
	}
	return path, s.read, err
}

// OptionalConfig is Config, except that it returns an empty configuration if -c is not given and there is no
// embedd.yaml, or if that has errors and the command line names the server.
func (s *Server) OptionalConfig() (*config.Config, error) {
	if _, err := os.Stat(DefaultConfig); *s.path == "" && errors.Is(err, fs.ErrNotExist) {
		return &config.Config{}, nil
	}
	_, c, err := s.Config()
	if err != nil && *s.path == "" && s.IsSet() {
		return &config.Config{}, nil
	}
	return c, err
}

// Pipeline returns the pipeline of the configuration with a name. If there is none, the error names those that it has.
func (s *File) Pipeline(name string) (*config.Pipeline, error) {
	path, c, err := s.Config()
	if err != nil {
		return nil, err
	}
	if p := find(c, name); p != nil {
		return p, nil
	}
	return nil, UnknownPipeline(path, name, c)
}

func find(c *config.Config, name string) *config.Pipeline {
	for i := range c.Pipelines {
		if c.Pipelines[i].Name == name {
			return &c.Pipelines[i]
		}
	}
	return nil
}

// UnknownPipeline is the error of a name that is not among those of the configuration in a file.
func UnknownPipeline(path, name string, c *config.Config) error {
	there := c.Names()
	return cli.Usagef("%s has no pipeline %q%s; it has %s", path, name, cli.DidYouMean(name, there), cli.Listed(there))
}

// Dial connects as the configuration and the flags say.
func (s *Server) Dial(ctx context.Context, e *cli.Env) (*connection.Conn, error) {
	c, err := s.OptionalConfig()
	if err != nil {
		return nil, err
	}
	n, err := s.Apply(c.NATS)
	if err != nil {
		return nil, err
	}
	nc, err := Dial(ctx, e, WithDefaultURL(n))
	if err != nil && n.Embedded() && len(c.Pipelines) > 0 && os.Getenv("NATS_URL") == "" {
		return nil, fmt.Errorf("%w; the configuration names no server: `embedd run` embeds one there", err)
	}
	return nc, err
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

// Dial connects a verb other than run. The connection explains the verb's error, and is closed at its end.
func Dial(ctx context.Context, e *cli.Env, n config.NATS) (*connection.Conn, error) {
	if err := CheckAddress(n); err != nil {
		return nil, err
	}
	nc, err := connection.Dial(ctx, n, connection.Options{Wait: ConnectTimeout, Inbox: Inbox(e.Verb)})
	if err != nil {
		return nil, err
	}
	e.OnError(nc.Explain)
	e.OnEnd(nc.Close)
	return nc, nil
}

// JetStream takes the results of Dial, and returns the connection's JetStream context.
func JetStream(nc *connection.Conn, err error) (jetstream.JetStream, error) {
	if err != nil {
		return nil, err
	}
	return nc.JetStream()
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
		return nil, cli.Usagef("%w", err)
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

// Open opens the model store of a pipeline or version; of "" the one that all pipelines of the configuration have. It
// is that of --store, else a directory that the configuration names, else that of the server.
func (s *Store) Open(ctx context.Context, e *cli.Env, name string) (store registry.Store, err error) {
	directory := *s.directory
	if directory == "" {
		if directory, err = s.configured(name); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(directory); errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("--store %s: no such directory", directory)
	}
	if directory != "" {
		return registry.Directory(directory)
	}
	js, err := JetStream(s.server.Dial(ctx, e))
	if err != nil {
		return nil, err
	}
	store, err = registry.JetStream(ctx, js)
	if errors.Is(err, context.DeadlineExceeded) { // for example, the server denied the request
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w; a pipeline without input.stream keeps its models in a directory: name it with "+
			"--store", err)
	}
	return store, nil
}

// configured is the directory of the models of a pipeline or version as the configuration names it; "" if it names
// none, or the command line names a server.
func (s *Store) configured(name string) (directory string, err error) {
	c, err := s.server.OptionalConfig()
	if err != nil || s.server.IsSet() {
		return "", err
	}
	if pipeline, ok := registry.PipelineOf(name); ok && find(c, name) == nil {
		name = pipeline
	}
	for i := range c.Pipelines {
		p := &c.Pipelines[i]
		switch own := p.StoreDirectory(); {
		case name != "" && p.Name != name:
		case own == "", directory != "" && own != directory:
			return "", nil
		default:
			directory = own
		}
	}
	if _, err := os.Stat(directory); directory != "" && errors.Is(err, fs.ErrNotExist) {
		return "", cli.Usagef("there are no models yet: the configuration stores them in %s, which does not exist here; "+
			"name another directory with --store, or a server with --server", directory)
	}
	return directory, nil
}

// completionTimeout is how long a shell waits for the names that a server has.
const completionTimeout = time.Second

// configOf is the configuration of a command line that is being typed; empty if it cannot be read.
func configOf(cmd *cobra.Command) *config.Config {
	path := DefaultConfig
	if d := cmd.Flags().Lookup("config"); d != nil && d.Value.String() != "" {
		path = d.Value.String()
	}
	if c, err := config.Load(path); err == nil {
		return c
	}
	return &config.Config{}
}

// Pipelines completes a word with the pipelines of the configuration.
func Pipelines(cmd *cobra.Command) []string { return configOf(cmd).Names() }

// Models completes a word with the pipelines of the configuration, and the versions in the model store.
func (s *Store) Models(cmd *cobra.Command) []string {
	all := Pipelines(cmd)
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	quiet := &cli.Env{Stdout: io.Discard, Stderr: io.Discard, Verb: "model show"}
	defer quiet.End()
	store, err := s.Open(ctx, quiet, "")
	if err != nil {
		return all
	}
	there, err := registry.Pipelines(ctx, store)
	if err != nil {
		return all
	}
	for _, name := range there {
		p, err := registry.New(store, name, registry.Options{}).Pointer(ctx)
		if err != nil {
			continue
		}
		for _, l := range p.List(name) {
			all = append(all, l.Name)
		}
	}
	return all
}

// CompleteModels completes an argument with the models, and with files.
func (s *Store) CompleteModels(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	return s.Models(cmd), cobra.ShellCompDirectiveDefault
}
