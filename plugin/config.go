package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// Nulls says what becomes of rows with a null, NaN or infinite feature.
type Nulls string

// The policies for missing features.
const (
	NullsReject Nulls = "reject" // the row becomes a dead letter
	NullsImpute Nulls = "impute" // the model's mean takes the place of the feature
	NullsSkip   Nulls = "skip"   // the row is left out and counted
)

// Until says what happens before a first model exists.
type Until string

// The ways to begin.
const (
	UntilHold Until = "hold" // nothing leaves and nothing is lost
	UntilPCA  Until = "pca"  // a PCA of the first rows, labelled or not, serves meanwhile
	UntilSkip Until = "skip" // messages are let go without output, counted
)

// Balance says which row leaves a full window.
type Balance string

// The ways to choose it.
const (
	BalanceClass Balance = "class" // the oldest of each class that has more than its share
	BalanceNone  Balance = "none"  // the oldest row
)

// Window bounds the rows that a fit sees.
type Window struct {
	Rows int           // most rows; default 20,000
	Age  time.Duration // rows older than this, seen from the newest row, leave; 0: no bound
	// Bytes is the most memory of rows, of the statistics and copies that fits are made from, and of rows that wait
	// to be learned; default 1 GiB. Fewer than Rows are kept where it binds.
	Bytes   int64
	Balance Balance // default BalanceClass
}

// Quota bounds what one source can do to what is learned: it has at most a share of the rows that a class may have in
// the window, and of the labels that the window has room for. Its zero value bounds nothing.
type Quota struct {
	By    QuotaBy
	Share float64 // default 0.5
}

// QuotaBy says what a source is.
type QuotaBy string

// The kinds of source.
const (
	QuotaNone    QuotaBy = ""
	QuotaSubject QuotaBy = "subject" // Position.Source
	QuotaKey     QuotaBy = "key"     // the key of a row
)

// Align says how the coordinates of a new model are brought near those of the live one; see [model.Align].
type Align string

// The ways to align.
const (
	AlignNone  Align = "none"
	AlignSign  Align = "sign"
	AlignBlock Align = "block"
	AlignRigid Align = "rigid"
)

// Training says when and from what a model is fitted, and when it goes live.
type Training struct {
	Window  Window
	Every   Every
	Quota   Quota
	Holdout float64 // share of the rows that no fit sees, and that all models are judged by; default 0.2
	Gate    Gate
	// IgnoreDrift leaves the window as it is when the rows change; without it older rows are left out then.
	IgnoreDrift bool
	Align       Align // default AlignRigid
	// Block, where it is not 0, is how many messages of the stream are learned from as one: the host makes a summary of
	// them, here or elsewhere, with Stage.Summing, and Stage.LearnSummary takes it in the place of Stage.Learn.
	Block int
}

// Config says all of a stage. Zero fields mean the defaults of [New].
type Config struct {
	Name string       // names the stage in logs
	Spec arrowio.Spec // what is read from a message
	// Contract is the schema of the messages; nil: that of Spec where it fixes one, of the model, or else of the messages.
	Contract *arrowio.Contract
	Nulls    Nulls // default NullsReject
	Output   arrowio.Output

	Fit      fit.Config // how to fit; the zero value is auto. Workers 0 is all cores but one here, and at least one
	Training Training
	Until    Until // default UntilHold
	Classes  int   // most classes; default 1000
	// LowPriority has the worker that learns run on a thread of its own of low priority once a first model is live, where
	// the system has that for threads (Linux): answers do not wait for it. Threads are the host's, so it is the host's choice. A thread that waits
	// for a core holds one of GOMAXPROCS, and what stops all goroutines waits for it: one more makes up for the first.
	LowPriority bool
	// Busy, where set, tells whether answers wait. While it does, and once a first model is live, learning rests for nine
	// tenths of the time; what it decides stays the same. It is asked many times a second and must not block.
	Busy func() bool
	// Labels, where set, lets labels come apart from their rows: Stage.LearnLabels takes them. Spec names key and
	// label.
	Labels *Labels

	Fixed *model.Model // a model that answers as it is: no learning
	// the model that was live before a restart; rows up to what it has seen only fill the window again
	Resume *Live
	// Standby says that another process of the same stream fits; see [Stage.Standby].
	Standby bool
	// Epochs is the highest epoch that the pipeline had before, in whatever life of its: the first model is of the next.
	Epochs int

	// Store, where set, keeps a model before it goes live and returns its version. With an error the model does not
	// go live. It is called by the worker that fits, never under a lock.
	Store func(ctx context.Context, r *Release) (version string, err error)
	// Checkpoint, where set, keeps what the learner knows beside its window; the host gives the newest back in
	// Resume.State. It is called as Store is. A checkpoint that is lost costs a restart nothing but reading more rows.
	Checkpoint func(ctx context.Context, state []byte) error
	// Source, where set, says where rows came from, for the model's note.
	Source map[string]string
	// Observe, where set, gets what came of every fit, after the pointer moved.
	Observe func(Outcome)

	Logger *slog.Logger     // default: no logs
	Clock  func() time.Time // default time.Now; it decides when a period has passed, never which rows are in the window
}

// withDefaults fills the zero fields and refuses what can't be.
func (c Config) withDefaults() (Config, error) {
	set(&c.Nulls, NullsReject)
	set(&c.Until, UntilHold)
	set(&c.Classes, 1000)
	set(&c.Training.Window.Bytes, 1<<30)
	set(&c.Training.Gate.Evidence, 1000)
	set(&c.Training.Window.Rows, 20000)
	set(&c.Training.Window.Balance, BalanceClass)
	set(&c.Training.Align, AlignRigid)
	if c.Fit.Own == nil {
		set(&c.Fit.Method, fit.Auto)
	}
	// Candidates follow each other on rows that are much alike: which of the scales is best by a hair would change with
	// them, and with it what sums can be kept. Nor is there a blend unless it is asked for.
	set(&c.Fit.Scale, model.ScaleStandard)
	set(&c.Fit.Blend, 1)
	if c.Training.Every == (Every{}) {
		c.Training.Every = Every{Rows: 5000, Period: 10 * time.Minute}
	}
	c.Logger = discardLogger(c.Logger)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{
		{"nulls", string(c.Nulls), []string{"reject", "impute", "skip"}},
		{"until ready", string(c.Until), []string{"hold", "pca", "skip"}},
		{"window balance", string(c.Training.Window.Balance), []string{"class", "none"}},
		{"align", string(c.Training.Align), []string{"none", "sign", "block", "rigid"}},
	} {
		if !slices.Contains(f.allowed, f.value) {
			return c, fmt.Errorf("%s %q is not one of %v", f.name, f.value, f.allowed)
		}
	}
	if q := &c.Training.Quota; q.By == QuotaNone {
		q.Share = 0
	} else {
		set(&q.Share, 0.5)
		if !slices.Contains([]QuotaBy{QuotaSubject, QuotaKey}, q.By) || !(q.Share > 0 && q.Share <= 1) ||
			q.By == QuotaKey && c.Spec.Key == "" {
			return c, fmt.Errorf("quota by %q of %g: by subject, or by key with a key column named, and a share in (0, 1]",
				q.By, q.Share)
		}
	}
	set(&c.Training.Holdout, 0.2)
	if h := c.Training.Holdout; !(h > 0 && h <= 0.5) {
		return c, fmt.Errorf("holdout %g is not in (0, 0.5]; without held-out rows no candidate could be judged", h)
	}
	if g := c.Training.Gate; !(g.Evidence > 1) || !(g.Margin >= 0 && g.Margin < 1) {
		return c, fmt.Errorf("gate: evidence %g is not above 1, or margin %g not in [0, 1)", g.Evidence, g.Margin)
	}
	if c.Training.Window.Rows < 4 {
		return c, fmt.Errorf("a window of %d rows is too small; two classes of two rows need 4", c.Training.Window.Rows)
	}
	if c.Fixed != nil {
		return c, nil
	}
	if c.Labels != nil {
		labels, err := c.Labels.withDefaults(c.Spec)
		if err != nil {
			return c, err
		}
		c.Labels = labels
	}
	method, err := c.Fit.Describe()
	if err != nil {
		return c, err
	}
	if c.Fit.Nonlinear || c.Fit.Scale == model.ScaleRank {
		return c, fmt.Errorf("nonlinear auto and the scale rank need all rows at each fit, and a stage fits again and again; give landmarks for curved lines, or fit once and serve the model as it is")
	}
	if c.Fit.Landmarks > 0 && c.Spec.Label == "" {
		return c, fmt.Errorf("landmarks are judged by the labels that are told behind them, and no label column is named; name one, or give 0 landmarks")
	}
	if c.Fit.Landmarks > 0 && c.Fit.Method != fit.Auto && method.Map != "linear" {
		return c, fmt.Errorf("method %s makes a map of its own, %s; landmarks are for linear methods", method.Name, method.Map)
	}
	if err := c.Fit.Validate(); err != nil {
		return c, err
	}
	if err := c.checkBlock(method); err != nil {
		return c, err
	}
	if method.Supervised && c.Spec.Label == "" {
		return c, fmt.Errorf("method %s learns from labels, and no label column is named; name one, or use method pca",
			method.Name)
	}
	return c, nil
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
