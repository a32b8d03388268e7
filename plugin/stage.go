package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model"
)

// The errors that a host reacts to, for errors.Is. What is wrong with a message is an [*arrowio.Error], whose codes
// errors.Is finds too.
var (
	// ErrNoModel is returned by [Stage.Transform] while no model is live. A host waits on [Stage.Ready], or lets the
	// message go, by its own choice.
	ErrNoModel = errors.New("no model is live yet")
	// ErrClosed is returned by [Stage.Learn], [Stage.Refit] and [Stage.Wait] after [Stage.Close]. The live model goes
	// on answering.
	ErrClosed = errors.New("the stage is closed")
	// ErrFixed is returned by [Stage.Refit] when the stage has a fixed model, which nothing replaces.
	ErrFixed = errors.New("the stage has a fixed model and learns nothing")
	// ErrFewRows is returned by [Stage.Refit] when the window does not hold enough rows for a fit yet. A host learns
	// more and asks again.
	ErrFewRows = errors.New("there is nothing to fit from yet")
)

// Live is a model that answers, and what outputs say of it. It is immutable.
type Live struct {
	Model     *model.Model
	Version   string // its name in the store, else the first 16 hexadecimal digits of its digest
	Epoch     int    // outputs are comparable within one epoch; from 1
	Epochs    int    // the highest epoch so far, where an earlier model was chosen again; 0: Epoch
	Seen      uint64 // sequence number of the last message that its fit saw; 0 where nothing was fitted
	Bootstrap bool   // the PCA that serves until a first model exists: any model replaces it
	// Origin is the first model of the epoch, against which the next ones are judged; nil: Model itself.
	Origin *model.Model
	State  []byte // for [Config.Resume]: the learner's newest checkpoint, as Config.Store or Config.Checkpoint got it
}

// Metadata is what every output says of its model, in the order in which it is written.
func (l *Live) Metadata() []wire.Pair {
	m := wire.Model{Version: l.Version, Method: l.Model.Method(), Epoch: uint64(l.Epoch)}
	return append([]wire.Pair{wire.VersionPair()}, m.Pairs()...)
}

// named is the metadata of a model, kept from one output to the next.
type named struct {
	live  *Live
	pairs []wire.Pair
}

// naming is the metadata of a model, to which more may be appended.
func (s *Stage) naming(l *Live) []wire.Pair {
	n := s.named.Load()
	if n == nil || n.live != l {
		n = &named{l, slices.Clip(l.Metadata())}
		s.named.Store(n)
	}
	return n.pairs
}

// Stage decodes, learns, projects and encodes. All methods may be called from many goroutines at once, but Learn,
// which is called from one, in stream order. Decode, Expanded, FromRecord, Transform, Encode, Split, Record and
// EncodeRejected take no lock that learning holds.
type Stage struct {
	config  Config
	decoder *arrowio.Decoder
	labels  *arrowio.Decoder // of labels that come apart from their rows
	encoder *arrowio.Encoder

	contract atomic.Pointer[arrowio.Contract] // nil while it is not known

	live    atomic.Pointer[Live]
	named   atomic.Pointer[named]
	outputs sync.Pool     // of *[]float32: the memory of results that were released
	ready   chan struct{} // closed when a first model is live
	once    sync.Once

	learner *learner // nil with a fixed model
}

// New makes a stage. It starts nothing but the worker that fits, which [Stage.Close] ends.
func New(c Config) (*Stage, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	contract := c.Contract
	if contract == nil {
		contract, _ = c.Spec.Contract()
	}
	if c.Fixed != nil {
		if contract, err = arrowio.NewContract(c.Fixed.Features(), c.Spec.Label, c.Spec.Key); err != nil {
			return nil, err
		}
		c.Spec = c.Spec.Fixed(contract)
	}
	decoder, err := arrowio.NewDecoder(c.Spec)
	if err != nil {
		return nil, err
	}
	encoder, err := arrowio.NewEncoder(c.Output)
	if err != nil {
		return nil, err
	}
	labels, err := arrowio.NewDecoder(arrowio.Spec{Label: c.Spec.Label, Key: c.Spec.Key, Limits: c.Spec.Limits})
	if err != nil {
		return nil, err
	}
	s := &Stage{config: c, decoder: decoder, labels: labels, encoder: encoder, ready: make(chan struct{})}
	s.contract.Store(contract)
	if c.Fixed != nil {
		s.promote(liveOf(c.Fixed))
		return s, nil
	}
	if c.Resume != nil {
		if err := s.setContract(c.Resume.Model.Features()); err != nil {
			return nil, fmt.Errorf("resuming with model %s: %w", c.Resume.Version, err)
		}
		s.promote(c.Resume)
	}
	s.learner = newLearner(s)
	s.learner.start()
	return s, nil
}

// liveOf is a model from a file: its note names version and epoch where it came from a store.
func liveOf(m *model.Model) *Live {
	n := m.Note()
	l := &Live{Model: m, Version: n.Version, Epoch: int(n.Epoch)}
	if l.Version == "" {
		l.Version = m.Digest()[:16]
	}
	if l.Epoch == 0 {
		l.Epoch = 1
	}
	return l
}

// Adopt makes a model the live one that somebody chose outside of the stage: a pinned version, or the one before. While
// it is pinned no fit replaces it; Adopt with pinned false lets learning go on from it. The model has the features of
// the pipeline and as many dimensions as the live one. The error is ErrFixed or ErrClosed, or says what differs.
func (s *Stage) Adopt(l *Live, pinned bool) error {
	if s.learner == nil {
		return ErrFixed
	}
	return s.learner.adopt(l, pinned)
}

// promote moves the pointer. The hot path sees the new model at its next message; who still holds the old one ends
// with it (Invariant 4).
func (s *Stage) promote(l *Live) {
	s.live.Store(l)
	s.once.Do(func() { close(s.ready) })
}

// Live is the model that answers now, nil before the first.
func (s *Stage) Live() *Live { return s.live.Load() }

// Ready is closed when a first model is live.
func (s *Stage) Ready() <-chan struct{} { return s.ready }

// Learns tells whether the stage learns, or has a fixed model.
func (s *Stage) Learns() bool { return s.learner != nil }

// Decode reads one message. The message that it returns is a view on msg, which must not change afterwards. An error
// is an [*arrowio.Error]. Decoding changes nothing: what a message becomes depends on it, the configuration and the
// contract alone.
func (s *Stage) Decode(msg []byte) (*arrowio.Message, error) {
	return s.decoder.Decode(msg, s.contract.Load())
}

// Expanded is the number of bytes that a message comes to while it is decoded and answered with the live model, told
// before anything is unpacked; see [arrowio.Decoder.Expanded]. A host that holds messages counts them by it.
func (s *Stage) Expanded(msg []byte) int {
	dim := s.config.Fit.Dim
	if live := s.live.Load(); live != nil {
		dim = live.Model.Dim()
	}
	return s.decoder.Expanded(msg, dim)
}

// FromRecord is Decode for a record that the host holds: the same contract of schema, limits, nulls and labels, the
// same outputs and the same models, without the wire form. The message, and a result of it, are views on the record's
// memory: the host keeps the record (Retain, Release) and does not write to it until it is done with them;
// [Stage.Learn] copies what it keeps. Goroutines may share a record.
func (s *Stage) FromRecord(rec arrow.Record) (*arrowio.Message, error) {
	return s.decoder.FromRecord(rec, s.contract.Load())
}

// Result is what one message became.
type Result struct {
	Live     *Live // the one model of this attempt (Invariant 3)
	Reduced  arrowio.Reduced
	Rejected [][]int         // rows for the dead letters, by batch, ascending; nil where there are none
	Faults   []arrowio.Fault // what is wrong with the rejected rows, in their order
	Skipped  int             // rows left out by configuration

	one [1][]float32 // the memory of Reduced.Y where the message has one batch
}

// Release gives back the memory of a result's outputs, for those of later messages: a processor's cache has it still.
// Nobody uses the result after it. A host need not call it.
func (s *Stage) Release(r *Result) {
	for i := range r.Reduced.Y {
		if y := r.Reduced.Y[i]; y != nil {
			s.outputs.Put(&y)
		}
		r.Reduced.Y[i] = nil
	}
}

// outputsFor is memory for n numbers, with anything in it.
func (s *Stage) outputsFor(n int) []float32 {
	if y, ok := s.outputs.Get().(*[]float32); ok && cap(*y) >= n {
		return (*y)[:n]
	}
	return make([]float32, n)
}

// Reuse gives back the memory of messages that [Stage.Encode] or [Stage.Split] wrote, for later ones. Nobody uses them
// after it. A host need not call it.
func (s *Stage) Reuse(msgs ...[]byte) { s.encoder.Reuse(msgs...) }

// RejectedRows is the number of rejected rows.
func (r *Result) RejectedRows() int { return len(r.Faults) }

// Reject takes one more row out of the output: one that turned out not to fit.
func (r *Result) Reject(batch, row int, fault arrowio.Fault) {
	r.Reduced.Drop = insert(r.Reduced.Drop, len(r.Reduced.Y), batch, row)
	r.Rejected = insert(r.Rejected, len(r.Reduced.Y), batch, row)
	r.Faults = append(r.Faults, fault)
}

// Transform projects a message with the model that is live now. Rows with a missing feature, or one so far out that
// float32 cannot hold the output, go where Config.Nulls says. The result shares memory with the message. A model that projects through distances to its own rows can take
// seconds for a large batch: ctx is looked at between batches, and once it is done the error is its own.
func (s *Stage) Transform(ctx context.Context, m *arrowio.Message) (*Result, error) {
	live := s.live.Load()
	if live == nil {
		return nil, ErrNoModel
	}
	if !m.Contract().Equal(s.contract.Load()) {
		return nil, ErrContract
	}
	r := &Result{Live: live, Reduced: arrowio.Reduced{Message: m, Dim: live.Model.Dim()}}
	batches := m.Batches()
	if r.Reduced.Y = r.one[:]; len(batches) != 1 {
		r.Reduced.Y = make([][]float32, len(batches))
	}
	for i, b := range batches {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("projecting batch %d of %d: %w", i, len(batches), err)
		}
		y, far, err := s.project(ctx, live, b)
		if err != nil {
			return nil, fmt.Errorf("projecting batch %d with model %s: %w", i, live.Version, err)
		}
		r.Reduced.Y[i] = y
		faults := far
		if s.config.Nulls != NullsImpute {
			faults = slices.Concat(b.Faults(), far)
			slices.SortFunc(faults, func(a, b arrowio.Fault) int { return a.Row - b.Row })
		}
		s.leaveOut(r, i, faults)
	}
	return r, nil
}

// leaveOut takes faulty rows of a batch out of the output. What cannot even be imputed is rejected.
func (s *Stage) leaveOut(r *Result, batch int, faults []arrowio.Fault) {
	for _, f := range faults {
		if s.config.Nulls != NullsSkip {
			r.Reject(batch, f.Row, f)
			continue
		}
		r.Reduced.Drop = insert(r.Reduced.Drop, len(r.Reduced.Y), batch, f.Row)
		r.Skipped++
	}
}

// insert adds a row to the sorted rows of one batch.
func insert(rows [][]int, batches, batch, row int) [][]int {
	if rows == nil {
		rows = make([][]int, batches)
	}
	at := len(rows[batch])
	for at > 0 && rows[batch][at-1] > row {
		at--
	}
	rows[batch] = append(rows[batch], 0)
	copy(rows[batch][at+1:], rows[batch][at:])
	rows[batch][at] = row
	return rows
}

// Encode writes a result as one wire message that names its model, with further pairs in its schema's metadata.
func (s *Stage) Encode(r *Result, more ...wire.Pair) ([]byte, error) {
	return s.encoder.Encode(r.Reduced, append(s.naming(r.Live), more...))
}

// Record is Encode as a record, for a message that FromRecord made: the kept columns, the output, and what names the
// model in the schema's metadata. Its memory is its own; the caller releases it, and may release the record that it
// came from.
func (s *Stage) Record(r *Result, more ...wire.Pair) (arrow.Record, error) {
	return s.encoder.Record(r.Reduced, append(r.Live.Metadata(), more...))
}

// Split is Encode for a transport with a limit: it writes as many messages, split by rows, as are needed to keep each
// within limit bytes. Where to split depends on the input and the configuration alone (Invariant 2). pairs gives the
// further metadata of one part.
func (s *Stage) Split(r *Result, limit int, pairs func(part, parts int) []wire.Pair) ([][]byte, error) {
	return s.encoder.Split(r.Reduced, limit, func(part, parts int) []wire.Pair {
		return append(s.naming(r.Live), pairs(part, parts)...)
	})
}

// EncodeRejected writes the rejected rows of a result as one wire message of the input's own schema.
func (s *Stage) EncodeRejected(r *Result, pairs ...wire.Pair) ([]byte, error) {
	return s.encoder.Rejected(r.Reduced.Message, r.Rejected, pairs)
}

// Learn copies the labelled rows of a message for the worker, which scores the models on them and then learns from
// them, and returns: it never waits for a fit. With a fixed model it does nothing. After Close it is ErrClosed.
func (s *Stage) Learn(m *arrowio.Message, at Position) error {
	if s.learner == nil {
		return nil
	}
	return s.learner.learn(m, at)
}

// Refit fits candidates now from the rows in the window, new or not: a first model where there is none. It returns at
// once; a candidate is judged on rows that come after it, and goes live as any other. While a fit is running the one
// asked for follows it, one for all that ask. The error is ErrFixed, ErrClosed, or ErrFewRows with the figures; then
// nothing was asked.
func (s *Stage) Refit() error {
	if s.learner == nil {
		return ErrFixed
	}
	return s.learner.refit()
}

// Wait blocks until every row was learned from and no fit is running or due, or ctx is done. A stage that is closed
// meanwhile, or was before, is ErrClosed; with a fixed model there is nothing to wait for.
func (s *Stage) Wait(ctx context.Context) error {
	if s.learner == nil {
		return nil
	}
	return s.learner.wait(ctx)
}

// Backlog is how many labelled rows wait to be learned from. A host that can read them later waits while there are
// many; what the queue has no memory for is not learned, counted in Status.Dropped.
func (s *Stage) Backlog() int {
	if s.learner == nil {
		return 0
	}
	return s.learner.backlog()
}

// Close ends the worker, cancelling a fit that is running, and waits for it. It may be called more than once.
// Learning ends with it; the live model goes on answering.
func (s *Stage) Close() {
	if s.learner != nil {
		s.learner.close()
	}
}

// Status is how far learning is.
type Status struct {
	Live    *Live
	Rows    int   // labelled rows in the window
	Classes int   // that they are of
	Largest int   // rows of the largest class
	Bytes   int64 // that the window takes
	Needed  int   // labelled rows that make a first model due
	// Seen is the rows that came to be learned from, Unlabelled those of them without a label, Faulty those with a
	// missing feature that are not learned from.
	Seen, Unlabelled, Faulty int
	// what keeps a first model away where it is not the number of rows, or narrows learning, and what to do
	Hint     string
	Backlog  int    // labelled rows that wait to be learned from
	Dropped  int    // labelled rows that were not learned: they came too fast
	Overfull int    // labelled rows that were not learned: their class was one too many
	Sparse   int    // rows in the window whose class has too few of them to enter a fit
	Capped   int    // rows that left the window since their source had its share; see Quota
	Far      int    // rows so far that enter no fit: a feature is too far from where the others have it
	FarRow   string // a sentence about the newest of them
	ReadFrom uint64 // sequence number of the oldest message that the window, or a row that waits for its label, needs
	// of the labelled rows that the live model was judged on; zero: none since the start
	Newest  time.Time
	Clock   string // a sentence where messages are stamped ahead of this machine's clock, or time went back
	Fitting bool   // the worker has something to do
	Filling bool   // the window is filled again after a restart
	Pinned  bool   // the live model was chosen, and nothing replaces it

	// Accuracy is the share of the last 500 to 1,000 labelled rows whose class the live model's outputs told before it
	// was learned, by the nearest of the newest held-out rows; Chance is what it would be if labels meant nothing.
	// Without labels it is the share of variance that the outputs keep. NaN before there is any.
	Accuracy, Chance float64
	// Candidate is the accuracy of the candidate for which most speaks, Evidence how much; see Gate.
	Candidate     float64
	CandidateRows int
	Evidence      float64

	Alarms  int           // changes of the rows that cut the window
	Fits    int           // models that were fitted, candidates included
	LastFit time.Duration // how long the last promotion took, from the fit to the pointer
	Note    string        // what came of the last candidate that passed or failed, a sentence

	trainable bool
	nothing   bool // is learned, whatever comes
}

// Status tells how far learning is.
func (s *Stage) Status() Status {
	if s.learner == nil {
		return Status{Live: s.Live()}
	}
	return s.learner.now()
}

// Outcome is what came of candidates: one went live, or all were looked at and the live model was kept, or none could
// be fitted. [Config.Observe] gets it.
type Outcome struct {
	Live         *Live // the live model after it
	Promoted     bool
	Candidate    float64 // accuracy on the rows that it was judged on, NaN where none judged
	Previous     float64 // of the model that was live on the same rows, NaN where none was
	Displacement float64 // of the outputs by the change, relative to their spread, after alignment
	Rows         int     // that it was fitted on
	Duration     time.Duration
	Reason       string
	Err          error // why there is no candidate
}

// Release is a model that is about to go live, and what speaks for it; [Config.Store] keeps it.
type Release struct {
	Model       *model.Model // its note says what is below, but for the figures
	Epoch       int
	Bootstrap   bool
	Parent      string // version of the model that it replaces, "" for the first
	First, Last uint64 // sequence numbers of the oldest and the newest message that it was fitted on
	Rows        int    // it was fitted on
	Score       float64
	LiveScore   float64 // of the model that it replaces on the same rows; NaN where nothing judged, as Score is
	Why         string  // a sentence
	NewEpoch    bool    // it is the first of its epoch: keep it as long as models of the epoch, for Live.Origin
	State       []byte  // the learner's checkpoint as of this model; opaque, small, part of what a restart needs
}

func discardLogger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// toRows sees the features of a batch as the rows of a model: the same memory under the other package's name.
func toRows(b *arrowio.Batch) model.Rows {
	blocks := b.Features()
	rows := model.Rows{N: b.Rows(), Blocks: make([]model.Block, len(blocks))}
	for i, v := range blocks {
		rows.Blocks[i] = model.Block(v)
	}
	return rows
}
