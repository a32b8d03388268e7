package needs

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream/spec"
)

// Need is one thing in a server that a pipeline uses. Setup, check, doctor and permissions are derived from all needs
// of a configuration: see [For].
type Need struct {
	Kind     Kind
	Purpose  string // what it holds or does, in the words of setup and doctor: "input", "model store"
	Pipeline string
	Why      string // a sentence

	Name       string  // of a bucket or consumer; of a stream, "" where any stream that takes Subject will do
	Subject    string  // of a stream, the subject of its messages; of a consumer, that of the messages it reads
	Partitions int     // of a stream, into which it maps the keys of Subject; 0: none
	Stream     string  // of a consumer, the one that it reads; "" = the stream that takes Subject
	Durable    bool    // of a consumer: it stays when its process ends
	Creator    Creator // who may create it
	Check      string  // of a bucket, the check of doctor that covers it; "" = none
	// Duplicates is the recommended duplicate window of a stream whose confirmations run waits for; 0: it does not.
	Duplicates time.Duration
	Storage

	Permissions []Permission
}

// Storage is how a bucket is stored, and how it is compared with the server and created.
type Storage struct {
	Streams []string // the names of its streams
	// Inspect compares it with the server; nil: it exists when its streams do.
	Inspect func(ctx context.Context, js jetstream.JetStream) (Inspection, error)
	// Create creates it, or changes an outdated one. replicas 0: three in a cluster that has as many servers, else one.
	Create func(ctx context.Context, js jetstream.JetStream, replicas int) error
}

// Inspection is how a bucket in the server differs from what is needed.
type Inspection struct {
	Exists   bool     // as it should be
	Limit    string   // why its size limit is not the configured one; or ""
	Missing  []string // the edges whose summaries it does not take
	Problem  string   // why it can neither be used nor created, with the fix; or ""
	Warning  string   // what else will not work, with the fix; or ""
	Messages uint64   // that it has
}

// IsOutdated reports whether it exists, and has to be changed.
func (in Inspection) IsOutdated() bool { return in.Limit != "" || len(in.Missing) > 0 }

// Kind is what kind of thing a need is.
type Kind string

// The kinds of needs.
const (
	Stream   Kind = "stream"   // takes a subject of the configuration
	Consumer Kind = "consumer" // reads one
	Bucket   Kind = "bucket"   // a bucket or a stream that belongs to embedd
	Subject  Kind = "subject"  // core NATS: only permissions are needed
)

// Creator is who creates what is needed.
type Creator string

// The creators.
const (
	BySetup      Creator = "setup"        // only setup, since its name, limits and subjects are for the user to decide
	BySetupOrRun Creator = "setup or run" // a daemon too, unless its permissions are the least ones
	ByRun        Creator = "run"          // each daemon as it starts
)

// Verb is a verb of the command line that has a server user with permissions of its own.
type Verb string

// The verbs, in the order in which their permissions are printed.
const (
	Run     Verb = "run"
	Publish Verb = "publish"
	Tail    Verb = "tail"
	Setup   Verb = "setup"
	Status  Verb = "status"
	Letters Verb = "dlq"
	Models  Verb = "model"
	Doctor  Verb = "doctor"
	Schema  Verb = "schema"
)

// Verbs are all verbs with permissions.
var Verbs = []Verb{Run, Publish, Tail, Setup, Status, Letters, Models, Doctor, Schema}

// Permission is what a verb has to be allowed: to publish to subjects, or to subscribe to them.
type Permission struct {
	Verb      Verb
	Subscribe bool
	Subjects  []string
}

// Config is what needs follow from.
type Config struct {
	Pipelines []spec.Pipeline
	APIPrefix string // of requests to JetStream; "" = $JS.API
	// StreamOf returns the name of the stream of a subject; nil: [StreamName].
	StreamOf func(subject string) string
}

// StreamName is the name that setup gives a new stream for a subject: the first token in capitals.
func StreamName(subject string) string {
	token, _, _ := strings.Cut(subject, ".")
	return strings.ToUpper(token)
}

// For lists the needs of all pipelines: for each in turn those of its streams, then those of each row of the table of
// buckets. Pipelines share streams and buckets: each lists them, with its own permissions.
func For(c Config) (all []Need) {
	a := newAPI(c)
	for i := range c.Pipelines {
		p := &c.Pipelines[i]
		all = append(all, service(a, p))
		switch {
		case p.Stream == "":
			all = append(all, coreSubjects(p))
		case !p.LearnsFromEdges(): // which has the rows
			all = append(all, streams(a, p)...)
			all = append(all, consumers(a, p)...)
		}
	}
	for _, row := range buckets {
		for i := range c.Pipelines {
			p := &c.Pipelines[i]
			if p.Stream == "" || !row.isNeeded(p) {
				continue
			}
			n := Need{Kind: Bucket, Purpose: row.purpose, Pipeline: p.Name, Why: row.why, Name: row.name,
				Creator: BySetupOrRun, Check: row.check, Storage: row.storage(p)}
			for verb, subjects := range row.permissions(a, p) {
				n.Permissions = append(n.Permissions, Permission{Verb: verb, Subjects: subjects})
			}
			all = append(all, n)
		}
	}
	for i := range all {
		n := &all[i]
		n.Permissions = append(n.Permissions, setupPermissions(a, n)...)
		for j := range n.Permissions {
			n.Permissions[j].Subjects = a.mapped(n.Permissions[j].Subjects)
		}
	}
	return all
}

// setupPermissions lets setup look at a need and create it.
func setupPermissions(a *api, n *Need) []Permission {
	var subjects []string
	add := func(stream string) {
		subjects = append(subjects, a.request("STREAM", "INFO", stream), a.request("STREAM", "CREATE", stream),
			a.request("STREAM", "UPDATE", stream))
	}
	switch n.Kind {
	case Stream:
		name := cmp.Or(n.Name, a.streamOf(n.Subject))
		add(name)
		subjects = append(subjects, a.request("CONSUMER", "LIST", name))
	case Bucket:
		for _, name := range n.Streams {
			add(name)
		}
	default:
		return nil
	}
	return []Permission{{Verb: Setup, Subjects: append(subjects, a.request("STREAM", "NAMES"), a.request("INFO"))}}
}

// Compare compares a bucket with the server. Without js nothing exists.
func (n *Need) Compare(ctx context.Context, js jetstream.JetStream) (in Inspection, err error) {
	if js == nil {
		return in, nil
	}
	if n.Inspect != nil {
		return n.Inspect(ctx, js)
	}
	for _, name := range n.Streams {
		have, err := stream(ctx, js, name)
		if have == nil {
			return Inspection{}, err
		}
		in.Messages += have.State.Msgs
	}
	in.Exists = true
	return in, nil
}

// PermissionsOf lists the subjects that a verb must be allowed to publish to and to subscribe to, sorted; inbox is
// among the latter. Doctor has the permissions of run and status too: it checks whether its user could run the
// pipelines, and requests the status of running ones.
func PermissionsOf(all []Need, verb Verb, inbox string) (publish, subscribe []string) {
	publish, subscribe = []string{}, []string{inbox}
	for _, n := range all {
		for _, p := range n.Permissions {
			switch {
			case p.Verb != verb && (verb != Doctor || p.Verb != Run && p.Verb != Status):
			case p.Subscribe:
				subscribe = append(subscribe, p.Subjects...)
			default:
				publish = append(publish, p.Subjects...)
			}
		}
	}
	slices.Sort(publish)
	slices.Sort(subscribe)
	return slices.Compact(publish), slices.Compact(subscribe)
}
