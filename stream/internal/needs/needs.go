package needs

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// Need is one thing in a server that a pipeline uses. Setup, check, doctor and permissions are derived from all needs
// of a configuration: see [For].
type Need struct {
	Kind     Kind
	Purpose  string // what it holds or does, in the words of setup and doctor: "input", "model store"
	Pipeline string

	Name       string // of a bucket or consumer; of a stream, "" where any stream that takes Subject will do
	Subject    string // of a stream, the subject of its messages; of a consumer, that of the messages it reads
	Partitions int    // of a stream, into which it maps the keys of Subject; 0: none
	Stream     string // of a consumer, the one that it reads; "" = the stream that takes Subject
	Durable    bool   // of a consumer: it stays when its process ends
	Check      string // of a bucket, the check of doctor that covers it; "" = none
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

// Permission is a NATS permission that a role needs: to publish to some subjects, or to subscribe to them.
type Permission struct {
	Role      Role
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

// For lists the needs of all pipelines: first the streams of each pipeline, then the rows of the table of buckets.
// Pipelines share streams and buckets: each pipeline lists them, with its own permissions.
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
			n := Need{Kind: Bucket, Purpose: row.purpose, Pipeline: p.Name, Name: row.name, Check: row.check,
				Storage: row.storage(p)}
			for role, subjects := range row.permissions(a, p) {
				n.Permissions = append(n.Permissions, Permission{Role: role, Subjects: subjects})
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

// setupPermissions let roles look at a need, and setup create it.
func setupPermissions(a *api, n *Need) []Permission {
	inspect := []string{a.request("STREAM", "NAMES"), a.request("INFO")}
	var create []string
	add := func(stream string) {
		inspect = append(inspect, a.request("STREAM", "INFO", stream))
		create = append(create, a.request("STREAM", "CREATE", stream), a.request("STREAM", "UPDATE", stream))
	}
	switch n.Kind {
	case Stream:
		name := cmp.Or(n.Name, a.streamOf(n.Subject))
		add(name)
		inspect = append(inspect, a.request("CONSUMER", "LIST", name))
	case Bucket:
		for _, name := range n.Streams {
			add(name)
		}
	default:
		return nil
	}
	return []Permission{{Role: RoleSetup, Subjects: create}, {Role: inspection, Subjects: inspect}}
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

// api names what requests to JetStream are published to.
type api struct {
	prefix   string // with a dot at its end
	streamOf func(subject string) string
}

func newAPI(c Config) *api {
	a := &api{prefix: jetstream.DefaultAPIPrefix, streamOf: c.StreamOf}
	if c.APIPrefix != "" {
		a.prefix = strings.TrimSuffix(c.APIPrefix, ".") + "."
	}
	if a.streamOf == nil {
		a.streamOf = StreamName
	}
	return a
}

func (a *api) request(tokens ...string) string { return a.prefix + strings.Join(tokens, ".") }

// put is the subject on which the key of a bucket is written.
func (a *api) put(key string) string {
	if a.prefix != jetstream.DefaultAPIPrefix {
		return a.prefix + key // the subject on which nats.go writes into a domain
	}
	return key
}

// read is what an ephemeral consumer of the daemon needs on one subject. Its name is random, so the daemon may delete
// any consumer of the stream: a permission cannot distinguish them. Other roles read with readAs.
func (a *api) read(stream, subject string) []string {
	return []string{a.request("STREAM", "INFO", stream), a.request("CONSUMER", "CREATE", stream, "*", subject),
		a.request("CONSUMER", "MSG", "NEXT", stream, "*"), a.request("CONSUMER", "DELETE", stream, "*")}
}

// readAs is what a reader of one subject needs that is not the daemon: a consumer with one of the names of
// [natsx.ReaderNames], and this subject. A wildcard would include the durable consumers of the stream.
func (a *api) readAs(stream, subject string) []string {
	subjects := []string{a.request("STREAM", "INFO", stream)}
	for _, name := range natsx.ReaderNames {
		subjects = append(subjects, a.request("CONSUMER", "CREATE", stream, name, subject),
			a.request("CONSUMER", "MSG", "NEXT", stream, name), a.request("CONSUMER", "DELETE", stream, name))
	}
	return subjects
}

// follow is what following keys of a pipeline in a bucket needs, and announcing changes of them.
func (a *api) follow(pipeline, bucket string) []string {
	return []string{a.request("STREAM", "INFO", "KV_"+bucket), a.request("STREAM", "MSG", "GET", "KV_"+bucket),
		natsx.ChangedSubject(pipeline, bucket)}
}

// mapped adds to subjects what the requests of a domain become: a server of the domain itself maps them before it
// checks permissions, and one outside it does not.
func (a *api) mapped(subjects []string) []string {
	if !strings.HasPrefix(a.prefix, "$JS.") || a.prefix == jetstream.DefaultAPIPrefix {
		return subjects
	}
	for _, subject := range subjects {
		if rest, ok := strings.CutPrefix(subject, a.prefix); ok && strings.HasPrefix(rest, "$") {
			subjects = append(subjects, rest)
		} else if ok {
			subjects = append(subjects, jetstream.DefaultAPIPrefix+rest)
		}
	}
	return subjects
}

// The streams of the model store.
const objects, pointers = "OBJ_" + registry.Bucket, "KV_" + registry.Bucket

func pointerKey(pipeline string) string { return "$KV." + registry.Bucket + "." + pipeline }

// followModels is what reading the models of a pipeline and following its pointer needs.
func (a *api) followModels(pipeline string) []string {
	return append(a.follow(pipeline, registry.Bucket), a.readModels()...)
}

// readModels is what reading models and their pointers needs. It has no direct get: a client could have its answer, a
// stored message with its headers, stored as any other message.
func (a *api) readModels() []string {
	return []string{a.request("STREAM", "MSG", "GET", pointers), a.request("STREAM", "INFO", objects),
		a.request("STREAM", "MSG", "GET", objects)}
}

func modelPermissions(a *api, p *spec.Pipeline) map[Role][]string {
	run := append(a.followModels(p.Name), a.request("STREAM", "PURGE", objects))
	if p.ModelsFromHub() {
		hub := &api{prefix: natsx.DomainPrefix(p.Models.Hub) + "."}
		run = append(append(run, hub.followModels(p.Name)...), hub.put(pointerKey(p.Name)))
	} else {
		run = append(run, a.put(pointerKey(p.Name)), "$O."+registry.Bucket+".M.*", "$O."+registry.Bucket+".C.*",
			a.request("DIRECT", "GET", objects, ">"), // the client looks for an object of the name before it writes one
			StagedSubject(p.Name))
	}
	return map[Role][]string{RoleDaemon: run, inspection: a.readModels(), RoleOperator: {a.put(pointerKey(p.Name))}}
}

func leasePermissions(a *api, p *spec.Pipeline) map[Role][]string {
	run := a.follow(p.Name, lease.BucketName)
	key := func(name string) string {
		return "$KV." + lease.BucketName + "." + name
	}
	if hasTrainerLease(p) {
		run = append(run, a.put(key(p.Name)), a.put(key(StandbyKey(p.Name))), a.put(key(lease.ProcessKeys)))
	}
	if hasPartitionLeases(p) {
		for _, name := range []string{".partition.*.at", ".session.*", ".assignment"} {
			run = append(run, a.put(key(p.Name+name)))
		}
	}
	return map[Role][]string{RoleDaemon: run}
}

// summaryPermissions include the removal of old summaries of all pipelines: a permission cannot distinguish them.
func summaryPermissions(a *api, p *spec.Pipeline) map[Role][]string {
	keys := "$KV." + summaries.BucketName + "." + p.Name + ".>"
	return map[Role][]string{RoleDaemon: {a.put(keys), a.request("STREAM", "INFO", summaries.Stream),
		a.request("STREAM", "PURGE", summaries.Stream), a.request("DIRECT", "GET", summaries.Stream, keys)}}
}

func edgeStreamPermissions(a *api, p *spec.Pipeline) map[Role][]string {
	run := []string{a.request("STREAM", "INFO", summaries.EdgeStream),
		a.request("STREAM", "MSG", "GET", summaries.EdgeStream)}
	hub := &api{prefix: natsx.DomainPrefix(p.Models.Hub) + "."} // which decides on the schema
	run = append(run, hub.request("STREAM", "INFO", statestore.Stream), hub.request("DIRECT", "GET", statestore.Stream,
		"$KV."+statestore.Bucket+"."+statestore.ContractKey(p.Name)))
	for _, subject := range summaries.EdgeSubjects(p.Name) {
		run = append(run, a.put(subject))
	}
	return map[Role][]string{RoleDaemon: run}
}

func hubStreamPermissions(a *api, _ *spec.Pipeline) map[Role][]string {
	return map[Role][]string{RoleDaemon: {a.request("STREAM", "NAMES"), a.request("STREAM", "INFO", summaries.HubStream),
		a.request("STREAM", "MSG", "GET", summaries.HubStream)}}
}

// keyPermissions let run read, write and follow the keys of its pipeline in a bucket.
func keyPermissions(bucket string) func(a *api, p *spec.Pipeline) map[Role][]string {
	return func(a *api, p *spec.Pipeline) map[Role][]string {
		return map[Role][]string{RoleDaemon: append(a.follow(p.Name, bucket), a.put("$KV."+bucket+"."+p.Name+".>"))}
	}
}

// statePermissions also let roles read contract and configuration, by their subjects alone: the identity key is in the
// same stream, so no other role may create consumers on it or read it by sequence number.
func statePermissions(a *api, p *spec.Pipeline) map[Role][]string {
	permissions := keyPermissions(statestore.Bucket)(a, p)
	contract := "$KV." + statestore.Bucket + "." + statestore.ContractKey(p.Name)
	configured := "$KV." + statestore.Bucket + "." + statestore.ConfiguredKey(p.Name)
	permissions[inspection] = []string{a.request("DIRECT", "GET", statestore.Stream, contract),
		a.request("DIRECT", "GET", statestore.Stream, configured)}
	permissions[RoleOperator] = []string{a.put(contract)}
	return permissions
}

// stream returns a stream of the server, nil where it has none of that name.
func stream(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	s, err := natsx.FindStream(ctx, js, name)
	if s == nil || err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}
