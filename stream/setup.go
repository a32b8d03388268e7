package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/summaries"
)

// Plan is a stream that pipelines need, or something of ours: a bucket, as that of the model store or of the leases, or a
// stream of summaries at an edge or at its hub.
type Plan struct {
	Name     string
	Bucket   bool     // or stream, of ours
	Subjects []string // that it takes, or would; of the summaries of edges the edges that they do not come from yet
	Exists   bool     // it is there and takes what pipelines need of it
	// Extends: it is there, Setup made it, and it lacks some of Subjects, or keeps other bytes of summaries than it should
	Extends  bool
	Problem  string // why it can neither be used nor made, with the cure; "" for nothing
	Replicas int    // that it has where it is there; of the buckets of the model store the least
	Raises   bool   // it is there, is Setup's to change, and has fewer replicas than are asked for
	Warning  string // why the death of one server takes it away while others stay, with the cure; "" for nothing
	Short    string // why it has not as many consumers as the pipelines need, with the cure; "" for nothing
	Starved  bool   // nor as many as answer, let alone learn

	ours  bool     // Setup made it
	hub   string   // the domain of which a bucket is a mirror; "" of none
	edges []string // whose summaries a stream of ours takes
	bytes int64    // that a stream of summaries keeps
	taken bool     // the problem is that another stream takes the subject

	// Transform is how the stream has to change the subjects of keys, nil for not at all
	Transform *jetstream.SubjectTransformConfig
}

// Duplicates is the duplicate window of streams that Setup makes.
const Duplicates = 2 * time.Minute

// Streams say how the streams are that Setup makes: file storage, limits retention, and what is given here. Zero fields
// mean no limit, and the defaults.
type Streams struct {
	MaxBytes   int64
	MaxAge     time.Duration
	Duplicates time.Duration // default Duplicates
	// Replicas is how many replicas they have, and those too that Setup made before and that have fewer; default three
	// where the server is of a cluster that has as many, else one, and what is there stays as it is.
	Replicas int
}

// madeBySetup is the key of a stream's metadata that marks those which Setup may give more subjects.
const madeBySetup = "embedd_setup"

// Setup is Streams.Setup with the defaults.
func Setup(ctx context.Context, js jetstream.JetStream, pipelines []Pipeline, apply bool) ([]Plan, error) {
	return Streams{}.Setup(ctx, js, pipelines, apply)
}

// Setup lists the streams and buckets that the pipelines need and, with apply, makes those that are missing: each takes
// the subjects of the pipelines and no others. A stream that it did not make it never changes. While one of the plans
// has a problem it makes nothing. Without js it plans for a server that has no streams.
func (s Streams) Setup(ctx context.Context, js jetstream.JetStream, pipelines []Pipeline, apply bool) ([]Plan, error) {
	p := &planner{js: js}
	if err := p.plan(ctx, pipelines); err != nil {
		return p.plans, err
	}
	if err := p.compare(ctx, s.Replicas); err != nil {
		return p.plans, err
	}
	if err := p.consumers(ctx, pipelines); err != nil {
		return p.plans, err
	}
	if !apply || slices.ContainsFunc(p.plans, func(p Plan) bool { return p.Problem != "" }) {
		return p.plans, nil
	}
	for i := range p.plans {
		one := &p.plans[i]
		if !one.Exists {
			if err := s.make(ctx, js, one); err != nil {
				return p.plans, err
			}
			one.Exists, one.Extends = true, false
		}
		if one.Raises {
			if err := raise(ctx, js, one, s.Replicas); err != nil {
				return p.plans, err
			}
		}
	}
	return p.plans, nil
}

func (s Streams) make(ctx context.Context, js jetstream.JetStream, one *Plan) error {
	switch {
	case one.Name == lease.Name:
		return lease.Make(ctx, js, s.Replicas)
	case one.Name == summaries.Name:
		return summaries.Make(ctx, js, s.Replicas)
	case one.Name == summaries.EdgeStream && one.Extends:
		return summaries.Resize(ctx, js, one.Name, one.bytes)
	case one.Name == summaries.EdgeStream:
		return summaries.MakeEdge(ctx, js, one.bytes, s.Replicas)
	case one.Name == summaries.HubStream:
		err := summaries.MakeHub(ctx, js, one.edges, one.bytes, s.Replicas)
		if err == nil && one.Extends {
			err = summaries.Resize(ctx, js, one.Name, one.bytes)
		}
		return err
	case one.hub != "":
		_, err := registry.MakeEdge(ctx, js, one.hub, s.Replicas)
		return err
	case one.Bucket:
		_, err := registry.MakeReplicated(ctx, js, s.Replicas)
		return err
	case one.Extends:
		have, err := js.Stream(ctx, one.Name)
		if err != nil {
			return natsx.ExplainAPIError(err)
		}
		c := have.CachedInfo().Config
		c.Subjects = one.Subjects
		if one.Transform != nil {
			c.SubjectTransform = one.Transform
		}
		if _, err := js.UpdateStream(ctx, c); err != nil {
			return fmt.Errorf("adding to the subjects of stream %s, so that it takes %v: %w", one.Name, one.Subjects, err)
		}
		return nil
	}
	c := jetstream.StreamConfig{Name: one.Name, Subjects: one.Subjects, Storage: jetstream.FileStorage,
		SubjectTransform: one.Transform,
		Duplicates:       s.Duplicates, MaxAge: s.MaxAge, MaxBytes: s.MaxBytes, Metadata: map[string]string{madeBySetup: "1"}}
	if c.Duplicates == 0 {
		c.Duplicates = Duplicates
	}
	if c.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, c.MaxAge) // the server wants no longer one
	}
	err := natsx.WithReplicas(js, s.Replicas, func(replicas int) error {
		c.Replicas = replicas
		_, err := js.CreateStream(ctx, c)
		return err
	})
	if err != nil {
		return fmt.Errorf("making stream %s for %v: %w", one.Name, one.Subjects, err)
	}
	return nil
}

// planner finds out what is missing.
type planner struct {
	js    jetstream.JetStream // nil: a server without streams
	plans []Plan
}

// plan goes through the inputs first: their streams have the names that were given.
func (p *planner) plan(ctx context.Context, pipelines []Pipeline) error {
	store, leases, shared, hub := false, false, false, ""
	var sends, gathers *Pipeline
	for _, one := range pipelines {
		if one.Stream == "" {
			continue // core NATS needs none
		}
		if one.LearnsFromEdges() { // where its rows are answered
			store, shared, gathers = true, true, &one
			continue
		}
		if one.SendsSummaries() {
			sends = &one
		}
		if err := p.needInput(ctx, one); err != nil {
			return err
		}
		if one.ModelsFromHub() {
			hub = one.Models.Hub
		} else {
			store = store || one.Stage.Fixed == nil && !one.Models.None && one.Models.Directory == ""
		}
		leases = leases || one.Partitions > 0
		if err := p.needPartitions(ctx, one); err != nil {
			return err
		}
		shared = shared || one.Stage.Fixed == nil && one.Stage.Training.Block > 0 && (!one.ModelsFromHub() || one.SendsSummaries())
	}
	for _, one := range pipelines {
		if one.Stream == "" || one.LearnsFromEdges() {
			continue
		}
		for _, subject := range []string{one.Labels, one.Output, one.Dead} {
			if subject == "" {
				continue
			}
			if err := p.need(ctx, one.Name, subject); err != nil {
				return err
			}
		}
	}
	switch {
	case hub != "":
		if err := p.needMirror(ctx, hub); err != nil {
			return err
		}
		p.compareWithHub(ctx, hub, pipelines)
	case store:
		if err := p.needStore(ctx); err != nil {
			return err
		}
	}
	if store || leases {
		if err := p.needLeases(ctx); err != nil {
			return err
		}
	}
	if shared {
		if err := p.needSummaries(ctx); err != nil {
			return err
		}
	}
	if sends != nil {
		if err := p.needSent(ctx, sends); err != nil {
			return err
		}
	}
	if gathers != nil {
		return p.needGathered(ctx, gathers)
	}
	return nil
}

// needPartitions plans for a stream that puts keys into partitions.
func (p *planner) needPartitions(ctx context.Context, one Pipeline) error {
	plan := p.find(one.Stream)
	if one.Partitions == 0 || plan == nil || plan.Problem != "" {
		return nil
	}
	if p.js != nil {
		if err := needs.PartitionServer(p.js.Conn().ConnectedServerVersion()); err != nil {
			plan.Problem = err.Error()
			return nil
		}
	}
	want := needs.PartitionTransform(one.Subject, one.Partitions)
	if plan.Transform != nil && *plan.Transform != *want {
		plan.Problem = fmt.Sprintf("stream %s can put the keys of one subject into partitions, and pipeline %s wants others than one before it; give it a stream of its own",
			one.Stream, one.Name)
		return nil
	}
	have, err := p.stream(ctx, one.Stream)
	if err != nil {
		return err
	}
	if have == nil {
		plan.Transform = want
		return nil
	}
	switch f := needs.PartitionFault(&one, have); {
	case f == nil:
	case have.SubjectTransform == nil && have.Retention == jetstream.LimitsPolicy && have.Metadata[madeBySetup] != "":
		plan.Transform, plan.Exists, plan.Extends = want, false, true
		subjects := have.Subjects // those of other pipelines stay
		for _, s := range plan.Subjects {
			subjects = with(subjects, s)
		}
		plan.Subjects = subjects
	default:
		plan.Problem = f.Error()
	}
	return nil
}

// needInput plans for the input's stream, which is named.
func (p *planner) needInput(ctx context.Context, one Pipeline) error {
	have, err := p.stream(ctx, one.Stream)
	if err != nil {
		return err
	}
	if have != nil && (have.Mirror != nil || len(have.Sources) > 0 || wildcard.CoveredBy(one.Subject, have.Subjects)) {
		p.there(have.Name, one.Subject)
		return nil
	}
	others, err := p.taking(ctx, one.Subject)
	if err != nil {
		return err
	}
	for _, o := range others {
		if o.Name != one.Stream {
			p.problem(one.Stream, one.Subject, fmt.Sprintf(
				"subject %s of pipeline %s is taken by stream %s (%s), and no two streams take one subject; set input.stream to %s, or read another subject",
				one.Subject, one.Name, o.Name, strings.Join(o.Subjects, ", "), o.Name))
			return nil
		}
	}
	p.propose(one.Name, one.Stream, one.Subject, have)
	return nil
}

// need plans for a subject whose stream is found by it.
func (p *planner) need(ctx context.Context, pipeline, subject string) error {
	for i := range p.plans {
		if one := &p.plans[i]; !one.Bucket && !one.taken && wildcard.CoveredBy(subject, one.Subjects) {
			return nil // the same stream takes more than one
		}
	}
	others, err := p.taking(ctx, subject)
	if err != nil {
		return err
	}
	for _, o := range others {
		if wildcard.CoveredBy(subject, o.Subjects) {
			p.there(o.Name, subject)
			return nil
		}
	}
	if len(others) > 0 {
		o := others[0]
		p.problem(o.Name, subject, fmt.Sprintf(
			"stream %s takes a part of %s of pipeline %s (%s), so no other stream can take it; let it take all: nats stream edit %s --subjects %q",
			o.Name, subject, pipeline, strings.Join(o.Subjects, ", "), o.Name, strings.Join(with(o.Subjects, subject), ",")))
		return nil
	}
	name := streamName(subject)
	have, err := p.stream(ctx, name)
	if err != nil {
		return err
	}
	p.propose(pipeline, name, subject, have)
	return nil
}

// propose adds a subject to what a stream would take; have is the stream of that name, nil where there is none.
func (p *planner) propose(pipeline, name, subject string, have *jetstream.StreamConfig) {
	for _, o := range p.plans {
		for _, s := range o.Subjects {
			if !o.Bucket && !o.taken && wildcard.Overlap(s, subject) && (o.Name != name || !wildcard.Covers(s, subject) && !wildcard.Covers(subject, s)) {
				p.problem(name, subject, fmt.Sprintf(
					"subject %s of pipeline %s overlaps with %s, which stream %s takes, and no two streams take one subject; give them the same input.stream, or subjects apart",
					subject, pipeline, s, o.Name))
				return
			}
		}
	}
	one := p.find(name)
	if one == nil {
		p.plans = append(p.plans, Plan{Name: name})
		one = &p.plans[len(p.plans)-1]
	}
	if have != nil {
		for _, s := range have.Subjects {
			one.Subjects = with(one.Subjects, s)
		}
	}
	one.Subjects, one.Exists = with(one.Subjects, subject), false
	switch {
	case have == nil:
	case have.Metadata[madeBySetup] != "":
		one.Extends = true
	default:
		one.Problem = fmt.Sprintf("stream %s is there and does not take %s; let it: nats stream edit %s --subjects %q",
			name, subject, name, strings.Join(one.Subjects, ","))
	}
}

// with is a list of subjects and one more, without those that it covers.
func with(subjects []string, subject string) []string {
	if wildcard.CoveredBy(subject, subjects) {
		return subjects
	}
	out := slices.DeleteFunc(slices.Clone(subjects), func(s string) bool { return wildcard.Covers(subject, s) })
	return append(out, subject)
}

func (p *planner) there(name, subject string) {
	one := p.find(name)
	if one == nil {
		p.plans = append(p.plans, Plan{Name: name, Exists: true})
		one = &p.plans[len(p.plans)-1]
	}
	one.Subjects = with(one.Subjects, subject)
}

func (p *planner) problem(name, subject, text string) {
	p.plans = append(p.plans, Plan{Name: name, Subjects: []string{subject}, Problem: text, taken: true})
}

// find is the plan of a stream that is there or would be made.
func (p *planner) find(name string) *Plan {
	for i := range p.plans {
		if one := &p.plans[i]; one.Name == name && !one.Bucket && !one.taken {
			return one
		}
	}
	return nil
}

// compareWithHub warns of streams of the hub that take what is sent here: the leaf node hands it on, and it is stored twice.
// A hub that does not answer is asked the next time.
func (p *planner) compareWithHub(ctx context.Context, hub string, pipelines []Pipeline) {
	if p.js == nil {
		return
	}
	js, err := jetstream.NewWithDomain(p.js.Conn(), hub)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hubAsk)
	defer cancel()
	for _, one := range pipelines {
		for _, subject := range []string{one.Subject, one.Output, one.Dead} {
			name, err := js.StreamNameBySubject(ctx, subject)
			if err != nil {
				continue
			}
			for i := range p.plans {
				if plan := &p.plans[i]; !plan.Bucket && wildcard.CoveredBy(subject, plan.Subjects) && plan.Warning == "" {
					plan.Warning = fmt.Sprintf("stream %s of domain %s takes %s too, and stores what is sent here once more; keep it from the way to the hub (deny_exports: %q in the leaf node's remote), or give it other subjects",
						name, hub, subject, subject)
				}
			}
		}
	}
}

// hubAsk is how long a hub may take to say which subjects its streams take.
const hubAsk = 5 * time.Second

// needMirror plans for the mirror of a hub's model store.
func (p *planner) needMirror(ctx context.Context, hub string) error {
	one := Plan{Name: registry.Bucket, Bucket: true, hub: hub}
	if p.js != nil {
		missing, err := registry.Mirrors(ctx, p.js, hub)
		if errors.Is(err, registry.ErrNoMirror) {
			one.Problem = err.Error()
		} else if err != nil {
			return natsx.ExplainAPIError(err)
		}
		one.Exists = err == nil && len(missing) == 0
	}
	p.plans = append(p.plans, one)
	return nil
}

func (p *planner) needStore(ctx context.Context) error {
	one := Plan{Name: registry.Bucket, Bucket: true}
	if p.js != nil {
		_, err := registry.JetStream(ctx, p.js)
		if err != nil && !errors.Is(err, registry.ErrMissing) {
			return natsx.ExplainAPIError(err)
		}
		one.Exists = err == nil
	}
	p.plans = append(p.plans, one)
	return nil
}

func (p *planner) needLeases(ctx context.Context) error {
	leases := Plan{Name: lease.Name, Bucket: true}
	if p.js != nil {
		there, err := p.stream(ctx, lease.Stream)
		if err != nil {
			return err
		}
		leases.Exists = there != nil || needs.OlderServer(p.js.Conn().ConnectedServerVersion(), lease.Since)
	}
	p.plans = append(p.plans, leases)
	return nil
}

func (p *planner) needSummaries(ctx context.Context) error {
	there, err := p.stream(ctx, summaries.Stream)
	if err != nil {
		return err
	}
	p.plans = append(p.plans, Plan{Name: summaries.Name, Bucket: true, Exists: there != nil})
	return nil
}

// stream is the configuration of a stream of the server, nil where there is none of that name.
func (p *planner) stream(ctx context.Context, name string) (*jetstream.StreamConfig, error) {
	if p.js == nil {
		return nil, nil
	}
	s, err := p.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, natsx.ExplainAPIError(err)
	}
	return &s.CachedInfo().Config, nil
}

// taking lists the streams of the server that take a subject or a part of it.
func (p *planner) taking(ctx context.Context, subject string) (out []*jetstream.StreamConfig, err error) {
	if p.js == nil {
		return nil, nil
	}
	names := p.js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
	for name := range names.Name() {
		c, err := p.stream(ctx, name)
		if err != nil {
			return nil, err
		}
		if c != nil {
			out = append(out, c)
		}
	}
	if err := names.Err(); err != nil {
		return nil, natsx.ExplainAPIError(err)
	}
	return out, nil
}
