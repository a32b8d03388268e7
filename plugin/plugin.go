// Package plugin is the stage that a host embeds: it turns Arrow messages of wide rows into Arrow messages of narrow
// ones, and learns the projection between them from the labelled rows that pass. [New] makes a [Stage] of a [Config],
// whose Spec names the columns to read. The package uses no NATS, no metrics library and no configuration format.
//
// A [Stage] has two independent paths.
//
//   - [Stage.Transform] is the hot path: it projects the rows of a message with the live model. It takes no lock.
//   - [Stage.Learn] is the learning path: it copies the labelled rows of a message and returns. A worker scores the
//     live model and the candidates on each row before learning it, fits candidates on the newest rows of a bounded
//     window, and makes a candidate live when there is enough evidence that it is better or, from far more rows, no
//     worse ([Gate]), aligned to the live model's outputs.
//
// A message comes from its wire form ([Stage.Decode]) or from an Arrow record ([Stage.FromRecord]), and a result is
// written in either form ([Stage.Encode], [Stage.Record]). Labels may arrive in separate messages ([Config.Labels],
// [Stage.LearnLabels]).
//
// What the worker decides is a function of the rows, their order and the configuration. A host that saves what
// [Config.Store] and [Config.Checkpoint] receive, and learns the stream again from the position that [ReadFrom]
// returns, continues after a restart as if there had been none.
//
// The method is one of package fit's table, by name, or the host's own fit.Criterion, in Config.Fit.Criterion.
//
// The types of configuration, results and status are aliases of those in package plugin/spec. The errors that a host
// handles are [ErrNoModel], [ErrContract], [ErrClosed], [ErrFixed] and [ErrFewRows], and the codes of package wire.
package plugin

import (
	"cmp"
	"context"
	"errors"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin/spec"
)

// Stage decodes, learns, transforms and encodes. All methods are safe for concurrent use, except that Learn and
// LearnLabels must each be called in the order of their streams. The zero value is not usable: New returns stages.
type Stage struct{ stage *stage.Stage }

var errNoMessage = errors.New("there is no message; give one that the stage decoded")

// noResult is encoded in place of nil, which is an error.
var noResult Result

// New returns a stage. It starts one goroutine, the learning worker, which [Stage.Close] ends.
func New(c Config) (*Stage, error) {
	s, err := stage.New(c)
	if err != nil {
		return nil, err
	}
	return &Stage{s}, nil
}

// Decode reads a message. The result is a view on msg, which must not change while the result is in use. The error is
// an [*arrowio.Error].
func (s *Stage) Decode(msg []byte) (*arrowio.Message, error) { return s.stage.Decode(msg) }

// FromRecord is Decode for an Arrow record. The message and its results are views on the record's memory: the host
// keeps the record (Retain, Release) and does not write to it while they are in use. [Stage.Learn] copies what it
// keeps. Goroutines may share a record.
func (s *Stage) FromRecord(rec arrow.Record) (*arrowio.Message, error) {
	return s.stage.FromRecord(rec)
}

// Transform projects a message with the live model. Rows with a missing feature, or with an output that exceeds
// float32, are handled by Config.Nulls. The result shares memory with the message. Before a first model it returns
// ErrNoModel. It checks ctx between batches and returns its error.
func (s *Stage) Transform(ctx context.Context, m *arrowio.Message) (*Result, error) {
	if m == nil {
		return nil, errNoMessage
	}
	return s.stage.Transform(ctx, m)
}

// Encode writes a result as one wire message. Its schema's metadata names the model, with further pairs after it.
func (s *Stage) Encode(r *Result, more ...wire.Pair) ([]byte, error) {
	return s.stage.Encode(cmp.Or(r, &noResult), more...)
}

// Record is Encode to an Arrow record, for a message that FromRecord made. The record has its own memory; the caller
// releases it.
func (s *Stage) Record(r *Result, more ...wire.Pair) (arrow.Record, error) {
	return s.stage.Record(cmp.Or(r, &noResult), more...)
}

// EncodeRejected writes the rejected rows of a result as one wire message with the input's schema.
func (s *Stage) EncodeRejected(r *Result, pairs ...wire.Pair) ([]byte, error) {
	return s.stage.EncodeRejected(cmp.Or(r, &noResult), pairs...)
}

// Learn copies the labelled rows of a message into the queue of the learning worker and returns; it never waits for a
// fit. Rows that exceed the queue's memory are dropped: a host that can read them again waits while Status().Backlog is
// high. With a fixed model Learn does nothing. After Close it returns ErrClosed.
func (s *Stage) Learn(m *arrowio.Message, at Position) error {
	if m == nil {
		return errNoMessage
	}
	return s.stage.Learn(m, at)
}

// DecodeLabels reads a message of labels: one with the key column and the label column of Config.Spec. Other columns
// are ignored. The error is an [*arrowio.Error].
func (s *Stage) DecodeLabels(msg []byte) (*arrowio.Message, error) { return s.stage.DecodeLabels(msg) }

// LearnLabels joins a message of labels with their rows by key; at is its position in the stream of labels, which is
// independent of that of rows. Rows that waited for a label are learned; rows that were learned with another label get
// the new one. Labels without key or text are counted and ignored. It may be called concurrently with Learn.
func (s *Stage) LearnLabels(m *arrowio.Message, at Position) error {
	if m == nil {
		return errNoMessage
	}
	return s.stage.LearnLabels(m, at)
}

// Refit makes all candidates due now, or a first model if there is none. It returns at once; a candidate goes live as
// any other. Requests that come while a fit is running are served by one fit after it. The error is ErrFixed, ErrClosed
// or ErrFewRows.
func (s *Stage) Refit() error { return s.stage.Refit() }

// Wait blocks until all rows were learned from and no fit is running or due, or ctx is done. If the stage is closed, it
// returns ErrClosed; with a fixed model nil.
func (s *Stage) Wait(ctx context.Context) error { return s.stage.Wait(ctx) }

// Contract is the schema of the messages of the stage, nil while it is not known.
func (s *Stage) Contract() *arrowio.Contract { return s.stage.Contract() }

// Live is the live model, nil before the first.
func (s *Stage) Live() *Live { return s.stage.Live() }

// Ready is closed when a first model is live.
func (s *Stage) Ready() <-chan struct{} { return s.stage.Ready() }

// Status describes the progress of learning.
func (s *Stage) Status() Status { return s.stage.Status() }

// LabelStatus describes the join of rows with labels; zero if labels come with their rows.
func (s *Stage) LabelStatus() LabelStatus { return s.stage.LabelStatus() }

// Close cancels the learning worker and waits for it. The live model still transforms messages. Close may be called
// more than once.
func (s *Stage) Close() { s.stage.Close() }

// ReadFrom returns the first message that a restart must learn again to have the window of a checkpoint back: the
// creation time of its stream in nanoseconds, and its sequence number; 0 is the first message.
func ReadFrom(checkpoint []byte) (created int64, seq uint64) { return stage.ReadFrom(checkpoint) }

// The configuration of a stage, what it returns, and its status. Package plugin/spec documents the fields.
type (
	Config        = spec.Config
	Training      = spec.Training
	Window        = spec.Window
	Balance       = spec.Balance
	Every         = spec.Every
	Gate          = spec.Gate
	Quota         = spec.Quota
	QuotaBy       = spec.QuotaBy
	Align         = spec.Align
	Nulls         = spec.Nulls
	Until         = spec.Until
	Labels        = spec.Labels
	Live          = spec.Live
	Position      = spec.Position
	Result        = spec.Result
	Outcome       = spec.Outcome
	Release       = spec.Release
	Status        = spec.Status
	Progress      = spec.Progress
	ClassOutliers = spec.ClassOutliers
	Limits        = spec.Limits
	LabelStatus   = spec.LabelStatus
	Unusual       = spec.Unusual
	UnusualKind   = spec.UnusualKind
)

// The constants of package spec.
const (
	NullsReject  = spec.NullsReject
	NullsImpute  = spec.NullsImpute
	NullsSkip    = spec.NullsSkip
	UntilHold    = spec.UntilHold
	UntilPCA     = spec.UntilPCA
	UntilSkip    = spec.UntilSkip
	BalanceClass = spec.BalanceClass
	BalanceNone  = spec.BalanceNone
	QuotaNone    = spec.QuotaNone
	QuotaSubject = spec.QuotaSubject
	QuotaKey     = spec.QuotaKey
	AlignNone    = spec.AlignNone
	AlignSign    = spec.AlignSign
	AlignBlock   = spec.AlignBlock
	AlignRigid   = spec.AlignRigid
)

// UnusualKinds are all kinds of [Unusual] findings about a stream, in the order in which a status reports them.
var UnusualKinds = spec.UnusualKinds

// The errors that a host handles, for errors.Is.
var (
	ErrNoModel  = spec.ErrNoModel  // no model is live yet
	ErrClosed   = spec.ErrClosed   // the stage is closed
	ErrFixed    = spec.ErrFixed    // the stage has a fixed model
	ErrFewRows  = spec.ErrFewRows  // the window does not hold enough rows for a fit
	ErrContract = spec.ErrContract // the message was decoded before the schema was known; decode it again
)
