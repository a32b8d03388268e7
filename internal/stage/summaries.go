package stage

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
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/spec"
)

// ErrSummary is the error for bytes that are no summary of the block: they are damaged, or of another stream, other
// settings or other features. The summary must be made again.
var ErrSummary = errors.New("this is not a summary of the block")

// Block is a range of messages of a stream, both ends included. Created is the creation time of the stream.
type Block struct {
	Created     time.Time
	First, Last uint64
}

func (b Block) window() window.Range {
	r := window.Range{First: b.First, Last: b.Last}
	if !b.Created.IsZero() {
		r.Created = b.Created.UnixNano()
	}
	return r
}

// Settings is a digest, 16 digits long, of everything that a summary depends on besides the rows and the names of the
// features. Replicas make and accept the same summaries if their settings are equal.
func (s *Stage) Settings() string {
	c := s.config
	text, err := json.Marshal(struct {
		Stream, Subject    string
		Block              int
		Features           []string
		Label              string
		Nulls              spec.Nulls
		Holdout            float64
		Balance            spec.Balance
		Classes            int
		Limits             arrowio.Limits
		Window, SummaryFor int64
	}{c.Source["stream"], c.Source["subject"], c.Training.Block, c.Spec.Features, c.Spec.Label, c.Nulls,
		c.Training.Holdout, c.Training.Window.Balance, c.Classes, c.Spec.Limits, c.Training.Window.Bytes, summaryVersion})
	if err != nil {
		panic(fmt.Sprintf("marshalling the settings: %v", err)) // impossible for plain data
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// summaryVersion must be increased when the same rows get another summary. Stored summaries of other versions are then
// removed, also those of messages that have left the stream.
const summaryVersion = 1

// MaxSummary is the maximum size of a summary in bytes.
func (s *Stage) MaxSummary() int64 { return s.config.Training.Window.Bytes }

// SummaryBuilder makes the summary of a block from its messages. It is not safe for concurrent use.
type SummaryBuilder struct {
	stage    *Stage
	block    Block
	features []string
	messages []rawMessage
	bytes    int64 // of messages
	unread   int
}

// rawMessage is a message as it was stored.
type rawMessage struct {
	at   spec.Position
	data []byte
}

// summaryMatrices is the memory that making a summary takes at most, in matrices of features x features.
const summaryMatrices = 3

// SummaryBuilder begins the summary of a block. The error is ErrFixed, or says that the window's memory does not
// suffice for that number of features.
func (s *Stage) SummaryBuilder(b Block, features []string) (*SummaryBuilder, error) {
	if s.learner == nil {
		return nil, spec.ErrFixed
	}
	if m, most := int64(len(features)), s.config.Training.Window.Bytes; summaryMatrices*8*m*m > most {
		return nil, fmt.Errorf("sums of %d features need more than training.window.bytes, %d; raise it to %d MiB, or "+
			"remove training.block", m, most, summaryMatrices*8*m*m>>20+1)
	}
	return &SummaryBuilder{stage: s, block: b, features: features}, nil
}

// Add adds the next message of the block, which must not change afterwards.
func (s *SummaryBuilder) Add(at spec.Position, data []byte) {
	if s.bytes += int64(len(data)); s.bytes > trainer.QueueBytes(s.stage.config.Training.Window.Bytes) {
		s.unread++
		return
	}
	s.messages = append(s.messages, rawMessage{at, data})
}

// Omit counts messages that are not in the summary.
func (s *SummaryBuilder) Omit(messages int) { s.unread += messages }

// Bytes returns the summary. Like learning, it pauses while transforms are waiting.
func (s *SummaryBuilder) Bytes(ctx context.Context) ([]byte, error) {
	c := s.stage.config
	ctx = newPace(model.Limit(ctx, learningGoroutines(c.Fit.Workers)), s.stage.learner.shouldPause)
	var read window.ReadCounts
	sum, err := window.Summarize(ctx, summaryConfig(c, len(s.features)), s.rows(&read))
	if err != nil {
		return nil, fmt.Errorf("summing messages %d to %d: %w", s.block.First, s.block.Last, err)
	}
	sum.Range, sum.Settings, sum.Features = s.block.window(), s.stage.Settings(), s.features
	sum.Read.Rows += read.Unlabelled + read.Faulty
	sum.Read.Unlabelled, sum.Read.Faulty, sum.Read.Unread = read.Unlabelled, read.Faulty, read.Unread+s.unread
	return sum.Bytes()
}

// summaryConfig is the part of a window's configuration that summaries depend on.
func summaryConfig(c *spec.Config, features int) window.Config {
	return window.Config{Features: features, Classes: c.Classes, Holdout: c.Training.Holdout,
		Labelled: c.Spec.Label != "", Balance: c.Training.Window.Balance == spec.BalanceClass}
}

// rows yields the rows of the block that are learned from. Each call decodes the messages again, so that only one is
// unpacked at a time.
func (s *SummaryBuilder) rows(read *window.ReadCounts) iter.Seq[*window.Row] {
	return func(yield func(*window.Row) bool) {
		*read = window.ReadCounts{}
		contract, err := s.contract()
		if err != nil {
			read.Unread += len(s.messages) // no column can have these names
			return
		}
		row := window.Row{X: make([]float64, len(s.features))}
		for _, m := range s.messages {
			message, err := s.stage.decoder.Decode(m.data, contract)
			if err != nil {
				read.Unread++
				continue
			}
			isWanted := s.messageRows(message, m.at, &row, read, yield)
			message.Release()
			if !isWanted {
				return
			}
		}
	}
}

// contract is the contract with the summary's features.
func (s *SummaryBuilder) contract() (*arrowio.Contract, error) {
	if c := s.stage.Contract(); c.Has(s.features) {
		return c, nil
	}
	return arrowio.NewContract(s.features, s.stage.config.Spec.Label, s.stage.config.Spec.Key)
}

// messageRows yields the rows of a message, all in the memory of row. It reports whether more rows are wanted.
func (s *SummaryBuilder) messageRows(message *arrowio.Message, at spec.Position, row *window.Row,
	read *window.ReadCounts, yield func(*window.Row) bool) bool {
	row.MessageRows, row.Time = message.Rows(), at.Time.UnixNano()
	for _, batch := range message.Batches() {
		read.Faulty += len(excluded(s.stage.config, batch))
	}
	for r := range usable(s.stage.config, message, at, 0) {
		if !r.isKnown {
			read.Unlabelled++
			continue
		}
		row.Position, row.Label = r.at, r.label
		copyRow(row.X, r.Features(), r.row)
		if !yield(row) {
			return false
		}
	}
	return true
}

// LearnSummary queues the summary of a block, instead of its rows, in the order of the stream. It returns how many
// messages of the block are not in the summary. The error is ErrSummary, ErrFixed or ErrClosed, or says that the
// features are not those of the stage.
func (s *Stage) LearnSummary(b Block, features []string, text []byte) (unread int, err error) {
	sum, err := s.readSummary(b, features, text)
	if err == nil {
		err = s.useFeatures(sum)
	}
	if err != nil {
		return 0, err
	}
	return sum.Read.Unread, s.learner.learnSummary(sum)
}

// RemoteSummary is a summary of a block of another stream that arrived as one message.
type RemoteSummary struct{ sum *window.Summary }

// ReadRemoteSummary reads a summary for LearnRemoteSummary. If the stage has no features yet, the summary's are
// accepted. The errors are those of LearnSummary.
func (s *Stage) ReadRemoteSummary(b Block, text []byte) (*RemoteSummary, error) {
	sum, err := s.readSummary(b, s.Features(), text)
	return &RemoteSummary{sum}, err
}

// LearnRemoteSummary is LearnSummary for a summary that ReadRemoteSummary returned; it can be used once. at is the
// position of the message that carried it.
func (s *Stage) LearnRemoteSummary(at spec.Position, r *RemoteSummary) (unread int, err error) {
	if err := s.useFeatures(r.sum); err != nil {
		return 0, err
	}
	r.sum.MoveTo(rowPosition(at, 0), at.Time.UnixNano(), s.config.Training.Holdout)
	return r.sum.Read.Unread, s.learner.learnSummary(r.sum)
}

// useFeatures makes the features of the stage those of a summary.
func (s *Stage) useFeatures(sum *window.Summary) error {
	if err := s.setFeatures(sum.Features); err != nil {
		return fmt.Errorf("learning from a summary: %w", err)
	}
	return nil
}

// CheckSummary returns nil if a stage with the same configuration would learn from the summary of a block.
func (s *Stage) CheckSummary(b Block, features []string, text []byte) error {
	_, err := s.readSummary(b, features, text)
	return err
}

// readSummary reads the summary of a block with the given features, or with any if there are none.
func (s *Stage) readSummary(b Block, features []string, text []byte) (*window.Summary, error) {
	if s.learner == nil {
		return nil, spec.ErrFixed
	}
	sum, err := window.ReadSummary(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrSummary, err)
	case len(features) == 0 && s.config.Spec.Accepts(sum.Features):
		features = sum.Features
	}
	if sum.Range != b.window() || sum.Settings != s.Settings() || !slices.Equal(sum.Features, features) ||
		sum.Labelled != (s.config.Spec.Label != "") || s.config.Nulls != spec.NullsImpute && !sum.IsComplete() {
		return nil, fmt.Errorf("%w: it is of messages %d to %d, with other settings, features or of another stream",
			ErrSummary, sum.First, sum.Last)
	}
	return sum, nil
}
