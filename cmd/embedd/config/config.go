// Package config reads the configuration of the daemon: YAML, strict, with every problem reported at its line and
// column.
//
// One table (spec.go) holds each key with its type, default, allowed values and sentence. The defaults, the decoder,
// the starter file and the reference page all come from it.
package config

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// Config is a checked configuration. It is plain data: nothing is opened, and it may be copied.
type Config struct {
	Role      string // all, transform or train
	Standby   string // warm or cold
	NATS      NATS
	HTTP      HTTP
	Memory    int64      // bytes that the process may take; 0: what its pipelines' limits come to
	Pipelines []Pipeline // in the order of the file; at least one
	Notes     []Problem  // worth knowing, not wrong
}

// NATS says how to reach the server. With neither URL nor Context, the daemon embeds a server.
type NATS struct {
	URL         string // one or more, separated by commas; may hold credentials: print Redacted instead
	Context     string // name of a context of the nats command line tool
	Login       Login
	InboxPrefix string   // of the subjects of answers; "" is the client's own
	Domain      string   // of JetStream
	Hub         string   // JetStream domain whose models are mirrored; "": none
	Edges       []string // JetStream domains that send summaries
	EdgeBytes   int64
	TLS         TLS
	Wait        time.Duration // for the first connection
	AckWait     time.Duration // of the durable consumers
	AckPending  int
	Replicas    string        // auto or a number
	Lease       time.Duration // of learning, where several daemons run one pipeline
	AdoptWithin time.Duration // 0: never
	Streams     Streams
}

// Streams are the limits of streams that setup makes; 0 is none.
type Streams struct {
	MaxBytes   int64
	MaxAge     time.Duration
	Duplicates time.Duration
}

// TLS holds paths of PEM files.
type TLS struct {
	CA, Cert, Key string
	First         bool // handshake before the server's INFO
}

// HTTP is the listener of the console, metrics and health.
type HTTP struct {
	Listen    string
	Cert, Key string // PEM files; TLS where they are given
	TokenFile string // holds the token that all but the probes want
	Open      bool   // beyond loopback without either
}

// Loopback tells whether only this machine reaches the listener.
func (h HTTP) Loopback() bool {
	host, _, _ := net.SplitHostPort(h.Listen)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Pipeline is one way from an input subject to an output subject.
type Pipeline struct {
	Name     string // letters, digits, - and _: it is part of consumer and bucket names
	Input    Input
	Schema   Schema
	Output   Output
	Model    Model
	Training Training
	Limits   Limits
}

// Input is where the rows come from. An empty Stream is core NATS: at most once.
type Input struct {
	Stream, Subject string
	Labels          string // subject of labels that come apart from their rows; empty: they come with them
	Partitions      int    // that the stream puts the keys of Subject into; 0: none
	DoubleAck       bool   // acknowledgements are confirmed
	Attempts        int    // with which a message is a dead letter where the process died each time
}

// Schema names the columns. Label and Key are empty when there is none.
type Schema struct {
	Features   []string       // names or globs
	Sizes      map[string]int // elements of those that are written with a size: 1 is a column of numbers
	Label, Key string
	Nulls      string // reject, impute or skip
}

// Output is where the reduced rows and the dead letters go.
type Output struct {
	Subject     string
	Column      string
	Columns     bool     // d columns instead of one list column
	Keep        []string // "all" or "none" alone, else names or globs
	Dead        string
	Compression string // none, lz4 or zstd
}

// Model says what is fitted, or with File which fixed model is served.
type Model struct {
	File   string
	Method string
	Blend  int // of the best candidates of method auto so many count
	Dim    int // 0: the method's default
	Scale  string
	// Features are those of the rows, "linear", or with "nystroem" what Landmarks make of them by kernels of this Width.
	Features  string
	Landmarks int
	Width     float64
	Params    map[string]string // ridge among them, when it was given
	Seed      uint64
	Store     string // auto, none or a directory
	Keep      Keep
	// Damaged says what a start does where the live model cannot be read: goes on with "previous", or "stop"s.
	Damaged string
}

// Keep says how many versions stay in the store beside the live, the previous and the pinned one.
type Keep struct {
	Versions int
	Age      time.Duration // 0: no bound
}

// Quota bounds what one source can do to what is learned.
type Quota struct {
	By    string // "" or none, subject, key
	Share float64
}

// Training says what is learned from and when a model goes live.
type Training struct {
	Window     Window
	Quota      Quota
	Every      Every
	Holdout    float64 // fraction of the window
	Gate       Gate
	Align      string        // none, sign, block or rigid
	UntilReady string        // hold, pca or skip
	MaxAge     time.Duration // 0: no bound
	WhenStale  string        // serve, hold or pass
	Block      int           // messages; 0: none
}

// Window bounds the labelled rows that are kept.
type Window struct {
	Rows    int
	Bytes   int64
	Age     time.Duration // 0: no bound
	Balance string        // none or class
}

// Every says when to look at all candidates again: after Rows new labelled rows or after Period, whichever is first.
type Every struct {
	Rows   int
	Period time.Duration // 0: by rows alone
	Drift  string        // true or false: whether a change of the rows cuts the window
}

// Gate says how much must speak for a candidate.
type Gate struct{ Evidence, Margin float64 }

// Limits bound what one pipeline may hold. Sizes are bytes.
type Limits struct {
	Message  int64
	Expanded int64 // of one message: its buffers, unpacked
	Rows     int
	Features int
	InFlight int64
	Classes  int
	Model    int64
	Labels   int64 // of the rows and labels that wait for one another

	LabelWait time.Duration // most time between them

	Bad, BadOf int // so many bad messages of the newest so many halt the pipeline; 0: never
}

// Embedded says that no server is configured.
func (n NATS) Embedded() bool { return n.URL == "" && n.Context == "" }

// Fit is how to fit, in the terms of package model.
func (m Model) Fit() fit.Config {
	dim := m.Dim
	if dim == 0 {
		dim = fit.AutoDim
	}
	c := fit.Config{Method: m.Method, Dim: dim, Blend: m.Blend, Scale: model.Scale(m.Scale), Params: m.Params,
		Seed: m.Seed}
	if m.Features == "nystroem" {
		c.Landmarks, c.Width = m.Landmarks, m.Width
	}
	return c
}

// Redacted is the URL without its secrets, for logs.
func (n NATS) Redacted() string { return Redact(n.URL) }

// Redact takes user names, passwords and tokens out of a list of server URLs.
func Redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i, part := range parts {
		at := strings.LastIndex(part, "@")
		if at < 0 {
			continue
		}
		scheme, _, ok := strings.Cut(part[:at], "://")
		if ok {
			scheme += "://"
		} else {
			scheme = ""
		}
		parts[i] = scheme + "xxxxx@" + part[at+1:]
	}
	return strings.Join(parts, ",")
}

// Problem is one finding in a file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // from 1
	Column  int    `json:"column"` // from 1, in characters
	Key     string `json:"key"`    // as in pipelines.digits.model.dim; empty for the file as a whole
	Message string `json:"message"`
}

func (p Problem) String() string {
	key := p.Key
	if key != "" {
		key += ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, key, p.Message)
}

// Problems are all findings that make a configuration unusable, in the order of the file. It is never empty as an
// error.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// maxFile bounds what is read: a configuration is written by hand.
const maxFile = 1 << 20

// Load reads and checks a file, and the files it names. The error is Problems when the content is wrong.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%s does not exist: `embedd init -o %s` writes one to start from", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return parse(path, data, os.LookupEnv, true)
}

// Parse checks the content of a file; name is used in problems and env looks up ${NAME}. It opens no file and the error
// is always Problems.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	return parse(name, data, env, false)
}

func parse(name string, data []byte, env func(string) (string, bool), files bool) (*Config, error) {
	d := &document{file: name, env: env, files: files, places: map[string]place{}}
	c := d.decode(data)
	d.lint(c) // even after problems: all are reported at once
	sortByPlace(d.problems)
	sortByPlace(d.notes)
	if len(d.problems) > 0 {
		return nil, Problems(d.problems)
	}
	c.Notes = d.notes
	return c, nil
}
