package stream

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/summaries"
)

// Pipeline is the configuration of one pipeline: an input, a stage, an output.
type Pipeline struct {
	domain  string // of JetStream at a leaf node whose models come from its hub, else ""
	Name    string // names the durable consumer embedd_<name>, metrics and models
	Stream  string // the input's stream; "" = core NATS, at most once
	Subject string // the input's subject; wildcards as in NATS
	// Partitions is into how many the stream puts the keys of the input, which are what stands for the wildcards of its
	// subject: outputs of one key then leave in the order of their inputs, whoever answers. 0: none, and no such order
	Partitions int
	Labels     string        // subject of labels that come apart from their rows; "" = they come with them
	Output     string        // subject of the reduced messages
	Dead       string        // subject of the dead letters
	Stage      plugin.Config // Name, Resume, Store, Source, Logger and Clock are set by the engine

	Role    Role          // default RoleAll
	Lease   time.Duration // life of the lease of learning; default 10 s
	Standby Standby       // default StandbyWarm
	// AdoptWithin is how long this replica may answer without knowing that its model is the live one; default 10 s, below
	// 0: for ever
	AdoptWithin time.Duration

	Models Models // where models are kept, and how many
	// The live model is stale when it was not found good for longer; 0: never. WhenStale says what happens then.
	MaxAge    time.Duration
	WhenStale WhenStale // default StaleServe

	Stop    Stop          // when too many bad messages halt the pipeline; default never
	AckWait time.Duration // default 10 s
	// AckPending is how many messages may be without an acknowledgement, of all replicas together; default 16,384
	AckPending int
	DoubleAck  bool   // acknowledgements are confirmed by the server too
	Attempts   uint64 // with which a message is a dead letter where the process died each time; default 5, at least 3
	InFlight   int64  // bytes between pull and acknowledgement; default 256 MiB

	// Edges are the JetStream domains of the leaf nodes whose replicas sum up what the hub learns from, where
	// Stage.Training.Block is not 0: at the hub all of them, at an edge, which has Models.Hub, its own at least.
	Edges     []string
	EdgeBytes int64 // that a stream of summaries keeps, at an edge and at the hub; default 1 GiB
}

// minAckWait is the least time after which an acknowledgement is missing; messages are kept alive three times in it.
const minAckWait = 10 * time.Millisecond

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (p Pipeline) withDefaults() (Pipeline, error) {
	if p.AckWait == 0 {
		p.AckWait = 10 * time.Second
	}
	if p.InFlight == 0 {
		p.InFlight = 256 << 20
	}
	if p.AckPending == 0 {
		p.AckPending = usualPending
	}
	if p.Attempts == 0 {
		p.Attempts = 5
	}
	if p.WhenStale == "" {
		p.WhenStale = StaleServe
	}
	if p.Standby == "" {
		p.Standby = StandbyWarm
	}
	if p.AdoptWithin == 0 {
		p.AdoptWithin = registry.Within
	}
	if p.Role == "" {
		p.Role = RoleAll
	}
	p.Stage.Name = p.Name
	if err := p.checkRole(); err != nil {
		return p, err
	}
	if err := p.checkStandby(); err != nil {
		return p, err
	}
	if err := p.checkPartitions(); err != nil {
		return p, err
	}
	switch {
	case !nameForm.MatchString(p.Name):
		return p, fmt.Errorf("pipeline name %q: letters, digits, - and _ only, since it names a consumer", p.Name)
	case p.Subject == "" || p.Output == "" || p.Dead == "":
		return p, fmt.Errorf("pipeline %s: input %q, output %q and dead letter subject %q must all be named", p.Name,
			p.Subject, p.Output, p.Dead)
	case !slices.Contains([]WhenStale{StaleServe, StaleHold, StalePass}, p.WhenStale):
		return p, fmt.Errorf("pipeline %s: when stale %q is not one of serve, hold and pass", p.Name, p.WhenStale)
	case p.AckPending < ackPending || p.AckPending > maxAnswers:
		return p, fmt.Errorf("pipeline %s: %d messages without an acknowledgement; one process alone holds up to %d, and %d can be looked up",
			p.Name, p.AckPending, ackPending, maxAnswers)
	case p.Attempts < 3:
		return p, fmt.Errorf("pipeline %s: %d attempts are too few: what a process dies of is known from the third on", p.Name,
			p.Attempts)
	case p.Stage.Labels != nil && p.Labels == "":
		return p, fmt.Errorf("pipeline %s: rows wait for labels that come apart from them, and their subject is not named", p.Name)
	case p.Stop.Bad < 0 || p.Stop.Of < p.Stop.Bad || p.Stop.Bad == 0 && p.Stop.Of > 0:
		return p, fmt.Errorf("pipeline %s: %d bad messages of %d cannot halt it", p.Name, p.Stop.Bad, p.Stop.Of)
	case p.AckWait < minAckWait || p.InFlight < 0 || p.MaxAge < 0:
		return p, fmt.Errorf("pipeline %s: an acknowledgement is waited for %v (at least %v), %d bytes are in flight, a model ages %v; none can be negative",
			p.Name, p.AckWait, minAckWait, p.InFlight, p.MaxAge)
	case strings.ContainsAny(p.Output+p.Dead, "*> \t"):
		return p, fmt.Errorf("pipeline %s: output %q and dead letter subject %q must be subjects without wildcards",
			p.Name, p.Output, p.Dead)
	}
	return p, nil
}

// pipeline is a pipeline that runs.
type pipeline struct {
	Pipeline
	nc        *nats.Conn
	js        jetstream.JetStream
	log       *slog.Logger
	metrics   *metrics
	counters  *counters
	stage     *plugin.Stage
	models    *registry.Registry // nil: none are kept
	hub       *registry.Edge     // where the models come from another domain, else nil
	opened    time.Time
	hubAway   bool   // it was said that the hub is
	instance  string // of this process, no other has it
	tenure    tenure
	turns     turns
	leases    *lease.Bucket          // nil: there are none
	summaries *summaries.Bucket      // nil: this pipeline shares none
	arrived   *summaries.Arrived     // at the hub of edges; else nil
	seats     *lease.Bucket          // of the partitions; nil: there are none
	earlier   []partition            // of other numbers, that the stream had before
	held      atomic.Int64           // how many partitions this process holds
	pinned    atomic.Bool            // somebody chose the live model, and it stays
	bound     string                 // the stream that its name was bound to in the store before the start, "" where to none
	store     atomic.Pointer[string] // what happened to the models of the store

	input jetstream.Stream // nil on core NATS; at the hub of edges that of their summaries
	names struct {         // of the model that answered last, for who answers
		live  *plugin.Live
		pairs []wire.Pair
	}
	whole   *lane     // the input, or of one with partitions what came before it had any
	created time.Time // of the input stream, when the pipeline was opened
	feed    *feed     // nil where nothing is learned
	tail    *tail     // nil on core NATS
	// learnFirst is the sequence number from which the window of the live model is filled again; 0: the first.
	learnFirst uint64
	clock      func() time.Time
	good       time.Time // when the model of the store was last found good
	staleMu    sync.Mutex
	staleness  staleness
	unreadable atomic.Pointer[unreadable]
	turn       atomic.Pointer[string] // what last happened to the input, for the learning side
	awaited    atomic.Pointer[string] // what learning from summaries waited for last
	limits     limits
	labels     labels // of p.Labels
	parked     parked
	deaths     deaths
	care       atomic.Pointer[care] // of the learning side; nil before it begins
	noting     chan struct{}        // held by who writes notes of the consumer
	asking     [2]chan struct{}     // held by the partition that asks whether they may begin, and by one of an earlier number
	over       sync.Map             // the partitions of before that have nothing left
	came       chan struct{}        // another model has, for the mirror of a hub
	halt       halt

	drain     time.Duration
	claimLife time.Duration
	told      struct{ unlearned, refused, lost, consumer, owed, lease, outdated, before, summing sparing }
	access    *access       // of the connection's user
	contact   *contact      // with its server; nil on core NATS
	seen      *seen         // the streams, by all pipelines of the engine
	calm      time.Duration // least time between two looks at what is quiet: the more pipelines, the longer
	obstacles obstacles
	sight     atomic.Pointer[sight]         // what the watcher last saw; nil on core NATS
	again     chan struct{}                 // has the watcher look at once
	waiting   atomic.Pointer[queue[*input]] // on core NATS, what is not answered
	pressure  *pressure                     // of the engine
	busy      atomic.Int64                  // when an input was last answered, in nanoseconds
	draining  atomic.Bool
	spare     spare
}

// limits are what the servers accept, beside the connection's own payload limit.
type limits struct{ out, dead atomic.Int64 } // bytes of one stored message; 0: no limit of the stream's own

// run serves until ctx is done, then drains: what was pulled is answered and acknowledged.
func (p *pipeline) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { p.draining.Store(true) })()
	if p.models != nil {
		wg.Go(func() { p.models.Follow(ctx, p.adopt) })
		if p.leases != nil {
			wg.Go(func() { p.hearStaged(ctx) })
		}
	}
	if p.hub != nil {
		wg.Go(func() { p.sweepMirror(ctx) })
	}
	if p.tenure.Lease != nil {
		wg.Go(func() { p.tenure.Keep(ctx, p.takeTurn) })
		if p.turns.second != nil && !p.everyone() {
			wg.Go(func() { p.keepSecond(ctx) })
		}
	}
	wg.Go(func() { p.tellDeaths(ctx, time.Minute) })
	if s, err := p.startService(ctx); err != nil {
		p.log.Warn("the pipeline answers no requests", "error", err)
	} else {
		defer s.stop()
	}
	if p.input == nil {
		return p.runCore(ctx, &wg)
	}
	if p.arrived == nil {
		wg.Go(func() { p.watch(ctx) })
	}
	if p.joins() {
		wg.Go(func() { p.learnLabels(ctx) })
	}
	switch {
	case !p.shares() || p.arrived != nil:
	case p.sendsUp():
		wg.Go(func() { newSender(p).run(ctx) })
	default:
		wg.Go(func() { p.sumUp(ctx) })
	}
	if p.learns() && p.shares() {
		wg.Go(func() { p.learnInTurn(ctx) })
	} else if p.learns() {
		only := p.input.CachedInfo().Config.Retention != jetstream.LimitsPolicy
		p.feed = newFeed(p.InFlight/4, only)
		if only {
			p.log.Info("the stream keeps messages until they are acknowledged, so one reader feeds both paths",
				"stream", p.Stream)
			wg.Go(func() { p.learnFrom(ctx, p.learn) })
		} else {
			wg.Go(func() { p.learnInTurn(ctx) })
		}
	}
	if p.Role == RoleTrain {
		<-ctx.Done()
		return nil
	}
	return p.serve(ctx)
}

// learns tells whether this process reads to learn: to fit, or to be ready for it.
func (p *pipeline) learns() bool { return p.Role != RoleTransform && p.stage.Learns() }

// readsOnce tells whether learning has only the messages that the hot path pulls.
func (p *pipeline) readsOnce() bool { return p.feed != nil && p.feed.only }

// holds tells whether nothing may leave now: there is no model yet, or none that is fresh enough.
func (p *pipeline) holds() bool {
	if p.lacksModel() {
		return true
	}
	_, stale := p.age()
	return stale && p.WhenStale == StaleHold
}

// lacksModel tells whether there is no model yet, and none is gone without.
func (p *pipeline) lacksModel() bool {
	return p.stage.Live() == nil && p.Stage.Until != plugin.UntilSkip
}

// joins tells whether labels come apart from their rows.
func (p *pipeline) joins() bool { return p.Labels != "" && p.learns() }

// ready waits until there is something to answer with: a model, or the permission to go without.
func (p *pipeline) ready(ctx context.Context) bool {
	if p.Stage.Until == plugin.UntilSkip {
		return true
	}
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	for {
		select {
		case <-p.stage.Ready():
			return true
		case <-every.C:
			p.log.Warn("nothing leaves until a first model exists", "progress", p.progress())
		case <-ctx.Done():
			return false
		}
	}
}

// unreadable counts the messages that the learning side could not read, with the reason of the last: while no model
// is live they have no dead letter yet that would say it.
type unreadable struct {
	messages int
	last     error
}

// progress is the sentence that readiness shows while no model is live.
func (p *pipeline) progress() string {
	text := p.learned()
	if u := p.unreadable.Load(); u != nil {
		text += fmt.Sprintf("; %d messages cannot be read, the last: %v", u.messages, u.last)
	}
	if turn := p.turn.Load(); turn != nil {
		text += "; " + *turn
	}
	if awaited := p.awaited.Load(); awaited != nil {
		text += "; " + *awaited
	}
	if store := p.store.Load(); store != nil {
		text += "; " + *store
	}
	if others := p.standingText(); others != "" {
		text += "; " + others
	}
	return text
}

func (p *pipeline) learned() string {
	text := p.labelled()
	if s := p.stage.LabelStatus(); p.joins() {
		text += fmt.Sprintf("; %d rows wait for labels on %s", s.Rows, p.Labels)
		if s.Note != "" {
			text += "; " + s.Note
		}
	}
	return text
}

func (p *pipeline) labelled() string {
	s := p.stage.Status()
	text := fmt.Sprintf("%d of %d labelled rows", s.Rows, s.Needed)
	if s.Hint != "" {
		text += "; " + s.Hint
	}
	if s.Note != "" {
		text += "; last fit: " + s.Note
	}
	return text
}
