package needs

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// bucket is a row of the table of buckets and streams that belong to embedd in a server.
type bucket struct {
	name        string
	purpose     string                      // in the words of setup
	check       string                      // of doctor; "" = none
	why         string                      // as in docs/connection.md
	isNeeded    func(p *spec.Pipeline) bool // of a pipeline with an input stream
	storage     func(p *spec.Pipeline) Storage
	permissions func(a *api, p *spec.Pipeline) map[Role][]string
}

// buckets is the table of the buckets and streams that belong to embedd in a server. A new stored resource is one row
// here; keyValue and keyPermissions are the last two fields of a bucket that run reads, writes and follows under the
// keys "PIPELINE.>".
var buckets = []bucket{
	{registry.Bucket, "model store", "", "Keeps every model version and the pointer to the live one.",
		hasModelBucket, modelStorage, modelPermissions},
	{lease.BucketName, "store of leases", "", "Elects the trainer of a pipeline and assigns its partitions.",
		func(p *spec.Pipeline) bool { return hasTrainerLease(p) || hasPartitionLeases(p) },
		keyValue(lease.Stream, lease.Open), leasePermissions},
	{summaries.BucketName, "store of summaries", "", "Shares the summaries of blocks among replicas.",
		HasSummaries, keyValue(summaries.Stream, summaries.Open), summaryPermissions},
	{summaries.EdgeStream, "stream of summaries", "edges", "Sends the summaries of an edge to its hub.",
		(*spec.Pipeline).SendsSummaries, edgeStreamStorage, edgeStreamPermissions},
	{summaries.HubStream, "stream of summaries", "edges", "Collects the summaries of all edges, in one order.",
		(*spec.Pipeline).LearnsFromEdges, hubStreamStorage, hubStreamPermissions},
	{statestore.Bucket, "store of state", "state",
		"Keeps schema and configuration of a pipeline, and notes about messages.", everywhere,
		keyValue(statestore.Stream, statestore.Open), statePermissions},
}

func everywhere(*spec.Pipeline) bool { return true }

func hasModelBucket(p *spec.Pipeline) bool { return p.ModelsInServer() || p.LearnsFromEdges() }

func hasTrainerLease(p *spec.Pipeline) bool { return hasModelBucket(p) && !p.ModelsFromHub() }

func hasPartitionLeases(p *spec.Pipeline) bool { return p.Partitions > 0 && !p.LearnsFromEdges() }

// HasSummaries reports whether a process of a pipeline learns from summaries, or makes them. At an edge that sends none
// it does not: the rows are sent to the hub.
func HasSummaries(p *spec.Pipeline) bool {
	return p.Stage.Fixed == nil && p.Stage.Training.Block > 0 && (!p.ModelsFromHub() || p.SendsSummaries())
}

func modelStorage(p *spec.Pipeline) Storage {
	s := Storage{Streams: registry.Streams()}
	if !p.ModelsFromHub() {
		s.Create = func(ctx context.Context, js jetstream.JetStream, replicas int) error {
			_, err := registry.CreateReplicated(ctx, js, replicas)
			return err
		}
		return s
	}
	s.Inspect = func(ctx context.Context, js jetstream.JetStream) (in Inspection, err error) {
		missing, err := registry.MissingMirrors(ctx, js, p.Models.Hub)
		if errors.Is(err, registry.ErrNoMirror) {
			return Inspection{Problem: err.Error()}, nil
		}
		return Inspection{Exists: err == nil && len(missing) == 0}, err
	}
	s.Create = func(ctx context.Context, js jetstream.JetStream, replicas int) error {
		_, err := registry.CreateEdge(ctx, js, p.Models.Hub, replicas)
		return err
	}
	return s
}

func edgeStreamStorage(p *spec.Pipeline) Storage {
	return Storage{Streams: []string{summaries.EdgeStream},
		Inspect: func(ctx context.Context, js jetstream.JetStream) (in Inspection, err error) {
			have, err := stream(ctx, js, summaries.EdgeStream)
			if err != nil {
				return in, err
			}
			if have != nil {
				in.Limit, in.Messages = SummaryLimit(p, &have.Config), have.State.Msgs
				in.Exists = !in.IsOutdated()
			}
			account, err := js.AccountInfo(ctx)
			if err != nil {
				return in, err
			}
			if in.Problem = UnnamedEdge(account.Domain, p.Edges); in.Problem == "" {
				in.Warning = hubLacksEdge(ctx, js, p.Models.Hub, account.Domain)
			}
			return in, nil
		},
		Create: func(ctx context.Context, js jetstream.JetStream, replicas int) error {
			return summaries.Ensure(ctx, js, summaries.EdgeConfig(SummaryBytes(p)), replicas, true)
		}}
}

// HubTimeout is how long a hub may take to answer a request about its streams.
const HubTimeout = 5 * time.Second

// hubLacksEdge returns a sentence if the hub's stream does not have the summaries of a domain among its sources; "" if
// it has, or the hub does not answer.
func hubLacksEdge(ctx context.Context, js jetstream.JetStream, hub, domain string) string {
	there, err := jetstream.NewWithDomain(js.Conn(), hub)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, HubTimeout)
	defer cancel()
	have, err := stream(ctx, there, summaries.HubStream)
	if err != nil || have != nil && len(summaries.MissingSources(&have.Config, []string{domain})) == 0 {
		return ""
	}
	return fmt.Sprintf("the hub (domain %s) does not take the summaries of %s: name it in nats.edges there, with "+
		"'embedd run --role train' or 'embedd setup --apply'", hub, domain)
}

func hubStreamStorage(p *spec.Pipeline) Storage {
	return Storage{Streams: []string{summaries.HubStream},
		Inspect: func(ctx context.Context, js jetstream.JetStream) (in Inspection, err error) {
			have, err := stream(ctx, js, summaries.HubStream)
			if have == nil {
				return in, err
			}
			in.Missing, in.Messages = summaries.MissingSources(&have.Config, p.Edges), have.State.Msgs
			in.Limit = SummaryLimit(p, &have.Config)
			in.Exists = !in.IsOutdated()
			if silent := summaries.SilentEdges(have, p.Edges); len(silent) > 0 {
				in.Warning = fmt.Sprintf("no message from edge %s for a while: its leaf node is disconnected, has another "+
					"JetStream domain, or no stream %s yet, which 'embedd setup --apply' and 'embedd run' create there",
					strings.Join(silent, ", "), summaries.EdgeStream)
			}
			return in, nil
		},
		Create: func(ctx context.Context, js jetstream.JetStream, replicas int) error {
			return summaries.Ensure(ctx, js, summaries.HubConfig(p.Edges, SummaryBytes(p)), replicas, true)
		}}
}

// keyValue is the storage of a bucket that open opens, and creates where it is missing.
func keyValue[B any](stream string, open func(ctx context.Context, js jetstream.JetStream, replicas int) (B, error),
) func(*spec.Pipeline) Storage {
	return func(*spec.Pipeline) Storage {
		return Storage{Streams: []string{stream},
			Create: func(ctx context.Context, js jetstream.JetStream, replicas int) error {
				_, err := open(ctx, js, replicas)
				return err
			}}
	}
}

// service is the micro service of a pipeline, and what its clients do: the verbs that publish, read and ask.
func service(a *api, p *spec.Pipeline) Need {
	inputs := inputSubjects(p)
	name := "$SRV.*." + ServiceName(p.Name)
	n := Need{Kind: Subject, Purpose: "service", Pipeline: p.Name, Name: ServiceName(p.Name),
		Permissions: append(endpointPermissions(p.Name),
			Permission{RoleDaemon, false, []string{ServiceSubject(p.Name, EndpointStarted)}},
			Permission{RoleDaemon, true, []string{ServiceSubject(p.Name, ">"), "$SRV.*", name, name + ".*"}},
			Permission{inspection, false, []string{natsx.UserInfoSubject, a.request("INFO")}},
			Permission{RoleProducer, false, append(slices.Clone(inputs), a.request("STREAM", "NAMES"))},
			Permission{RoleReader, true, []string{p.OutputPattern()}},
		)}
	if p.Stream == "" {
		return n
	}
	dead, output := a.streamOf(p.Dead), p.OutputPattern()
	n.Permissions = append(n.Permissions,
		Permission{RoleReader, false, append(a.readAs(a.streamOf(output), output), a.request("STREAM", "NAMES"))},
		Permission{RoleViewer, false, a.readAs(dead, p.Dead)},
		Permission{RoleOperator, false, append(inputs, a.request("STREAM", "MSG", "DELETE", dead))})
	return n
}

// inputSubjects are the subjects of inputs and labels.
func inputSubjects(p *spec.Pipeline) []string {
	if p.Labels == "" {
		return []string{p.Subject}
	}
	return []string{p.Subject, p.Labels}
}

// coreSubjects are the subjects of a pipeline on core NATS.
func coreSubjects(p *spec.Pipeline) Need {
	return Need{Kind: Subject, Purpose: "subjects", Pipeline: p.Name, Subject: p.Subject,
		Permissions: []Permission{{RoleDaemon, true, inputSubjects(p)},
			{RoleDaemon, false, []string{p.OutputPattern(), p.Dead}}}}
}

// streams are the streams of a pipeline's subjects: that of the input has the configured name, the others are found by
// their subjects.
func streams(a *api, p *spec.Pipeline) []Need {
	run := func(subjects ...string) []Permission { return []Permission{{Role: RoleDaemon, Subjects: subjects}} }
	oldest := []string{a.request("STREAM", "MSG", "GET", p.Stream)}
	all := []Need{{Kind: Stream, Purpose: "input", Pipeline: p.Name, Name: p.Stream, Subject: p.Subject,
		Partitions: p.Partitions,
		Permissions: append(run(a.request("DIRECT", "GET", p.Stream)), // no other role, see readModels
			Permission{inspection, false, oldest})}}
	if p.Labels != "" {
		all = append(all, Need{Kind: Stream, Purpose: "labels", Pipeline: p.Name, Subject: p.Labels})
	}
	for _, o := range []struct{ purpose, subject string }{{"output", p.OutputPattern()}, {"dead letters", p.Dead}} {
		all = append(all, Need{Kind: Stream, Purpose: o.purpose, Pipeline: p.Name, Subject: o.subject,
			Duplicates: 3 * p.AckWait, Permissions: run(append(a.read(a.streamOf(o.subject), o.subject),
				a.request("STREAM", "MSG", "GET", a.streamOf(o.subject)), // whose message a duplicate is
				o.subject)...)})
	}
	return all
}

// consumers are the consumers that the replicas of a pipeline have together.
func consumers(a *api, p *spec.Pipeline) (all []Need) {
	add := func(n Need, subjects ...string) {
		n.Kind, n.Pipeline = Consumer, p.Name
		n.Permissions = append(n.Permissions, Permission{Role: RoleDaemon, Subjects: subjects})
		all = append(all, n)
	}
	for _, q := range Partitions(p) {
		name := q.ConsumerName(ConsumerName(p.Name, ""))
		allowed := name
		if p.ModelsFromHub() {
			allowed = "*" // the domain is in the name, and only the server knows it
		}
		subjects := []string{a.request("CONSUMER", "CREATE", p.Stream, allowed, q.Filter(p.Subject)),
			a.request("CONSUMER", "MSG", "NEXT", p.Stream, allowed),
			"$JS.ACK." + p.Stream + "." + allowed + ".>"}
		if p.Partitions > 0 { // a partition's consumer is recreated where its last holder left it
			subjects = append(subjects, a.request("CONSUMER", "DELETE", p.Stream, allowed),
				a.request("CONSUMER", "NAMES", p.Stream))
		}
		if p.ModelsFromHub() {
			subjects = append(subjects, a.request("INFO"))
		}
		add(Need{Purpose: "inputs", Name: name, Stream: p.Stream, Subject: q.Filter(p.Subject), Durable: true,
			Permissions: []Permission{{inspection, false, []string{a.request("CONSUMER", "INFO", p.Stream, allowed)}}}},
			subjects...)
	}
	if p.Stage.Fixed != nil {
		return all
	}
	read := append(a.read(p.Stream, p.Subject), a.request("DIRECT", "GET", p.Stream, ">"))
	if p.Partitions > 0 { // more than one subject is not in that of the request
		read = append(read, a.request("CONSUMER", "CREATE", p.Stream, "*"))
	}
	add(Need{Purpose: "learning", Stream: p.Stream, Subject: p.Subject}, read...)
	if p.Standby != spec.StandbyCold && !p.Models.None && p.Models.Directory == "" {
		add(Need{Purpose: "standby", Stream: p.Stream, Subject: p.Subject}) // of the next trainer
	}
	if p.Labels != "" {
		add(Need{Purpose: "labels", Subject: p.Labels}, a.read(a.streamOf(p.Labels), p.Labels)...)
	}
	return all
}
