package spec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
)

// State is the state of a pipeline, in a word.
type State string

// The states in order of precedence: a pipeline has the first that applies.
const (
	StateStopping        State = "stopping"          // it pulls no more inputs and answers those that it has
	StateHalted          State = "halted"            // too many messages were bad; an operator has to resume it
	StateBlocked         State = "blocked"           // something outside keeps it from answering; the reason names it
	StateStarting        State = "starting"          // its streams have not been inspected yet
	StateWaitingForModel State = "waiting_for_model" // nothing leaves until a model exists, or a fresh one
	StateStale           State = "stale"             // the live model is too old; inputs are answered, and marked
	StateParked          State = "parked"            // dead letters are not stored; all other inputs are answered
	StateDegraded        State = "degraded"          // inputs are answered, and something needs attention
	StateLearning        State = "learning"          // no model is trained yet; inputs are answered as until_ready says
	StateIdle            State = "idle"              // no input arrives
	StateReady           State = "ready"             // inputs are answered
)

// States are all states, in the order of precedence.
var States = []State{StateStopping, StateHalted, StateBlocked, StateStarting, StateWaitingForModel, StateStale,
	StateParked, StateDegraded, StateLearning, StateIdle, StateReady}

// Ready reports whether an input would be answered now, as the configuration says.
func (s State) Ready() bool {
	return slices.Contains([]State{StateParked, StateDegraded, StateLearning, StateIdle, StateReady}, s)
}

// Common has the fields that a status and its report share.
type Common struct {
	Pipeline   string `json:"pipeline"`
	Generation int    `json:"generation"` // of the configuration: 1 at the start of the engine, one more after each reload
	Ready      bool   `json:"ready"`      // State.Ready
	State      State  `json:"state"`
	Reason     string `json:"reason,omitempty"` // the state in a sentence; "" where the word is enough
	// Claimed counts the answers that were sent under a second identity, because another message had theirs.
	Claimed    uint64      `json:"claimed,omitempty"`
	Messages   float64     `json:"messages"`              // inputs that were answered since the start
	DeadRows   float64     `json:"dead_rows"`             // rows that became dead letters since the start
	DeadLabels float64     `json:"dead_labels,omitempty"` // label messages that became dead letters since then
	Conditions []Condition `json:"conditions,omitempty"`  // what blocks answers, or needs attention
	Role       Role        `json:"role"`
	Partitions *int        `json:"partitions,omitempty"` // that this process owns; nil without partitions
	IsTrainer  bool        `json:"is_trainer"`           // this process is the trainer
	Trainer    string      `json:"trainer,omitempty"`    // which replica is the trainer, a sentence; "" where this one is
	Term       uint64      `json:"term,omitempty"`       // of this process's lease; 0: it has none
	Revision   uint64      `json:"revision,omitempty"`   // of the newest pointer of the model store that it knows
	// Store is what happened to the stored models before the start (damage, other features), and why the live one there
	// cannot be used; or "".
	Store string `json:"store,omitempty"`
	// Changes are the keys of the configuration that have changed: those that are not in effect, and those that this
	// process applied.
	Changes    []Change    `json:"changes,omitempty"`
	Deliveries *Deliveries `json:"deliveries,omitempty"` // nil where replicas share no consumer
}

// Status is the status of one pipeline in this process.
type Status struct {
	Common
	LagKnown   bool          // Lag and Oldest are known: only the trainer reads them
	Lag        uint64        // messages of the input that are not answered
	Oldest     time.Duration // age of the oldest of them
	InputEvent string        // the last event of the input stream that learning had to follow, with its time; or ""
	Hub        string        // domain that has the models, where that is not the server's own
	LastHeard  time.Time     // when the hub last reported its live model; zero: not yet
	HubSilence time.Duration // since then, or since the pipeline was opened
	// Displacement is how far the last promotion moved the outputs, relative to their spread; nil: none since the start.
	Displacement *float64
	Stage        plugin.Status
	// Contract is the schema of the messages; nil while messages are counted to find it, see plugin.Status.Candidates.
	Contract *arrowio.Contract
	Busy     float64 // share of the last seconds in which there were inputs to answer
	// InFlight is the memory of the inputs between pull and acknowledgement, at most about InFlightLimit; on core NATS of
	// those that wait.
	InFlight, InFlightLimit int64
	// DeadLetters is how many messages the stream has on the subject of the dead letters; nil: not known, as in replicas
	// that do not observe the lag.
	DeadLetters *uint64
	Age         time.Duration      // since the live model was last confirmed: fitted, or kept after scoring a labelled row
	Stale       bool               // Age is over MaxAge
	Labels      plugin.LabelStatus // zero without late labels

	Halted              string // why the pipeline is halted; "" while it is not
	Quarantined         int    // messages that are quarantined from learning, since the process crashed on each
	TrainingStopped     bool   // learning has stopped, since the process crashed in it repeatedly; Learning has the reason
	Undeliverable       int    // inputs that cannot be stored in any form now
	UndeliverableReason string // why the last of them cannot

	FixedModel bool // the model is a file: nothing is learned
	LateLabels bool // labels have a separate subject
}

// Report is a status in the form in which the service of a pipeline sends it.
type Report struct {
	Common
	Instance      string              `json:"instance,omitempty"`      // of the service, where several replicas run it
	Lag           *Lag                `json:"lag"`                     // null unless this replica is the trainer
	Model         *ReportModel        `json:"model"`                   // null before the first
	Halted        bool                `json:"halted,omitempty"`        // too many messages were bad; see reason
	Undeliverable *Undeliverable      `json:"undeliverable,omitempty"` // inputs that cannot be stored now
	Hub           *Hub                `json:"hub,omitempty"`           // absent where the models do not come from a hub
	Schema        Schema              `json:"schema"`
	Learning      Learning            `json:"learning"`
	Labels        *plugin.LabelStatus `json:"labels,omitempty"` // absent without late labels
}

// Hub is the domain whose models a leaf node mirrors.
type Hub struct {
	Domain    string     `json:"domain"`
	LastHeard *time.Time `json:"last_heard"` // when it last reported its live model; null: not yet
}

// Schema is the schema of the messages, or the candidates for it while they are counted.
type Schema struct {
	Features int          `json:"features,omitempty"` // elements of a row; absent while messages are counted
	Columns  string       `json:"columns,omitempty"`  // with these elements: "x[64], z"; long lists are cut
	Counting *SchemaCount `json:"counting,omitempty"` // absent once the schema is known
	// Mismatched counts messages that arrived before the schema was known, do not fit it, and were not learned.
	Mismatched int `json:"mismatched,omitempty"`
}

// SchemaCount is the count of messages per schema, while the schema of the pipeline is not known.
type SchemaCount struct {
	Messages   int               `json:"messages"`        // that were counted
	Candidates []SchemaCandidate `json:"candidates"`      // the leader first, at most eight
	Other      int               `json:"other,omitempty"` // messages of candidates beyond the first 64
}

// SchemaCandidate is a schema that messages have.
type SchemaCandidate struct {
	Features int    `json:"features"`
	Columns  string `json:"columns"`
	Messages int    `json:"messages"` // that can be learned from
	Rows     int    `json:"rows"`     // of them
	First    uint64 `json:"first"`    // sequence number of the first of these messages
}

// schema is the part of a report about the schema.
func (s *Status) schema() Schema {
	out := Schema{Features: s.Contract.Len(), Columns: s.Contract.Short(), Mismatched: s.Stage.Mismatched}
	if s.Contract == nil {
		out.Counting = &SchemaCount{Messages: s.Stage.Counted, Candidates: []SchemaCandidate{},
			Other: s.Stage.OtherCandidates}
		for _, c := range s.Stage.Candidates {
			out.Counting.Candidates = append(out.Counting.Candidates, SchemaCandidate{Features: c.Contract.Len(),
				Columns: c.Contract.Short(), Messages: c.Messages, Rows: c.Rows, First: c.First})
		}
	}
	return out
}

// CountingText describes the progress of counting schemas; s has candidates.
func CountingText(s *plugin.Status) string {
	c := s.Candidates[0]
	return fmt.Sprintf("counting schemas: %s leads with %d of %d messages (%d of %d labelled rows)",
		c.Contract.Short(), c.Messages, s.Counted, s.Rows, s.Needed)
}

// Lag is the part of the input that is not answered.
type Lag struct {
	Messages uint64  `json:"messages"`
	Seconds  float64 `json:"seconds"` // age of the oldest
}

// ReportModel is the live model.
type ReportModel struct {
	Version    string  `json:"version"`
	Method     string  `json:"method"`
	Dim        int     `json:"dim"`
	Epoch      int     `json:"epoch"`
	SameAs     int     `json:"same_as_epoch,omitempty"`        // the first of the epochs that are recorded as one with it
	Undecided  int     `json:"undecided_with_epoch,omitempty"` // whether it is comparable with this epoch is not decided
	Bootstrap  bool    `json:"bootstrap"`                      // the PCA that serves until a first model exists
	WasReset   bool    `json:"reset,omitempty"`                // it answers until the first model of the next epoch exists
	Pinned     bool    `json:"pinned"`
	AgeSeconds float64 `json:"age_seconds"`
	Stale      bool    `json:"stale"`
}

// Undeliverable counts the inputs that cannot be stored in any form now: the stream refuses their dead letters.
type Undeliverable struct {
	Messages int    `json:"messages"`
	Reason   string `json:"reason"` // of the last
}

// Learning is the progress of learning.
type Learning struct {
	plugin.Progress
	// BehindSeconds is the age of the newest labelled row that was learned; null: none since the start
	BehindSeconds *float64 `json:"behind_seconds"`
	// EffectiveRows is how many independent rows those of the window are worth; null: not known yet
	EffectiveRows *float64 `json:"effective_rows"`
	RunRows       *float64 `json:"run_rows"` // mean number of rows in a row with one label; null: not known yet
	// LabelledShare is the share of the rows that arrived since the start that have a label; null: none arrived
	LabelledShare *float64 `json:"labelled_share"`

	Accuracy  *float64 `json:"accuracy"`  // of the live model on rows before they were learned; null: not known yet
	Chance    *float64 `json:"chance"`    // what it would be if labels were random
	Candidate *float64 `json:"candidate"` // accuracy of the candidate with the most evidence
	// EvidenceRequired is the evidence at which the door opens; null: it is closed.
	EvidenceRequired *float64 `json:"evidence_required,omitempty"`

	LastFitSeconds float64 `json:"last_fit_seconds"`
	LastFit        string  `json:"last_fit,omitempty"`    // its result
	InputEvent     string  `json:"input_event,omitempty"` // the last event of the input stream
}

// Report returns the status in the form in which the service of the pipeline sends it.
func (s Status) Report() Report {
	g := s.Stage
	if !(g.RunRows > 0) {
		g.RunRows = math.NaN()
	}
	if g.Rows == 0 {
		g.EffectiveRows = math.NaN()
	}
	if g.Received == 0 {
		g.LabelledShare = math.NaN()
	}
	r := Report{Common: s.Common, Halted: s.Halted != "", Schema: s.schema(),
		Learning: Learning{Progress: g.Progress, EffectiveRows: known(g.EffectiveRows), RunRows: known(g.RunRows),
			LabelledShare: known(g.LabelledShare), Accuracy: known(g.Accuracy), Chance: known(g.Chance),
			Candidate: known(g.Candidate), EvidenceRequired: known(g.EvidenceRequired), LastFitSeconds: g.LastFit.Seconds(),
			LastFit: g.Note, InputEvent: s.InputEvent}}
	if !g.Newest.IsZero() {
		behind := max(time.Since(g.Newest).Seconds(), 0) // clocks differ
		r.Learning.BehindSeconds = &behind
	}
	if s.Hub != "" {
		r.Hub = &Hub{Domain: s.Hub}
		if !s.LastHeard.IsZero() {
			r.Hub.LastHeard = &s.LastHeard
		}
	}
	if s.LagKnown {
		r.Lag = &Lag{s.Lag, s.Oldest.Seconds()}
	}
	if s.Undeliverable > 0 {
		r.Undeliverable = &Undeliverable{s.Undeliverable, s.UndeliverableReason}
	}
	if s.LateLabels {
		r.Labels = &s.Labels
	}
	if l := g.Live; l != nil {
		r.Model = &ReportModel{Version: l.Version, Method: l.Model.Method(), Dim: l.Model.Dim(), Epoch: l.Epoch,
			SameAs: l.SameAs, Undecided: l.Undecided, Bootstrap: l.Bootstrap, WasReset: l.WasReset, Pinned: g.Pinned,
			AgeSeconds: s.Age.Seconds(), Stale: s.Stale}
	}
	return r
}

// known returns a pointer to v for JSON, nil where v is not a number.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// The errors that a host reacts to, for errors.Is.
var (
	// ErrStreamMissing is returned by Run of an engine when the input stream of a pipeline does not exist, or no stream
	// takes its outputs or dead letters. It is jetstream.ErrStreamNotFound too. Setup creates what is missing.
	ErrStreamMissing = Describe("a stream is missing", jetstream.ErrStreamNotFound)
	// ErrNoJetStream is returned by Run of an engine and by Setup when a pipeline has an input stream and the server has
	// no JetStream.
	ErrNoJetStream = natsx.ErrNoJetStream
	// ErrConsumerTaken is returned by Run of an engine when the durable consumer of a pipeline's name reads another
	// subject, is of a kind that a pipeline cannot pull from, or is one of another stream, to which the models of the
	// name belong.
	ErrConsumerTaken = errors.New("the consumer belongs to another pipeline")
	// ErrDenied is in errors whose cause is a permission that the server's user lacks. The text names it.
	ErrDenied = natsx.ErrPermissionDenied
	// ErrDrain is returned by Run of an engine when inputs that were pulled could not be answered in time after it was
	// stopped. They stay in their stream.
	ErrDrain = errors.New("not drained")
)

// described is an error whose text replaces that of its cause.
type described struct {
	text  string
	cause error
}

func (e *described) Error() string { return e.text }
func (e *described) Unwrap() error { return e.cause }

// Describe returns an error with the given text alone, which wraps cause.
func Describe(text string, cause error) error { return &described{text, cause} }
