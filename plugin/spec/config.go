package spec

import (
	"context"
	"log/slog"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// Nulls is what happens to rows with a feature that is null, NaN, infinite or beyond float32.
type Nulls string

// The policies for missing features.
const (
	NullsReject Nulls = "reject" // the row becomes a dead letter
	NullsImpute Nulls = "impute" // the model's mean, which AlignRigid shifts, replaces the missing feature
	NullsSkip   Nulls = "skip"   // the row is left out and counted
)

// Until is what happens to messages before a first model exists.
type Until string

// The policies before a first model.
const (
	UntilHold Until = "hold" // messages wait; none is lost
	UntilPCA  Until = "pca"  // a PCA of the first rows without a label serves until the first model
	UntilSkip Until = "skip" // messages are acknowledged without output, and counted
)

// Balance selects the row that leaves a full window.
type Balance string

// The policies for a full window.
const (
	BalanceClass Balance = "class" // the oldest row of a class that has more than its share
	BalanceNone  Balance = "none"  // the oldest row
)

// Window bounds the rows that a fit sees.
type Window struct {
	Rows int           // maximum number of rows; default 20,000
	Age  time.Duration // rows older than this, relative to the newest row, leave; 0: no bound
	// Bytes bounds the memory of rows, of the statistics and copies that fits are made from, and of rows that wait
	// to be learned; default 1 GiB. The window holds fewer than Rows where this bound is reached first.
	Bytes   int64
	Balance Balance // default BalanceClass
}

// Quota bounds the influence of one source on learning: its share of a class's rows in the window, and of the labels
// that the window has room for. The zero value sets no bound.
type Quota struct {
	By    QuotaBy
	Share float64 // default 0.5
}

// QuotaBy is what identifies a source.
type QuotaBy string

const (
	QuotaNone    QuotaBy = ""        // no bound
	QuotaSubject QuotaBy = "subject" // Position.Source
	QuotaKey     QuotaBy = "key"     // the key of a row
)

// Align is how the outputs of a new model are aligned to those of the live one; see [model.Align].
type Align string

// The kinds of alignment.
const (
	AlignNone  Align = "none"
	AlignSign  Align = "sign"
	AlignBlock Align = "block"
	AlignRigid Align = "rigid"
)

// Every is the maximum interval between fits: Rows labelled rows, or Period with at least one new labelled row,
// whichever comes first. A zero field sets no interval.
type Every struct {
	Rows   int
	Period time.Duration
}

// Gate is how much evidence a candidate needs before it goes live: e-values of sequential tests against the live
// model on rows that neither has seen. A threshold of +Inf is never reached.
type Gate struct {
	// Evidence is required that a candidate is better. Default 1000: one that is not passes about once in as many tries.
	Evidence float64
	Margin   float64 // by how much a candidate's accuracy must exceed the live model's, in [0, 1); default 0
	// MoreRows is required that a candidate from far more rows than the live model is no worse, NewClass that one with an
	// additional class is. Default: the square root of Evidence. With +Inf such a candidate has to be better as any.
	// Following is required that refitting the newest rows is better than the whole window, for each such fit to go
	// live. Default: the same; +Inf: none does without passing as a candidate.
	MoreRows, NewClass, Following float64
	NeverFirst                    bool // no first model goes live: only one that Adopt brings does
}

// Training configures when and from what a model is fitted, and when it goes live.
type Training struct {
	Window  Window
	Every   Every
	Quota   Quota
	Holdout float64 // share of the rows that no fit sees, and that all models are scored on; default 0.2
	Gate    Gate
	// IgnoreDrift keeps older rows in the window when the drift detector reports a change. Without it they are removed.
	IgnoreDrift bool
	Align       Align // default AlignRigid
	// Block, if not 0, is the number of messages per block. The stage then learns from summaries of blocks instead of
	// single messages.
	Block int
}

// Labels configures labels that arrive in separate messages and are joined with their rows by key.
type Labels struct {
	Wait  time.Duration // maximum time between a row and its label, by the times of their messages; default 24 h
	Bytes int64         // memory for rows and labels that wait for each other; default 256 MiB
}

// Config configures a stage. Zero fields mean the defaults. A panic of StoreContract, Store, Checkpoint, SettleEpoch or
// Observe is logged and does not end the process. These functions must not call Close or Wait of the stage: both wait
// for the worker that calls them. Slices, maps and pointers of a Config must not change after New.
type Config struct {
	Spec arrowio.Spec // which columns of a message are read
	// Contract is the schema of the messages. If it is nil, it is that of Spec if Spec fixes one, or that of the model
	// in Fixed or Resume. Otherwise messages are counted until the contract that most of them propose has the rows that
	// a first model needs.
	Contract *arrowio.Contract
	Nulls    Nulls // default NullsReject
	Output   arrowio.Output

	Fit      fit.Config // how to fit; the zero value is auto. Workers 0 means all cores but one, and at least one
	Training Training
	Until    Until // default UntilHold
	Classes  int   // maximum number of classes; default 1000
	// LowPriority runs the learning worker on a thread of low priority once a first model is live, on systems with
	// priorities per thread (Linux). A thread of low priority may hold one of GOMAXPROCS while it waits for a core, and
	// delays garbage collection: raise GOMAXPROCS by one to compensate.
	LowPriority bool
	// Busy, if set, reports whether transforms are waiting. While it does, and once a first model is live, learning
	// sleeps nine tenths of the time; its decisions stay the same. It is called often and must not block.
	Busy func() bool
	// Labels, if set, makes the stage join rows with labels that arrive in separate messages. Spec must name key
	// and label.
	Labels *Labels

	// Fixed is a model that is served as it is; the stage does not learn. Its features must be those of Spec, see
	// [arrowio.Spec.ContractOf].
	Fixed *model.Model
	// Resume is the model that was live before a restart. Rows that it has seen fill the window and are not scored.
	Resume *Live
	// Standby means that another process fits models for this stream. This stage learns rows, but fits nothing.
	Standby bool
	// Epochs is the highest epoch that the pipeline has ever had. The first model begins the next one.
	Epochs int

	// StoreContract, if set, stores the counted contract and returns the stored one: the same, or another
	// if another process was first. If it fails, it is called again. The learning worker calls it, never under a lock.
	StoreContract func(ctx context.Context, c *arrowio.Contract) (*arrowio.Contract, error)
	// Store, if set, saves a model before it goes live and returns its version. If it fails, the model does not go
	// live. The learning worker calls it, never under a lock.
	Store func(ctx context.Context, r *Release) (version string, err error)
	// Checkpoint, if set, saves the learner's state without the rows of its window. The host passes the newest one back
	// in Resume.State. The learning worker calls it. If a checkpoint is lost, a restart reads more rows.
	Checkpoint func(ctx context.Context, state []byte) error
	// SettleEpoch, if set, saves the answer whether the epoch of the live model is comparable with those before it, which
	// was undecided when the model went live. The model is that of the last Release or of Resume; Epoch, SameAs and
	// Undecided say what is known now. If it fails, it is called again at a later checkpoint. The learning worker calls
	// it, never under a lock.
	SettleEpoch func(ctx context.Context, l *Live) error
	// Source, if set, is where rows came from. It becomes part of the model's note.
	Source map[string]string
	// Observe, if set, receives the outcome of every fit, after the live model has changed.
	Observe func(Outcome)

	Logger *slog.Logger // default: no logs
	// Clock defaults to time.Now. It decides when a period has passed, never which rows are in the window.
	Clock func() time.Time
}
