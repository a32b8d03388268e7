// Package stage implements a stage: it decodes messages, transforms their rows with the live model, learns from
// labelled rows, and encodes the outputs. Package plugin offers it to hosts. The engine in package stream uses it
// directly, since it also needs what a host does not: standby, adopted models, labels of other streams and summaries of
// blocks.
package stage

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/spec"
)

// Stage is a stage. All methods are safe for concurrent use, except that Learn and LearnLabels must each be called in
// the order of their streams. The methods that decode, transform and encode take no lock that learning holds.
type Stage struct {
	transformer
	decoder     *arrowio.Decoder
	labels      *arrowio.Decoder // of messages of labels
	learner     *learner         // nil with a fixed model
	contractSet chan struct{}    // closed when the contract is known
	ready       chan struct{}    // closed when a first model is live
	readyOnce   sync.Once
}

// New returns a stage. It starts the learning worker, which Close ends.
func New(config spec.Config) (*Stage, error) {
	c, err := withDefaults(config)
	if err != nil {
		return nil, err
	}
	contract := c.Contract
	if contract == nil {
		contract, _ = c.Spec.Contract()
	}
	if c.Fixed != nil {
		n := c.Fixed.Note()
		if c.Spec.Encodings, err = arrowio.EncodingsOf(c.Fixed.Features(), n.Categories, n.Dates); err != nil {
			return nil, fmt.Errorf("the fixed model: %w", err)
		}
		if contract, err = c.Spec.ContractOf(c.Fixed.Features()); err != nil {
			return nil, fmt.Errorf("the fixed model and the features of messages differ: %w", err)
		}
		c.Spec = c.Spec.Fixed(contract)
	} else if len(c.Spec.Encodings) > 0 {
		return nil, fmt.Errorf("column %q has an encoding, and a stage that learns takes numbers only: send numbers, or set "+
			"Fixed to a model of such columns", c.Spec.Encodings[0].Column)
	}
	decoder, err := arrowio.NewDecoder(c.Spec)
	if err != nil {
		return nil, err
	}
	encoder, err := arrowio.NewEncoder(c.Output)
	if err != nil {
		return nil, err
	}
	labels, err := arrowio.NewDecoder(arrowio.Spec{Label: c.Spec.Label, Key: c.Spec.Key, Format: c.Spec.Format,
		Limits: c.Spec.Limits})
	if err != nil {
		return nil, err
	}
	s := &Stage{transformer: transformer{config: &c, encoder: encoder}, decoder: decoder, labels: labels,
		contractSet: make(chan struct{}), ready: make(chan struct{})}
	if contract != nil {
		s.setContract(contract)
	}
	if c.Fixed != nil {
		s.promote(liveOf(c.Fixed))
		return s, nil
	}
	if c.Resume != nil {
		if err := s.setFeatures(c.Resume.Model.Features()); err != nil {
			return nil, fmt.Errorf("resuming with model %s: %w", c.Resume.Version, err)
		}
		s.promote(c.Resume)
	}
	s.learner = newLearner(s)
	s.learner.start()
	return s, nil
}

// liveOf describes a model from a file. Its note has version and epoch if it comes from a store.
func liveOf(m *model.Model) *spec.Live {
	n := m.Note()
	l := &spec.Live{Model: m, Version: n.Version, Epoch: int(n.Epoch)}
	l.Version = cmp.Or(l.Version, m.Digest()[:16])
	l.Epoch = cmp.Or(l.Epoch, 1)
	return l
}

// promote makes a model live. Transforms that have begun end with the model that they began with
// (Invariants 3 and 4).
func (s *Stage) promote(l *spec.Live) {
	s.live.Store(l)
	s.readyOnce.Do(func() { close(s.ready) })
}

// Adopt makes a model live that was chosen outside of the stage. If pinned, no fit replaces it until the next Adopt;
// otherwise learning continues from it. The model must have the features of the stage, and as many outputs as the live
// model. The error is ErrFixed or ErrClosed, or says what differs.
func (s *Stage) Adopt(l *spec.Live, pinned bool) error {
	if s.learner == nil {
		return spec.ErrFixed
	}
	return s.learner.adopt(l, pinned)
}

// Ready is closed when a first model is live.
func (s *Stage) Ready() <-chan struct{} { return s.ready }

// Learns is false for a stage with a fixed model.
func (s *Stage) Learns() bool { return s.learner != nil }

// Decode reads a message. The result is a view on msg, which must not change while the result is in use. The error is
// an [*arrowio.Error]. Decode changes nothing: its result depends on the message, the configuration and the contract
// alone.
func (s *Stage) Decode(msg []byte) (*arrowio.Message, error) {
	return s.decoder.Decode(msg, s.contract.Load())
}

// Open sets the message of an envelope, which is for Expanded, and then for Decode with the contract of the stage.
func (s *Stage) Open(e *arrowio.Envelope, msg []byte) { e.Open(s.decoder, msg) }

// Expanded returns the bytes that an opened message takes while it is decoded and transformed, before anything is
// unpacked; see [arrowio.Envelope.Expanded].
func (s *Stage) Expanded(e *arrowio.Envelope) int {
	dim := s.config.Fit.Dim
	if live := s.Live(); live != nil {
		dim = live.Model.Dim()
	}
	return e.Expanded(dim)
}

// FromRecord is Decode for an Arrow record. The message and its results are views on the record's memory: the host
// keeps the record (Retain, Release) and does not write to it while they are in use. Goroutines may share a record.
func (s *Stage) FromRecord(rec arrow.Record) (*arrowio.Message, error) {
	return s.decoder.FromRecord(rec, s.contract.Load())
}

// Learn copies the labelled rows of a message into the queue of the learning worker and returns; it never waits for a
// fit. While the contract is not known, it counts the message and keeps it; with training.block it only counts it, and
// does nothing once the contract is known. With a fixed model it does nothing. For a message that was decoded before
// the contract was known it may return ErrContract, after Close ErrClosed.
func (s *Stage) Learn(m *arrowio.Message, at spec.Position) error {
	if s.learner == nil {
		return nil
	}
	return s.learner.learn(m, at)
}

// Refit makes all candidates due now, or a first model if there is none. It returns at once; a candidate goes live as
// any other. Requests that come while a fit is running are served by one fit after it. The error is ErrFixed, ErrClosed
// or ErrFewRows.
func (s *Stage) Refit() error {
	if s.learner == nil {
		return spec.ErrFixed
	}
	return s.learner.refit()
}

// Standby stops fitting while another process of the same stream fits, or starts it again. A stage on standby learns
// every row, so that its window is full when it takes over, and Adopt makes models live at once. With a fixed model it
// does nothing.
func (s *Stage) Standby(on bool) {
	if s.learner != nil {
		s.learner.setStandby(on)
	}
}

// TakeOver ends standby where another process has fitted: the stage continues from that process's live model and newest
// checkpoint, or from nothing if there is no model, and forgets what it has learned itself. The caller then learns the
// stream again from [ReadFrom] on, and so the stage decides as the other process would have. It returns false, and does
// nothing, if the stage is not on standby, counts features, or has labels of another stream: then Standby(false)
// continues with the stage's own window.
func (s *Stage) TakeOver(l *spec.Live) bool {
	return s.learner != nil && takeOver(s.learner, l)
}

// Wait blocks until all rows were learned from and no fit is running or due, or ctx is done. If the stage is closed, it
// returns ErrClosed; with a fixed model nil.
func (s *Stage) Wait(ctx context.Context) error {
	if s.learner == nil {
		return nil
	}
	return s.learner.wait(ctx)
}

// Backlog is the number of labelled rows and corrections of labels in the queue. A caller that can read them again
// later should wait while there are many: rows that exceed the queue's memory are dropped, and counted in
// Status.Dropped.
func (s *Stage) Backlog() int {
	if s.learner == nil {
		return 0
	}
	return s.learner.backlog()
}

// Close cancels the learning worker and waits for it. The live model still transforms messages. Close may be called
// more than once.
func (s *Stage) Close() {
	if s.learner != nil {
		s.learner.close()
	}
}

// Status describes the progress of learning.
func (s *Stage) Status() spec.Status {
	if s.learner == nil {
		unknown := math.NaN()
		return spec.Status{Live: s.Live(), Accuracy: unknown, Chance: unknown, Candidate: unknown, HeldOut: unknown}
	}
	return s.learner.currentStatus()
}

// ReadFrom returns the first message that a restart must learn again to have the window of a checkpoint back: the
// creation time of its stream in nanoseconds, and its sequence number; 0 is the first message.
func ReadFrom(checkpoint []byte) (created int64, seq uint64) { return trainer.ReadFrom(checkpoint) }
