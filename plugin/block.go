package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/window"
)

// ErrSummary is returned by [Stage.LearnSummary] for bytes that are no summary of the block: damaged, of another stream,
// of other settings, or of other features. A host has it made again.
var ErrSummary = errors.New("this is no summary of the block")

// Block is a range of the messages of a stream, which was made at a time; both ends are in it.
type Block struct {
	Created     time.Time
	First, Last uint64
}

// Summing makes the summary of a block from its messages. It is for one goroutine.
type Summing struct {
	stage    *Stage
	block    Block
	features []string
	kept     []stored
	bytes    int64 // of kept
	unread   int
}

// stored is a message as it was stored.
type stored struct {
	at   Position
	data []byte
}

// Settings is a digest of all that summaries follow from beside the rows and the names of the features: replicas that
// share them have the same. It is a word of 16 digits.
func (s *Stage) Settings() string {
	c := &s.config
	text, err := json.Marshal(struct {
		Stream, Subject    string
		Block              int
		Features           []string
		Label              string
		Nulls              Nulls
		Holdout            float64
		Balance            Balance
		Classes            int
		Limits             arrowio.Limits
		Window, SummaryFor int64
	}{c.Source["stream"], c.Source["subject"], c.Training.Block, c.Spec.Features, c.Spec.Label, c.Nulls, c.Training.Holdout,
		c.Training.Window.Balance, c.Classes, c.Spec.Limits, c.Training.Window.Bytes, summaryForm})
	if err != nil {
		panic(fmt.Sprintf("settings cannot be written: %v", err)) // plain data always can
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// summaryForm rises where summaries of the same rows become others, but for rows that made none that can be learned from.
// Those of another form are removed, with blocks that nobody can sum up again.
const summaryForm = 1

// MaxSummary is how many bytes a summary has at most that a stage learns from.
func (s *Stage) MaxSummary() int64 { return s.config.Training.Window.Bytes }

// Summing begins the summary of a block of rows of these features. The error is ErrFixed, or says that there is no memory
// for sums of so many.
func (s *Stage) Summing(b Block, features []string) (*Summing, error) {
	if s.learner == nil {
		return nil, ErrFixed
	}
	if m, most := int64(len(features)), s.config.Training.Window.Bytes; summaryMatrices*8*m*m > most {
		return nil, fmt.Errorf("sums of %d features take more than training.window.bytes, %d; raise it to %d MiB, or leave training.block out",
			m, most, summaryMatrices*8*m*m>>20+1)
	}
	return &Summing{stage: s, block: b, features: features}, nil
}

// summaryMatrices is what a summary takes at most while it is made, as matrices of features x features.
const summaryMatrices = 3

// Add takes the next message of the block, which must not change afterwards.
func (s *Summing) Add(at Position, data []byte) {
	if s.bytes += int64(len(data)); s.bytes > queueBytes(s.stage.config.Training.Window.Bytes) {
		s.unread++
		return
	}
	s.kept = append(s.kept, stored{at, data})
}

// LeaveOut has so many messages counted that are not in the summary.
func (s *Summing) LeaveOut(messages int) { s.unread += messages }

// Bytes makes the summary. It rests while answers wait, as learning does.
func (s *Summing) Bytes(ctx context.Context) ([]byte, error) {
	c := &s.stage.config
	ctx = newPace(model.Limit(ctx, learners(c.Fit.Workers)), s.stage.learner.giveWay)
	var read window.Read
	sum, err := window.Summarise(ctx, c.summed(len(s.features)), s.rows(&read))
	if err != nil {
		return nil, fmt.Errorf("summing messages %d to %d: %w", s.block.First, s.block.Last, err)
	}
	sum.Range, sum.Settings, sum.Features = s.block.window(), s.stage.Settings(), s.features
	sum.Read.Rows += read.Unlabelled + read.Faulty
	sum.Read.Unlabelled, sum.Read.Faulty, sum.Read.Unread = read.Unlabelled, read.Faulty, read.Unread+s.unread
	return sum.Bytes()
}

func (b Block) window() window.Range {
	r := window.Range{First: b.First, Last: b.Last}
	if !b.Created.IsZero() {
		r.Created = b.Created.UnixNano()
	}
	return r
}

// summed is the configuration of a window of summaries, as far as it decides what they are.
func (c *Config) summed(features int) window.Config {
	return window.Config{Features: features, Classes: c.Classes, Holdout: c.Training.Holdout, Labelled: c.Spec.Label != "",
		Balance: c.Training.Window.Balance == BalanceClass}
}

// rows are those of the block that are learned from. They are decoded again each time, so that no more than one message
// is unpacked.
func (s *Summing) rows(read *window.Read) iter.Seq[*window.Row] {
	return func(yield func(*window.Row) bool) {
		*read = window.Read{}
		contract, err := s.contract()
		if err != nil {
			read.Unread += len(s.kept) // names from elsewhere that no column can have
			return
		}
		row := window.Row{X: make([]float64, len(s.features))}
		for _, m := range s.kept {
			message, err := s.stage.decoder.Decode(m.data, contract)
			if err != nil {
				read.Unread++
				continue
			}
			if !s.of(message, m.at, &row, read, yield) {
				return
			}
		}
	}
}

// contract is that of the summary's features.
func (s *Summing) contract() (*arrowio.Contract, error) {
	if c := s.stage.contract.Load(); c.Has(s.features) {
		return c, nil
	}
	return arrowio.NewContract(s.features, s.stage.config.Spec.Label, s.stage.config.Spec.Key)
}

// of yields the rows of a message.
func (s *Summing) of(message *arrowio.Message, at Position, row *window.Row, read *window.Read,
	yield func(*window.Row) bool) bool {
	labelled, i := s.stage.config.Spec.Label != "", -1
	for _, batch := range message.Batches() {
		faults := batch.Faults()
		for k := range batch.Rows() {
			i++
			if faulty := len(faults) > 0 && faults[0].Row == k; faulty {
				faults = faults[1:]
				read.Faulty++
				continue
			}
			label, ok := "", true
			if labelled {
				label, ok = batch.Label(k)
			}
			if !ok {
				read.Unlabelled++
				continue
			}
			row.Position, row.Time, row.Label = at.row(i), at.Time.UnixNano(), label
			gather(row.X, batch.Features(), k)
			if !yield(row) {
				return false
			}
		}
	}
	return true
}

// LearnSummary has the worker learn from the summary of a block, in the place of its rows: one after another, in the order
// of the stream. It returns how many messages of the block are not in it. What cannot be learned from is [ErrSummary];
// where the features are others than those of the stage it says so. With a fixed model it is ErrFixed, after Close ErrClosed.
func (s *Stage) LearnSummary(b Block, features []string, text []byte) (unread int, err error) {
	sum, err := s.readSummary(b, features, text)
	if err == nil {
		err = s.pin(sum)
	}
	if err != nil {
		return 0, err
	}
	return sum.Read.Unread, s.learner.learnSummary(sum)
}

// Placed is the summary of another stream's block, which was sent as one message.
type Placed struct{ sum *window.Summary }

// ReadPlaced reads a summary that is to be learned from by LearnPlaced. Where the stage has no features yet they are those of
// the summary. The errors are those of LearnSummary.
func (s *Stage) ReadPlaced(b Block, text []byte) (*Placed, error) {
	sum, err := s.readSummary(b, s.Features(), text)
	return &Placed{sum}, err
}

// LearnPlaced is LearnSummary for what ReadPlaced has read, once: the position of the message in which it was sent is the
// place of its rows.
func (s *Stage) LearnPlaced(at Position, p *Placed) (unread int, err error) {
	if err := s.pin(p.sum); err != nil {
		return 0, err
	}
	p.sum.Place(at.row(0), at.Time.UnixNano(), s.config.Training.Holdout)
	return p.sum.Read.Unread, s.learner.learnSummary(p.sum)
}

// pin fixes the features to those of a summary.
func (s *Stage) pin(sum *window.Summary) error {
	if err := s.setContract(sum.Features); err != nil {
		return fmt.Errorf("learning from a summary: %w", err)
	}
	return nil
}

// CheckSummary tells whether a stage of the same configuration would learn from the summary of a block.
func (s *Stage) CheckSummary(b Block, features []string, text []byte) error {
	_, err := s.readSummary(b, features, text)
	return err
}

// readSummary reads a summary that is to be of a block and of these features, of any where there are none.
func (s *Stage) readSummary(b Block, features []string, text []byte) (*window.Summary, error) {
	if s.learner == nil {
		return nil, ErrFixed
	}
	sum, err := window.ReadSummary(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrSummary, err)
	case len(features) == 0 && s.config.Spec.Takes(sum.Features):
		features = sum.Features
	}
	if sum.Range != b.window() || sum.Settings != s.Settings() || !slices.Equal(sum.Features, features) ||
		sum.Labelled != (s.config.Spec.Label != "") {
		return nil, fmt.Errorf("%w: it is of messages %d to %d, with other settings, features or of another stream", ErrSummary,
			sum.First, sum.Last)
	}
	return sum, nil
}

// learnSummary puts a summary into the queue.
func (l *learner) learnSummary(s *window.Summary) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	for i := range s.Rows {
		r := &s.Rows[i]
		at := Position{Created: time.Unix(0, r.Created), Seq: r.Seq, Time: time.Unix(0, r.Time)}
		r.Time = l.timeOf(&l.stamps, at, "messages").UnixNano()
	}
	l.intake.rows += s.Read.Rows - s.Read.Faulty
	l.intake.unlabelled += s.Read.Unlabelled
	l.waiting += len(s.Rows)
	l.push(&lesson{summary: s})
	return nil
}

// learnSummary takes a block: it scores the rows that are carried, learns the block, and does what is due then.
func (t *trainer) learnSummary(ctx context.Context, s *window.Summary) {
	t.far += s.Read.Far
	t.overfull += s.Read.Overfull
	if len(s.Rows) == 0 {
		return
	}
	last := &s.Rows[len(s.Rows)-1]
	if t.past(last) {
		t.window.AddSummary(s)
		return
	}
	if t.resume != nil {
		t.restore(ctx)
	}
	t.newest = max(t.newest, last.Time)
	changed := false
	for rows := t.known(s.Rows); len(rows) > 0 && ctx.Err() == nil; {
		part := rows[:min(chunkRows, len(rows))]
		rows = rows[len(part):]
		changed = t.score(ctx, part) || changed
	}
	if ctx.Err() != nil {
		return
	}
	t.takeSummary(s)
	if changed && !t.config.Training.IgnoreDrift {
		t.cut(t.drift.Len())
	}
	t.promoteBest(ctx)
	t.look(ctx)
}

// takeSummary puts a block into the window, and what it carries that is held out among the references.
func (t *trainer) takeSummary(s *window.Summary) {
	classes, at := t.window.Established(), time.Unix(0, s.Rows[len(s.Rows)-1].Time)
	rows := make([]window.Position, len(s.Rows))
	for i := range s.Rows {
		rows[i] = s.Rows[i].Position
	}
	taken := s.Len()
	if t.window.AddSummary(s) != window.Taken {
		return
	}
	for _, p := range rows {
		t.refer(p)
	}
	t.references.follow(t.window)
	if t.window.Unsettled() {
		t.sift()
	}
	fresh := t.window.Established() > classes
	t.policy.learn(taken, fresh, at)
	if t.scouts != nil {
		t.scouts.policy.learn(taken, fresh, at)
	}
}

// checkBlock tells what goes with summaries in the place of rows.
func (c *Config) checkBlock(method fit.Method) error {
	if c.Training.Block == 0 {
		return nil
	}
	not := ""
	switch scale := c.Fit.Scale; {
	case c.Training.Block < 0:
		not = "a block of fewer than one message"
	case c.Labels != nil:
		not = "labels that come apart from their rows"
	case c.Training.Quota.By != QuotaNone:
		not = "a quota of a source"
	case c.Fit.Landmarks > 0:
		not = "landmarks"
	case c.Nulls == NullsImpute:
		not = "missing features that are imputed"
	case c.Until == UntilPCA:
		not = "a PCA that serves until a first model exists"
	case scale != model.ScaleStandard && scale != model.ScaleNone:
		not = fmt.Sprintf("scale %q", scale)
	}
	if not == "" {
		return nil
	}
	return fmt.Errorf("training.block: %s learns from summaries of blocks there, and %s needs every row where it is learned; leave one of both out",
		method.Name, not)
}
