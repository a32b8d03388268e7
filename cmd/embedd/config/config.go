// Package config reads the configuration of the daemon from YAML and reports every problem with its line and column.
// The table in spec.go has each key with its type, default, allowed values and description. The defaults, the decoder,
// the starter file and the reference page are derived from it.
package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/spell"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/registry"
)

// Config is a valid configuration. It is plain data and may be copied.
type Config struct {
	Role      string // all, transform or train
	Standby   string // warm or cold
	LogLevel  string // debug, info, warn or error
	NATS      NATS
	HTTP      HTTP
	Memory    int64      // bytes; 0: derived from the limits of the pipelines
	Pipelines []Pipeline // in the order of the file; at least one
	Notes     []Problem  // worth knowing, no errors

	file   string
	places places
}

// NATS is the connection to the server. Without URL and Context the daemon embeds a server.
type NATS struct {
	URL              string // one or more, separated by commas; may contain credentials: print Redacted instead
	Context          string // name of a context of the nats CLI
	Login            Login
	Users            map[string]Login // other logins, by the role that --user names
	InboxPrefix      string           // of reply subjects; "" is the default of the client
	Domain           string           // of JetStream
	Hub              string           // JetStream domain whose models are mirrored, or ""
	Edges            []string         // JetStream domains that send summaries
	EdgeBytes        int64
	TLS              TLS
	Wait             time.Duration // for the first connection
	AckWait          time.Duration // of the durable consumers
	MaxAckPending    int
	Replicas         string        // auto or a number
	Lease            time.Duration // of the trainer, if several daemons run a pipeline
	ModelSyncTimeout time.Duration // 0: never
	Streams          admin.Streams // without Replicas, which is above
}

// TLS holds paths of PEM files.
type TLS struct {
	CA, Cert, Key string
	First         bool // handshake before the server's INFO
}

// HTTP is the listener of metrics and probes.
type HTTP struct {
	Listen        string
	Cert, Key     string   // PEM files; TLS if they are set
	Hosts         []string // names that requests may be for, besides addresses and localhost
	TokenFile     string   // has the token that /metrics requires
	UsersFile     string   // has users and hashes of their passwords
	AllowInsecure bool     // allow addresses beyond loopback without TLS or token
	Operate       string   // whether requests may change something: auto, true or false
	Clients       int      // maximum number of open event streams
	Points        int      // maximum number of rows of the console's scatter plot
}

// WithUser returns the connection with the login of a role instead of its login.
func (n NATS) WithUser(role string) (NATS, error) {
	login, ok := n.Users[role]
	if !ok {
		roles := slices.Sorted(maps.Keys(n.Users))
		if len(roles) == 0 {
			return n, fmt.Errorf("there is no login %q: nats.users of the configuration has none; add nats.users.%s", role, role)
		}
		return n, fmt.Errorf("there is no login %q%s: nats.users of the configuration has %s", role,
			spell.Suggest(role, roles), strings.Join(roles, ", "))
	}
	n.Login = login
	if n.URL != "" {
		n.URL = strings.Join(Servers(n.URL), ",") // a user in the URL would be used instead
	}
	return n, nil
}

// MayOperate reports whether requests may change something: by default on loopback only.
func (h HTTP) MayOperate() bool { return h.Operate == "true" || h.Operate != "false" && h.Loopback() }

// Loopback reports whether the listener is reachable only from this machine.
func (h HTTP) Loopback() bool {
	host, _, _ := net.SplitHostPort(h.Listen)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Pipeline transforms the messages of an input subject to an output subject.
type Pipeline struct {
	Name     string // letters, digits, - and _: part of consumer and bucket names
	Input    Input
	Schema   Schema
	Output   Output
	Model    Model
	Training Training
	Limits   Limits
}

// Input is the source of the rows. An empty Stream is core NATS, at most once.
type Input struct {
	Stream, Subject string
	Labels          string // subject of late labels; empty: labels are in the messages of their rows
	Partitions      int    // number of partitions of the keys of Subject; 0: none
	DoubleAck       bool   // the server confirms acknowledgements
	Attempts        int    // after which a message that crashes the process is a dead letter
}

// Schema names the columns, and has the format of the messages. Label and Key may be empty.
type Schema struct {
	arrowio.Spec
	Nulls plugin.Nulls // or auto
}

// Output is the destination of outputs and dead letters.
type Output struct {
	arrowio.Output
	Subject, Dead string
}

// Model is the method, or with File a fixed model.
type Model struct {
	fit.Config // as in the file; Fit returns the one to fit with
	File       string
	Features   string // "linear" for the columns, or "nystroem" for kernels of Width between a row and the Landmarks
	Store      string // auto, none or a directory
	Keep       registry.Keep
	// Damaged is what a start does if the live model cannot be read: use the "previous" version, or "stop".
	Damaged string
}

// Training configures what models are trained on and when they go live.
type Training struct {
	plugin.Training        // Quota.By may be none
	Drift           string // true or false: whether drift cuts the window
	First           string // always or never: whether a first model goes live
	UntilReady      plugin.Until
	MaxAge          time.Duration // 0: no limit
	WhenStale       stream.WhenStale
}

// Limits are the limits of a pipeline. Sizes are in bytes.
type Limits struct {
	Message   int64
	Expanded  int64 // decompressed buffers of a message
	InFlight  int64
	Classes   int
	Model     int64
	Labels    int64         // of rows and labels that wait for each other
	LabelWait time.Duration // maximum time between a row and its label
	Bad       stream.Stop
}

// OutputPattern is the pattern of the subjects of outputs: a * for each {{wildcard(n)}}.
func (p *Pipeline) OutputPattern() string { return wildcard.Mapped(p.Output.Subject) }

// DefaultStore is the directory of the models of pipelines on core NATS, inside the store of the embedded server.
const DefaultStore = "embedd-data/models"

// StoreDirectory is the directory of the pipeline's models; "" if they are in JetStream, or nowhere.
func (p *Pipeline) StoreDirectory() string {
	switch {
	case p.Model.Store == "none", p.Model.Store == "auto" && p.Input.Stream != "":
		return ""
	case p.Model.Store == "auto":
		return DefaultStore
	}
	return p.Model.Store
}

// Names are the names of the pipelines.
func (c *Config) Names() []string {
	names := []string{}
	for _, p := range c.Pipelines {
		names = append(names, p.Name)
	}
	return names
}

// Embedded reports that no server is configured.
func (n NATS) Embedded() bool { return n.URL == "" && n.Context == "" }

// Fit is the configuration of a fit.
func (m Model) Fit() fit.Config {
	c := m.Config
	c.Dim = cmp.Or(c.Dim, fit.AutoDim)
	if m.Features != "nystroem" {
		c.Landmarks, c.Width = 0, 0
	}
	return c
}

// Redacted is the URL without its secrets, for logs.
func (n NATS) Redacted() string { return Redact(n.URL) }

// Redact removes user names, passwords, tokens and queries from a list of server URLs.
func Redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i := 0; i < len(parts); i++ {
		part := parts[i]
		// A password may have commas.
		if _, rest, ok := strings.Cut(part, "://"); ok && !strings.Contains(rest, "@") && i+1 < len(parts) &&
			strings.Contains(parts[i+1], "@") && !strings.Contains(parts[i+1], "://") && !port.MatchString(rest) {
			parts[i+1] = part + "," + parts[i+1]
			parts = slices.Delete(parts, i, i+1)
			part = parts[i]
		}
		scheme := ""
		if at := strings.Index(part, "://"); at >= 0 {
			scheme, part = part[:at+len("://")], part[at+len("://"):]
		}
		if at := strings.LastIndex(part, "@"); at >= 0 {
			part = "xxxxx@" + part[at+1:]
		}
		if at := strings.IndexAny(part, "?#"); at >= 0 {
			part = part[:at+1] + "xxxxx"
		}
		parts[i] = scheme + part
	}
	return strings.Join(parts, ",")
}

// port ends an address.
var port = regexp.MustCompile(`:[0-9]+$`)

// Problem is one finding in a file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // from 1
	Column  int    `json:"column"` // from 1, in characters
	Key     string `json:"key"`    // such as pipelines.digits.model.dim; empty for the whole file
	Message string `json:"message"`
}

func (p Problem) String() string {
	key := p.Key
	if key != "" {
		key += ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, key, p.Message)
}

// Problems are the errors of a configuration in the order of the file. As an error it is never empty.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Problem describes a problem of a key that was found after the file was read, such as model.dim of a pipeline.
func (c *Config) Problem(pipeline, key, format string, args ...any) Problem {
	path := actual(key, pipeline)
	at := c.places.nearest(path)
	return Problem{c.file, at.line, at.column, path, fmt.Sprintf(format, args...)}
}

// maxFile is the maximum size of a configuration.
const maxFile = 1 << 20

// Load reads and checks a file and the files that it names. The error is Problems if the content is invalid.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%s does not exist: `embedd init -o %s` writes a starter file", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return parse(path, data, os.LookupEnv, true)
}

// Parse checks the content of a file. name is used in problems; env looks up ${NAME}. It opens no file, and the error
// is always Problems.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	return parse(name, data, env, false)
}

func parse(name string, data []byte, env func(string) (string, bool), files bool) (*Config, error) {
	d := &document{file: name, env: env, files: files, places: places{}}
	c := d.decode(data)
	d.lint(c) // also after problems: all are reported together
	sortByPlace(d.problems)
	sortByPlace(d.notes)
	if len(d.problems) > 0 {
		return nil, Problems(d.problems)
	}
	c.Notes, c.file, c.places = d.notes, d.file, d.places
	return c, nil
}
