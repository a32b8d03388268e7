package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin/spec"
)

// transformer transforms decoded messages with the live model and encodes the results.
type transformer struct {
	config   *spec.Config
	encoder  *arrowio.Encoder
	contract atomic.Pointer[arrowio.Contract] // nil while it is not known
	live     atomic.Pointer[spec.Live]
	metadata atomic.Pointer[liveMetadata]
	outputs  sync.Pool // of *[]float32: the memory of released results
	merged   sync.Pool // of *[]wire.Pair: the memory of the metadata of a part
}

// liveMetadata caches the metadata of a model.
type liveMetadata struct {
	live  *spec.Live
	pairs []wire.Pair
}

// Live is the live model, nil before the first.
func (s *transformer) Live() *spec.Live { return s.live.Load() }

// Transform projects a message with the live model. Rows with a missing feature, or with an output that exceeds
// float32, are handled by Config.Nulls. The result shares memory with the message. Before a first model it returns
// ErrNoModel. It checks ctx between batches, since some models take seconds for a large batch, and returns its error.
func (s *transformer) Transform(ctx context.Context, m *arrowio.Message) (*spec.Result, error) {
	return s.TransformWith(ctx, m, s.Live())
}

// TransformWith is Transform with a model that is or was live.
func (s *transformer) TransformWith(ctx context.Context, m *arrowio.Message, live *spec.Live) (*spec.Result, error) {
	if live == nil {
		return nil, spec.ErrNoModel
	}
	if !m.Contract().Equal(s.contract.Load()) {
		return nil, spec.ErrContract
	}
	// One allocation serves the result, the features and the outputs of a message with one batch, which is the usual case.
	alloc := &struct {
		spec.Result
		y      [1][]float32
		blocks [1]model.Block
	}{Result: spec.Result{Live: live, Reduced: arrowio.Reduced{Message: m, Dim: live.Model.Dim()}}}
	r, batches := &alloc.Result, m.Batches()
	if r.Reduced.Y = alloc.y[:]; len(batches) != 1 {
		r.Reduced.Y = make([][]float32, len(batches))
	}
	for i, b := range batches {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("projecting batch %d of %d: %w", i, len(batches), err)
		}
		y, far, err := s.project(ctx, live, b, alloc.blocks[:0])
		if err != nil {
			return nil, fmt.Errorf("projecting batch %d with model %s: %w", i, live.Version, err)
		}
		r.Reduced.Y[i] = y
		faults := slices.Concat(excluded(s.config, b), far)
		slices.SortStableFunc(faults, func(a, b arrowio.Fault) int { return a.Row - b.Row })
		faults = slices.CompactFunc(faults, func(a, b arrowio.Fault) bool { return a.Row == b.Row })
		for _, f := range faults {
			if s.config.Nulls == spec.NullsSkip && f.Code == "" {
				r.Skip(i, f.Row)
			} else { // under NullsImpute, what even the mean cannot replace
				r.Reject(i, f.Row, f)
			}
		}
	}
	return r, nil
}

// Release returns the memory of a result's outputs for reuse. The result must not be used after it. Calling it is
// optional.
func (s *transformer) Release(r *spec.Result) {
	for i := range r.Reduced.Y {
		if y := r.Reduced.Y[i]; y != nil {
			s.outputs.Put(&y)
		}
		r.Reduced.Y[i] = nil
	}
}

// memory returns uninitialised memory for n numbers.
func (s *transformer) memory(n int) []float32 {
	if y, ok := s.outputs.Get().(*[]float32); ok && cap(*y) >= n {
		return (*y)[:n]
	}
	return make([]float32, n)
}

// Reuse returns the memory of messages that Encode or Split wrote, for reuse. They must not be used after it. Calling
// it is optional.
func (s *transformer) Reuse(msgs ...[]byte) { s.encoder.Reuse(msgs...) }

// pairs is the metadata of a model. Callers may append to it.
func (s *transformer) pairs(l *spec.Live) []wire.Pair {
	n := s.metadata.Load()
	if n == nil || n.live != l {
		n = &liveMetadata{l, slices.Clip(l.Metadata())}
		s.metadata.Store(n)
	}
	return n.pairs
}

// Encode writes a result as one wire message. Its schema's metadata names the model, with further pairs after it.
func (s *transformer) Encode(r *spec.Result, more ...wire.Pair) ([]byte, error) {
	return s.encoder.Encode(r.Reduced, append(s.pairs(r.Live), more...))
}

// Record is Encode to an Arrow record, for a message that FromRecord made. The record has its own memory; the caller
// releases it.
func (s *transformer) Record(r *spec.Result, more ...wire.Pair) (arrow.Record, error) {
	return s.encoder.Record(r.Reduced, append(r.Live.Metadata(), more...))
}

// Split is Encode with a size limit: it splits the rows over as many messages as are needed to keep each within limit
// bytes. Where it splits depends on the input and the configuration alone (Invariant 2). pairs returns the further
// metadata of a part.
func (s *transformer) Split(r *spec.Result, limit int, pairs func(part, parts int) []wire.Pair) ([][]byte, error) {
	merged, _ := s.merged.Get().(*[]wire.Pair)
	if merged == nil {
		merged = new([]wire.Pair)
	}
	defer s.merged.Put(merged)
	return s.encoder.Split(r.Reduced, limit, func(part, parts int) []wire.Pair {
		*merged = append(append((*merged)[:0], s.pairs(r.Live)...), pairs(part, parts)...)
		return *merged
	})
}

// EncodeRejected writes the rejected rows of a result as one wire message with the input's schema.
func (s *transformer) EncodeRejected(r *spec.Result, pairs ...wire.Pair) ([]byte, error) {
	return s.encoder.Rejected(r.Reduced.Message, r.Rejected, pairs)
}

// projectedRows is how many rows are projected per call if a batch cannot be projected at once.
const projectedRows = 64

// project returns the outputs of a batch. far are the rows whose output exceeds float32, unless they have a missing
// feature, which is a fault already; the other rows have their outputs. Under NullsImpute, features that exceed float32
// are imputed first. blocks is memory for the features.
func (s *transformer) project(ctx context.Context, live *spec.Live, b *arrowio.Batch,
	blocks []model.Block) (y []float32, far []arrowio.Fault, err error) {
	rows, d := rowsOf(b, blocks), live.Model.Dim()
	y = s.memory(rows.N * d)
	suspects, err := live.Model.ProjectSuspects(y, rows)
	if err == nil {
		b.FaultsIn(suspects) // so that Faults need not check every feature of every row
		return y, nil, nil
	}
	var row *model.RowError
	if !errors.As(err, &row) {
		return y, nil, err
	}
	faults := b.Faults()
	for from := 0; from < rows.N; from += projectedRows {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		to := min(from+projectedRows, rows.N)
		if live.Model.Project(y[from*d:to*d], slice(rows, from, to)) == nil {
			continue
		}
		for i := from; i < to; i++ {
			for len(faults) > 0 && faults[0].Row < i {
				faults = faults[1:]
			}
			out := y[i*d : (i+1)*d]
			err := live.Model.Project(out, slice(rows, i, i+1))
			if err == nil {
				continue
			}
			clear(out)
			if faulty := len(faults) > 0 && faults[0].Row == i; faulty && s.config.Nulls != spec.NullsImpute {
				continue
			}
			x := make([]float64, rows.M())
			copyRow(x, b.Features(), i)
			if s.config.Nulls == spec.NullsImpute {
				err = live.Model.Project(out, model.DenseRows(x, 1, len(x)))
			}
			if err == nil {
				continue
			}
			clear(out)
			if !errors.As(err, &row) {
				return nil, nil, err
			}
			feature := furthestFeature(live.Model, x)
			far = append(far, arrowio.Fault{Row: i, Feature: live.Model.Features()[feature],
				What: fmt.Sprintf("%g, too far from the rows of the fit: the output exceeds float32", x[feature])})
		}
	}
	return y, far, nil
}

// rowsOf returns the features of a batch as the rows of a model, in the same memory. blocks is memory for them.
func rowsOf(b *arrowio.Batch, blocks []model.Block) model.Rows {
	blocks = slices.Grow(blocks[:0], len(b.Features()))
	for _, v := range b.Features() {
		blocks = append(blocks, model.Block(v))
	}
	return model.Rows{N: b.Rows(), Blocks: blocks}
}

// slice returns rows from to to, exclusive.
func slice(rows model.Rows, from, to int) model.Rows {
	out := model.Rows{N: to - from, Blocks: make([]model.Block, len(rows.Blocks))}
	for k, b := range rows.Blocks {
		switch first := from * b.RowStride; {
		case b.F64 != nil:
			b.F64 = b.F64[first:]
		case b.Raw != nil:
			b.Raw = b.Raw[first*b.Format.Size():]
		default:
			b.F32 = b.F32[first:]
		}
		out.Blocks[k] = b
	}
	return out
}

// furthestFeature is the feature of a row that is furthest from the mean of the fit, in its scale.
func furthestFeature(m *model.Model, x []float64) (feature int) {
	scaled := make([]float64, len(x))
	if m.ScaledTo(scaled, model.DenseRows(x, 1, len(x))) != nil {
		return 0
	}
	for j, v := range scaled {
		if math.Abs(v) > math.Abs(scaled[feature]) {
			feature = j
		}
	}
	return feature
}

// Codec reads and writes messages of a stage in formats that may differ from the configured ones.
type Codec struct {
	stage   *Stage
	decoder *arrowio.Decoder
	encoder *arrowio.Encoder
}

// NewCodec returns a codec of a stage. With other formats it has separate caches, so that its messages do not evict the
// schemas of the configured formats.
func NewCodec(s *Stage, input, output wire.Format) (c *Codec, err error) {
	c = &Codec{s, s.decoder, s.encoder}
	in, out := s.config.Spec, s.config.Output
	isOwn := input == cmp.Or(in.Format, wire.FormatArrow)
	if !isOwn {
		in.Format = input
		if c.decoder, err = arrowio.NewDecoder(in); err != nil {
			return nil, err
		}
	}
	if !isOwn || output != cmp.Or(out.Format, wire.FormatArrow) {
		if out.Format = output; output.IsText() {
			out.Compression = ""
		}
		if c.encoder, err = arrowio.NewEncoder(out); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Decode is [Stage.Decode].
func (c *Codec) Decode(msg []byte) (*arrowio.Message, error) {
	return c.decoder.Decode(msg, c.stage.Contract())
}

// Encode is [Stage.Encode].
func (c *Codec) Encode(r *spec.Result, more ...wire.Pair) ([]byte, error) {
	return c.encoder.Encode(r.Reduced, append(c.stage.pairs(r.Live), more...))
}
