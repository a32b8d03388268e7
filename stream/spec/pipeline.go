// Package spec has the values that all parts of an engine share: the configuration of a pipeline, its status, and the
// errors that a host reacts to. It checks values and does nothing else. Package stream aliases what hosts use.
package spec

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/registry"
)

// Pipeline is the configuration of one pipeline: an input, a stage, an output.
type Pipeline struct {
	Name    string // names the durable consumer embedd_<name>, metrics and models
	Stream  string // the input's stream; "" = core NATS, at most once
	Subject string // the input's subject; wildcards as in NATS
	// Partitions is the number of partitions into which the stream maps the keys of the input. The key is what matches the
	// wildcards of its subject. Outputs of one key then leave in the order of their inputs, whichever replica transforms
	// them. 0: no partitions, and no order by key
	Partitions int
	Labels     string // subject of late labels; "" = labels are a column of their rows
	// Output is the subject of the reduced messages. Tokens {{wildcard(n)}} are the token at the nth * of Subject, as in a
	// subject mapping of NATS.
	Output string
	Dead   string        // subject of the dead letters
	Stage  plugin.Config // Name, Resume, Store, Source, Logger and Clock are set by the engine

	Role    Role          // default RoleAll
	Lease   time.Duration // duration of the trainer's lease; default 10 s
	Standby Standby       // default StandbyWarm
	// ModelSyncTimeout is how long this replica may use its model without confirmation that it is the live one; default
	// 10 s, negative: indefinitely
	ModelSyncTimeout time.Duration

	Models Models // where models are stored, and how many
	// The live model is stale when it was last confirmed longer ago than MaxAge; 0: never. WhenStale is what happens
	// then.
	MaxAge    time.Duration
	WhenStale WhenStale // default StaleServe

	Stop    Stop          // when too many bad messages halt the pipeline; default never
	AckWait time.Duration // default 10 s
	// AckPending is the consumer's MaxAckPending, for all replicas together; default 16,384
	AckPending int
	DoubleAck  bool   // the server confirms acknowledgements too
	Attempts   uint64 // deliveries after which a message that crashed each process is a dead letter; default 5, at least 3
	InFlight   int64  // bytes between pull and acknowledgement; default 256 MiB

	// Settings are the keys of the configuration file with their values, to report what a changed key becomes; none:
	// changes are not reported.
	Settings []Setting
	// Edges are the JetStream domains of the leaf nodes whose replicas make the block summaries that the hub learns from,
	// where Stage.Training.Block is not 0. The hub lists all of them; an edge, which has Models.Hub, at least itself.
	Edges     []string
	EdgeBytes int64 // size limit of a stream of summaries, at an edge and at the hub; default 1 GiB
}

// Models says where the models of a pipeline are stored, and how many. Zero fields mean the defaults.
type Models struct {
	// Directory stores them in files. Without one they are in the server's JetStream; on core NATS they are not stored,
	// and a restart begins without a model.
	Directory string
	None      bool  // store none
	Limit     int64 // most bytes of a model; default model.DefaultFileLimit
	Replicas  int   // of the buckets when they are created; 0: see registry.Replicated
	// Hub is the JetStream domain that has the models of a leaf node that has a separate domain, where they are mirrored.
	// Such a replica has RoleTransform, and keeps serving while the hub is unreachable.
	Hub  string
	Keep registry.Keep
	// Strict makes an unreadable live model an error. Otherwise the one before serves, or a first one is fitted.
	Strict bool
}

// Role is what a process does for a pipeline.
type Role string

// The roles.
const (
	RoleAll       Role = "all"       // it transforms, and trains while no other replica does
	RoleTransform Role = "transform" // it transforms with the models that other replicas train
	RoleTrain     Role = "train"     // it trains while no other replica does, and transforms nothing
)

// Roles are all roles.
var Roles = []Role{RoleAll, RoleTransform, RoleTrain}

// Standby is whether a replica reads the input for learning while another one is the trainer.
type Standby string

// The kinds of standby.
const (
	StandbyWarm Standby = "warm" // one standby replica reads it, so its window is full when it takes over
	StandbyCold Standby = "cold" // none does; a new trainer first reads the window of the live model again
)

// Standbys are all kinds of standby.
var Standbys = []Standby{StandbyWarm, StandbyCold}

// WhenStale says what happens to messages while the live model is older than MaxAge.
type WhenStale string

// The ways to continue without a fresh model.
const (
	StaleServe WhenStale = "serve" // messages are transformed, and marked
	StaleHold  WhenStale = "hold"  // nothing leaves and nothing is lost
	StalePass  WhenStale = "pass"  // messages leave unchanged, marked, without an embedding
)

// Stop halts a pipeline when Bad of its newest Of messages were bad. Zero: never.
type Stop struct{ Bad, Of int }

const (
	// MinAckWait is the shortest AckWait; messages in progress are kept alive three times in it.
	MinAckWait = 10 * time.Millisecond
	// MinAckPending is the smallest AckPending that does not slow down a process: the messages that it may hold between
	// delivery and acknowledgement.
	MinAckPending = 1024
	// DefaultAckPending is the AckPending of a pipeline that sets none. It is larger than one process's share so that a
	// replacement can pull immediately while a crashed process's messages wait out their AckWait.
	DefaultAckPending = 16 * MinAckPending
	// MaxAckPending is the largest AckPending: as many outputs can be looked up (Invariant 5).
	MaxAckPending = 1 << 17
	// MaxPartitions is the maximum number of partitions of an input: each is a consumer.
	MaxPartitions = 256
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// WithDefaults returns p with its defaults filled in, and the first error that its values have.
func (p Pipeline) WithDefaults() (Pipeline, error) {
	p.AckWait = cmp.Or(p.AckWait, 10*time.Second)
	p.InFlight = cmp.Or(p.InFlight, 256<<20)
	p.AckPending = cmp.Or(p.AckPending, DefaultAckPending)
	p.Attempts = cmp.Or(p.Attempts, 5)
	p.WhenStale = cmp.Or(p.WhenStale, StaleServe)
	p.Standby = cmp.Or(p.Standby, StandbyWarm)
	p.ModelSyncTimeout = cmp.Or(p.ModelSyncTimeout, registry.DefaultMaxStaleness)
	p.Role = cmp.Or(p.Role, RoleAll)
	for _, check := range []func() error{p.checkRole, p.checkPartitions, p.checkValues} {
		if err := check(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// CheckAll returns a copy of pipelines with their defaults filled in, and the first error that they have alone or
// together.
func CheckAll(pipelines []Pipeline) ([]Pipeline, error) {
	out := slices.Clone(pipelines)
	names := map[string]bool{}
	for i, p := range out {
		p, err := p.WithDefaults()
		if err != nil {
			return nil, err
		}
		if names[p.Name] {
			return nil, fmt.Errorf("two pipelines are named %s", p.Name)
		}
		names[p.Name] = true
		out[i] = p
	}
	return out, nil
}

// isReserved reports whether pipelines answer requests on a subject.
func isReserved(subject string) bool { return strings.HasPrefix(subject, "embedd.") }

func (p Pipeline) checkValues() error {
	switch {
	case !slices.Contains(Standbys, p.Standby):
		return fmt.Errorf("pipeline %s: standby %q is not one of warm and cold", p.Name, p.Standby)
	case !nameForm.MatchString(p.Name):
		return fmt.Errorf("pipeline name %q: letters, digits, - and _ only, since it names a consumer", p.Name)
	case p.Subject == "" || p.Output == "" || p.Dead == "":
		return fmt.Errorf("pipeline %s: input %q, output %q and dead letter subject %q must all be named", p.Name,
			p.Subject, p.Output, p.Dead)
	case slices.ContainsFunc([]string{p.Subject, p.Labels, p.Output, p.Dead}, isReserved):
		return fmt.Errorf("pipeline %s: input %q, labels %q, output %q and dead letter subject %q: none may begin with "+
			"embedd., where pipelines answer requests", p.Name, p.Subject, p.Labels, p.Output, p.Dead)
	case !slices.Contains([]WhenStale{StaleServe, StaleHold, StalePass}, p.WhenStale):
		return fmt.Errorf("pipeline %s: when stale %q is not one of serve, hold and pass", p.Name, p.WhenStale)
	case p.AckPending < 1 || p.AckPending > MaxAckPending:
		return fmt.Errorf("pipeline %s: at most %d messages without an acknowledgement: want 1 to %d, the outputs that can "+
			"be looked up", p.Name, p.AckPending, MaxAckPending)
	case p.Attempts < 3:
		return fmt.Errorf("pipeline %s: %d attempts are too few: a message is known to crash processes from the third on",
			p.Name, p.Attempts)
	case p.Stage.Labels != nil && p.Labels == "":
		return fmt.Errorf("pipeline %s: rows wait for late labels, and the subject of these is not named", p.Name)
	case p.Stop.Bad < 0 || p.Stop.Of < p.Stop.Bad || p.Stop.Bad == 0 && p.Stop.Of > 0:
		return fmt.Errorf("pipeline %s: %d bad messages of %d cannot halt it", p.Name, p.Stop.Bad, p.Stop.Of)
	case p.AckWait < MinAckWait:
		return fmt.Errorf("pipeline %s: the acknowledgement wait %v is shorter than %v", p.Name, p.AckWait, MinAckWait)
	case p.InFlight < 0 || p.MaxAge < 0:
		return fmt.Errorf("pipeline %s: %d bytes in flight and a model age of %v: neither can be negative", p.Name,
			p.InFlight, p.MaxAge)
	case strings.ContainsAny(p.Output+p.Dead, "*> \t"):
		return fmt.Errorf("pipeline %s: output %q and dead letter subject %q must be subjects without wildcards",
			p.Name, p.Output, p.Dead)
	}
	if _, err := wildcard.ParseMapping(p.Subject, p.Output); err != nil {
		return fmt.Errorf("pipeline %s: output %q: %w", p.Name, p.Output, err)
	}
	return nil
}

// OutputPattern is the pattern of the subjects of outputs: Output, with a * for each {{wildcard(n)}}.
func (p *Pipeline) OutputPattern() string { return wildcard.Mapped(p.Output) }

// checkRole checks that the pipeline can have its role.
func (p Pipeline) checkRole() error {
	stored := p.Stage.Fixed != nil || !p.Models.None && (p.Stream != "" || p.Models.Directory != "")
	switch {
	case !slices.Contains(Roles, p.Role):
		return fmt.Errorf("pipeline %s: role %q is not one of all, transform and train", p.Name, p.Role)
	case p.Role == RoleTransform && !stored:
		return fmt.Errorf("pipeline %s: role transform uses models from a store, and there is none; set model.store, or "+
			"role all", p.Name)
	case p.ModelsFromHub() && p.Role != RoleTransform:
		return fmt.Errorf("pipeline %s: the models come from the hub (domain %s), which trains them; give this replica role "+
			"transform: 'embedd run --role transform', or daemon.role", p.Name, p.Models.Hub)
	case p.Role == RoleTrain && p.Stream == "":
		return fmt.Errorf("pipeline %s: role train reads a stream, and core NATS has none; set input.stream, or role all",
			p.Name)
	case p.LearnsFromEdges() && p.Role != RoleTrain:
		return fmt.Errorf("pipeline %s: the rows are at the edges (%s), and their summaries are learned from here; give "+
			"this replica role train: 'embedd run --role train', or daemon.role", p.Name, strings.Join(p.Edges, ", "))
	case p.Lease != 0 && (p.Lease < lease.MinTTL || p.Lease > lease.MaxTTL):
		return fmt.Errorf("pipeline %s: a lease of %v: give it from %v to %v", p.Name, p.Lease, lease.MinTTL, lease.MaxTTL)
	}
	return nil
}

func (p Pipeline) checkPartitions() error {
	if p.Partitions == 0 {
		return nil
	}
	_, err := wildcard.Keys(p.Subject)
	switch {
	case p.Partitions < 2 || p.Partitions > MaxPartitions:
		return fmt.Errorf("pipeline %s: %d partitions: want 2 to %d, or none", p.Name, p.Partitions, MaxPartitions)
	case p.Stream == "":
		return fmt.Errorf("pipeline %s: partitions need a stream, and core NATS has none: set input.stream", p.Name)
	case err != nil:
		return fmt.Errorf("pipeline %s: %w", p.Name, err)
	}
	return nil
}

// ModelsInServer reports whether the models are in buckets of the server's own JetStream domain, or of the hub that
// these mirror.
func (p *Pipeline) ModelsInServer() bool {
	return p.Stream != "" && p.Stage.Fixed == nil && !p.Models.None && p.Models.Directory == ""
}

// ModelsFromHub reports whether the models come from a hub: the replica is at a leaf node.
func (p *Pipeline) ModelsFromHub() bool { return p.Models.Hub != "" && p.ModelsInServer() }

// LearnsFromEdges reports whether this is the hub of edges: the rows and their summaries are at the edges, and the
// trainer here learns from the summaries.
func (p *Pipeline) LearnsFromEdges() bool {
	return len(p.Edges) > 0 && p.Models.Hub == "" && p.Stage.Fixed == nil && p.Stage.Training.Block > 0 && p.Stream != ""
}

// SendsSummaries reports whether this is an edge whose hub learns from its summaries.
func (p *Pipeline) SendsSummaries() bool {
	return p.ModelsFromHub() && len(p.Edges) > 0 && p.Stage.Training.Block > 0
}
