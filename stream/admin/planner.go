package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/spec"
)

// planner compares the table of needs with a server.
type planner struct {
	js    jetstream.JetStream // nil: a server without streams
	needs []needs.Need
	plans []Plan
}

// planStreams plans the input streams first: their names are configured, and others may take more than one subject.
func (p *planner) planStreams(ctx context.Context) error {
	for i := range p.needs {
		if n := &p.needs[i]; n.Kind == needs.Stream && n.Name != "" {
			have, err := p.stream(ctx, n.Name)
			if err == nil {
				err = p.planNamed(ctx, n, have)
			}
			if err != nil {
				return err
			}
			p.planPartitions(n, have)
		}
	}
	for i := range p.needs {
		if n := &p.needs[i]; n.Kind == needs.Stream && n.Name == "" {
			if err := p.planSubject(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// planNamed plans a stream with a configured name; have is the stream of that name, or nil.
func (p *planner) planNamed(ctx context.Context, n *needs.Need, have *jetstream.StreamConfig) error {
	if have != nil && (have.Mirror != nil || len(have.Sources) > 0 || wildcard.CoveredBy(n.Subject, have.Subjects)) {
		p.addExisting(n, have.Name)
		return nil
	}
	others, err := p.streamsOf(ctx, n.Subject)
	if err != nil {
		return err
	}
	for _, o := range others {
		if o.Name != n.Name {
			p.addConflict(n.Name, n.Subject, fmt.Sprintf("subject %s of pipeline %s is taken by stream %s (%s), and no two "+
				"streams take one subject; set input.stream to %s, or read another subject", n.Subject, n.Pipeline, o.Name,
				strings.Join(o.Subjects, ", "), o.Name))
			return nil
		}
	}
	p.propose(n, n.Name, have)
	return nil
}

// planPartitions plans the subject transform of a stream whose messages have partitions.
func (p *planner) planPartitions(n *needs.Need, have *jetstream.StreamConfig) {
	plan := p.find(n.Name)
	if n.Partitions == 0 || plan == nil || plan.Problem != "" {
		return
	}
	want := needs.PartitionTransform(n.Subject, n.Partitions)
	if plan.Transform != nil && *plan.Transform != *want {
		plan.Problem = fmt.Sprintf("stream %s can map the keys of one subject to partitions, and pipelines need more than "+
			"one, %s among them; give it a separate stream", n.Name, n.Pipeline)
		return
	}
	if have == nil {
		plan.Transform = want
		return
	}
	fault := partitionFault(n, have)
	switch {
	case fault == nil:
	case have.SubjectTransform == nil && have.Retention == jetstream.LimitsPolicy && have.Metadata[createdBySetup] != "":
		plan.Transform, plan.Exists, plan.Outdated = want, false, true
		plan.Subjects = with(have.Subjects, plan.Subjects...) // those of other pipelines stay
	default:
		plan.Problem = fault.Error()
	}
}

// planSubject plans the stream that takes a subject.
func (p *planner) planSubject(ctx context.Context, n *needs.Need) error {
	for i := range p.plans {
		if plan := &p.plans[i]; !plan.Bucket && !plan.conflict && wildcard.CoveredBy(n.Subject, plan.Subjects) {
			return nil
		}
	}
	others, err := p.streamsOf(ctx, n.Subject)
	if err != nil {
		return err
	}
	for _, o := range others {
		if wildcard.CoveredBy(n.Subject, o.Subjects) {
			p.addExisting(n, o.Name)
			return nil
		}
	}
	if len(others) > 0 {
		o := others[0]
		p.addConflict(o.Name, n.Subject, fmt.Sprintf("stream %s takes a part of %s of pipeline %s (%s), so no other stream "+
			"can take it; let it take all: nats stream edit %s --subjects %q", o.Name, n.Subject, n.Pipeline,
			strings.Join(o.Subjects, ", "), o.Name, strings.Join(with(o.Subjects, n.Subject), ",")))
		return nil
	}
	name := needs.StreamName(n.Subject)
	have, err := p.stream(ctx, name)
	if err == nil && p.hasOtherPurpose(n, name, have) {
		name = needs.StreamNameBeside(n.Purpose, n.Subject)
		have, err = p.stream(ctx, name)
	}
	if err != nil {
		return err
	}
	p.propose(n, name, have)
	return nil
}

// hasOtherPurpose reports whether a stream with a name that setup would choose serves another purpose than a need, by
// the plans or by the metadata of have, the stream of that name or nil. Inputs, labels, outputs and dead letters have
// separate streams: in one, a limit would delete the messages of one for those of another.
func (p *planner) hasOtherPurpose(n *needs.Need, name string, have *jetstream.StreamConfig) bool {
	if plan := p.find(name); plan != nil {
		return plan.firstUse != n.Purpose
	}
	return have != nil && have.Metadata[streamPurpose] != "" && have.Metadata[streamPurpose] != n.Purpose
}

// propose adds the subject of n to those that a stream would take; have is the stream of that name, or nil.
func (p *planner) propose(n *needs.Need, name string, have *jetstream.StreamConfig) {
	for _, o := range p.plans {
		for _, s := range o.Subjects {
			if !o.Bucket && !o.conflict && wildcard.Overlap(s, n.Subject) &&
				(o.Name != name || !wildcard.Covers(s, n.Subject) && !wildcard.Covers(n.Subject, s)) {
				p.addConflict(name, n.Subject, fmt.Sprintf("subject %s of pipeline %s overlaps with %s, which stream %s takes, "+
					"and no two streams take one subject; give them the same input.stream, or subjects that do not overlap", n.Subject,
					n.Pipeline, s, o.Name))
				return
			}
		}
	}
	plan := p.planOf(n, name)
	if have != nil {
		plan.Subjects = with(plan.Subjects, have.Subjects...)
	}
	plan.Subjects, plan.Exists = with(plan.Subjects, n.Subject), false
	switch {
	case have == nil:
	case have.Metadata[createdBySetup] != "":
		plan.Outdated = true
	default:
		plan.Problem = fmt.Sprintf("stream %s exists and does not take %s; add it: nats stream edit %s --subjects %q", name,
			n.Subject, name, strings.Join(plan.Subjects, ","))
	}
}

// with returns subjects and more, without those that these cover.
func with(subjects []string, more ...string) []string {
	for _, subject := range more {
		if !wildcard.CoveredBy(subject, subjects) {
			subjects = append(slices.DeleteFunc(slices.Clone(subjects),
				func(s string) bool { return wildcard.Covers(subject, s) }), subject)
		}
	}
	return subjects
}

// addExisting adds the subject of n to the plan of a stream that takes it already.
func (p *planner) addExisting(n *needs.Need, name string) {
	plan := p.planOf(n, name)
	plan.Subjects = with(plan.Subjects, n.Subject)
}

// planOf finds the plan of a stream, or adds one for a stream that exists.
func (p *planner) planOf(n *needs.Need, name string) *Plan {
	if plan := p.find(name); plan != nil {
		return plan
	}
	p.plans = append(p.plans, Plan{Name: name, Exists: true, firstUse: n.Purpose})
	return &p.plans[len(p.plans)-1]
}

func (p *planner) addConflict(name, subject, text string) {
	p.plans = append(p.plans, Plan{Name: name, Subjects: []string{subject}, Problem: text, conflict: true})
}

// find returns the plan of a stream that exists or would be created, or nil.
func (p *planner) find(name string) *Plan {
	for i := range p.plans {
		if plan := &p.plans[i]; plan.Name == name && !plan.Bucket && !plan.conflict {
			return plan
		}
	}
	return nil
}

// compareWithHub warns of streams of the hub that store once more what a leaf node forwards, if the hub answers.
func (p *planner) compareWithHub(ctx context.Context, pipelines []spec.Pipeline) {
	at := slices.IndexFunc(pipelines, func(p spec.Pipeline) bool { return p.ModelsFromHub() })
	if p.js == nil || at < 0 {
		return
	}
	hub := pipelines[at].Models.Hub
	js, err := jetstream.NewWithDomain(p.js.Conn(), hub)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, needs.HubTimeout)
	defer cancel()
	for _, n := range p.needs {
		if n.Kind != needs.Stream {
			continue
		}
		name, err := js.StreamNameBySubject(ctx, n.Subject)
		if err != nil {
			continue
		}
		for i := range p.plans {
			if plan := &p.plans[i]; wildcard.CoveredBy(n.Subject, plan.Subjects) && plan.Warning == "" {
				plan.Warning = fmt.Sprintf("stream %s of domain %s takes %s too, and stores once more what is published here; do "+
					"not export the subject to the hub (deny_exports: %q in the leaf node's remote), or choose other subjects", name,
					hub, n.Subject, n.Subject)
			}
		}
	}
}

// planBuckets plans what belongs to embedd, once where pipelines share it.
func (p *planner) planBuckets(ctx context.Context) error {
	for _, n := range p.needs {
		if n.Kind != needs.Bucket || slices.ContainsFunc(p.plans, func(o Plan) bool { return o.Bucket && o.Name == n.Name }) {
			continue
		}
		in, err := n.Compare(ctx, p.js)
		if err != nil {
			return natsx.ExplainAPIError(err)
		}
		p.plans = append(p.plans, Plan{Name: n.Name, Bucket: true, Purpose: n.Purpose, Subjects: in.Missing,
			Exists: in.Exists, Outdated: in.IsOutdated(), Problem: in.Problem, Warning: in.Warning, need: n})
	}
	return nil
}

// stream returns the configuration of a stream of the server, nil where it has none of that name.
func (p *planner) stream(ctx context.Context, name string) (*jetstream.StreamConfig, error) {
	if p.js == nil {
		return nil, nil
	}
	s, err := natsx.FindStream(ctx, p.js, name)
	if s == nil || err != nil {
		return nil, natsx.ExplainAPIError(err)
	}
	return &s.CachedInfo().Config, nil
}

// streamsOf lists the streams of the server that take a subject or a part of it.
func (p *planner) streamsOf(ctx context.Context, subject string) (out []*jetstream.StreamConfig, err error) {
	if p.js == nil {
		return nil, nil
	}
	streams, err := natsx.StreamsOf(ctx, p.js, subject)
	for _, s := range streams {
		out = append(out, &s.CachedInfo().Config)
	}
	return out, err
}

const (
	// maxStreamConsumers is the server's default limit of the consumers of a stream, since consumerLimitSince.
	maxStreamConsumers = 1000
	// maxServerConsumers is the number of replicated consumers that one server carries well: each is a Raft group.
	maxServerConsumers = 1000
)

const consumerLimitSince = "v2.15"

// checkConsumers warns where the pipelines need more consumers of a stream than it, or its servers, can have.
func (p *planner) checkConsumers(ctx context.Context) error {
	accountLimit := 0
	if p.js != nil {
		if account, err := p.js.AccountInfo(ctx); err == nil {
			accountLimit = account.Limits.MaxConsumers
		}
	}
	replicated := 0
	for i := range p.plans {
		plan := &p.plans[i]
		if plan.Bucket || plan.conflict {
			continue
		}
		n := p.consumersOf(plan)
		if err := p.limitConsumers(ctx, plan, &n, accountLimit); err != nil {
			return err
		}
		plan.NoConsumers, plan.ConsumerWarning = n.shortage(plan)
		if plan.Replicas > 1 {
			replicated += n.durable
		}
		if replicated > maxServerConsumers {
			plan.ConsumerWarning = strings.TrimPrefix(fmt.Sprintf("%s; the pipelines need %d consumers with replicas, and a "+
				"server carries about %d well: spread the pipelines over more clusters, or give streams one replica where that is "+
				"enough", plan.ConsumerWarning, replicated, maxServerConsumers), "; ")
			replicated = 0
		}
	}
	return nil
}

// consumers counts the consumers of a stream.
type consumers struct {
	needed  int             // by the pipelines
	durable int             // of those
	owners  map[string]bool // the pipelines that need them
	others  int             // that exist and are not of these pipelines
	limit   int             // 0: none
}

// consumersOf counts the consumers of a stream that the pipelines need.
func (p *planner) consumersOf(plan *Plan) consumers {
	c := consumers{owners: map[string]bool{}}
	for _, n := range p.needs {
		if n.Kind == needs.Consumer && (n.Stream == plan.Name ||
			n.Stream == "" && wildcard.CoveredBy(n.Subject, plan.Subjects)) {
			c.needed++
			c.owners[n.Pipeline] = true
			if n.Durable {
				c.durable++
			}
		}
	}
	return c
}

// limitConsumers sets the limit of the consumers of a stream, which is that of the account unless its own is lower, and
// counts the others, unless the needed ones fit in any case.
func (p *planner) limitConsumers(ctx context.Context, plan *Plan, c *consumers, accountLimit int) error {
	if p.js == nil || c.needed == 0 {
		return nil
	}
	var s jetstream.Stream
	if c.limit = max(accountLimit, 0); plan.Exists || plan.Outdated {
		var err error
		if s, err = p.js.Stream(ctx, plan.Name); err != nil {
			return natsx.ExplainAPIError(err)
		}
		if own := s.CachedInfo().Config.MaxConsumers; own > 0 && (c.limit == 0 || own < c.limit) {
			c.limit = own
		}
	}
	if c.limit == 0 && !needs.IsOlder(p.js.Conn().ConnectedServerVersion(), consumerLimitSince) {
		c.limit = maxStreamConsumers
	}
	if s == nil || c.limit == 0 || c.needed+s.CachedInfo().State.Consumers <= c.limit {
		return nil
	}
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		if !c.owners[needs.ConsumerOwner(info.Config)] {
			c.others++
		}
	}
	return natsx.ExplainAPIError(list.Err())
}

// shortage reports whether some pipelines get no consumer of a stream, and warns if it cannot have as many as needed.
func (c *consumers) shortage(plan *Plan) (hasNone bool, warning string) {
	switch {
	case c.limit == 0 || c.needed+c.others <= c.limit:
		return false, ""
	case c.others >= c.limit && plan.Exists:
		return true, needs.ConsumerFault(plan.Name, c.limit).Error()
	}
	text := fmt.Sprintf("the pipelines need %d consumers of stream %s", c.needed, plan.Name)
	if c.others > 0 {
		text += fmt.Sprintf(" in addition to %d of others", c.others)
	}
	effect := "for learning, messages are requested one by one, which is slower"
	if hasNone = c.durable+c.others > c.limit; hasNone {
		effect = "some pipelines get none and answer nothing"
	}
	return hasNone, fmt.Sprintf("%s, and its limit is %d: %s; give them separate streams, or raise the limit where the "+
		"stream is created (--max-consumers) or at the server (jetstream.limits.default_max_consumers)", text, c.limit,
		effect)
}

// checkLimits adds a plan with a problem for each limit of the account and the server that is too low.
func (p *planner) checkLimits(ctx context.Context) error {
	if p.js == nil {
		return nil
	}
	missing := 0
	for i := range p.plans {
		if plan := &p.plans[i]; !plan.Exists && !plan.Outdated && !plan.conflict {
			missing += len(plan.streams())
		}
	}
	short := ""
	if account, err := p.js.AccountInfo(ctx); err == nil {
		short = needs.StreamShortage(account, missing)
	}
	subscriptions, err := needs.SubscriptionShortage(ctx, p.js.Conn(), p.needs)
	faults := []string{short, subscriptions}
	if slices.ContainsFunc(p.needs, func(n needs.Need) bool { return n.Name == summaries.BucketName }) {
		faults = append(faults, summaries.PayloadShortage(p.js.Conn()))
	}
	for _, one := range natsx.KnownServers(p.js.Conn()) {
		if one.Err == nil {
			faults = append(faults, needs.ServerFault(one.Name, one.Version))
		}
	}
	for _, text := range faults {
		if text != "" {
			p.plans = append(p.plans, Plan{Name: "limit", Limit: true, conflict: true, Problem: text})
		}
	}
	return err
}

// compareReplicas plans to raise what has fewer replicas than requested, and warns where that is not for Setup to do,
// and where a bucket has fewer replicas than a stream: its state would be lost with one server, and the messages not.
func (p *planner) compareReplicas(ctx context.Context, requested int) error {
	most := requested
	for i := range p.plans {
		plan := &p.plans[i]
		if plan.conflict || !plan.Exists && !plan.Outdated {
			continue
		}
		if err := p.readStreams(ctx, plan); err != nil {
			return err
		}
		if !plan.Bucket {
			most = max(most, plan.Replicas)
		}
	}
	for i := range p.plans {
		plan := &p.plans[i]
		switch {
		case plan.Replicas == 0 || plan.Replicas >= most:
		case (plan.Bucket || plan.isFromSetup) && plan.Replicas < requested:
			plan.RaisesReplicas = true
		case plan.Bucket:
			plan.Warning = fmt.Sprintf("bucket %s has %s and a stream of the pipelines has %d: the failure of one server can "+
				"lose its contents while messages keep arriving; `embedd setup --apply --replicas %d` raises it", plan.Name,
				replicasText(plan.Replicas), most, min(most|1, 5))
		case requested > 0:
			plan.Warning = fmt.Sprintf("stream %s has %s, %d are requested, and setup did not create it; raise it: nats stream "+
				"edit %s --replicas %d --force", plan.Name, replicasText(plan.Replicas), requested, plan.Name, requested)
		}
	}
	return nil
}

func replicasText(n int) string {
	if n == 1 {
		return "one replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

// readStreams reads how many replicas the streams of a plan have, and whether Setup created them. It warns of a stream
// of outputs or dead letters that stores what others publish: they share the limits of the stream with the outputs, and
// one stream has one set of message ids.
func (p *planner) readStreams(ctx context.Context, plan *Plan) error {
	for _, name := range plan.streams() {
		c, err := p.stream(ctx, name)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		if n := max(c.Replicas, 1); plan.Replicas == 0 || n < plan.Replicas {
			plan.Replicas = n
		}
		plan.isFromSetup = c.Metadata[createdBySetup] != ""
		if !plan.Bucket && plan.Exists {
			plan.SubjectWarning = otherSubjects(p.needs, plan.Name, c.Subjects)
		}
	}
	return nil
}

// otherSubjects returns the warning about a stream that stores answers and other subjects than wildcards over answers.
func otherSubjects(all []needs.Need, stream string, subjects []string) string {
	var answers, others []string
	for _, n := range all {
		switch {
		case n.Kind != needs.Stream || !wildcard.CoveredBy(n.Subject, subjects):
		case n.Purpose == "output" || n.Purpose == "dead letters":
			answers = with(answers, n.Subject)
		default:
			others = with(others, n.Subject)
		}
	}
	if len(answers) == 0 {
		return ""
	}
	known := slices.Concat(answers, others)
	for _, s := range subjects {
		if !slices.ContainsFunc(known, func(one string) bool { return wildcard.Overlap(s, one) }) {
			others = append(others, s)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("stream %s stores %s and also %s, whose publishers share its limits and its message ids with the "+
		"answers: give the answers a separate stream", stream, strings.Join(answers, ", "), strings.Join(others, ", "))
}
