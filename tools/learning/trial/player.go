// Package trial runs a stage of package plugin on a stream of package streams in virtual time, with simple alternatives
// next to it: its method, fitted again and again on all rows or on the newest.
package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/cores"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/tools/learning/streams"
)

// Player passes messages to a stage as a host does: each is answered, then learned, and the next one waits for that, so
// that what the stage does is a function of the messages. The stream has a thousand rows a second, by its own clock.
type Player struct {
	Stage    *plugin.Stage
	Released []Released    // that went live since the last message
	SameAs   map[int]int   // epochs that are recorded as one with earlier ones, and the first of these
	Widths   []int         // numbers of outputs, in the order in which they appeared
	Failed   []error       // fits that failed
	Used     time.Duration // processor time of this process while messages were answered and learned

	late     bool
	clock    atomic.Int64
	row      int // rows played
	seq      uint64
	labels   uint64 // messages of labels
	config   plugin.Config
	resume   *plugin.Live
	contract *arrowio.Contract
	played   []*model.Data // all messages, for restarts; nil without
}

// Released is a model that went live.
type Released struct {
	*plugin.Release
	Against *model.Model // the first model of the previous epoch, with which it was compared; nil: none
}

// NewPlayer opens a stage with the defaults and a method. configure, if not nil, changes its configuration. Close it.
func NewPlayer(s streams.Stream, c fit.Config, configure func(*plugin.Config)) (*Player, error) {
	p := &Player{late: s.HasLateLabels(), SameAs: map[int]int{}}
	p.config = plugin.Config{
		Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:  c,
		Store: func(_ context.Context, r *plugin.Release) (string, error) {
			released := Released{Release: r}
			if p.resume != nil && !p.resume.IsProvisional() {
				released.Against = p.resume.First()
			}
			p.Released = append(p.Released, released)
			p.resume = r.Live(r.Model.Digest()[:16], p.resume)
			if r.SameAs > 0 {
				p.SameAs[r.Epoch] = r.SameAs
			}
			return p.resume.Version, nil
		},
		SettleEpoch: func(_ context.Context, l *plugin.Live) error {
			live := *l
			live.State, p.resume = p.resume.State, &live
			if l.SameAs > 0 {
				p.SameAs[l.Epoch] = l.SameAs
			}
			return nil
		},
		Checkpoint: func(_ context.Context, state []byte) error {
			live := *p.resume
			live.State = state
			p.resume = &live
			return nil
		},
		StoreContract: func(_ context.Context, c *arrowio.Contract) (*arrowio.Contract, error) {
			p.contract = c
			return c, nil
		},
		Observe: func(o plugin.Outcome) {
			if o.Err != nil {
				p.Failed = append(p.Failed, o.Err)
			}
		},
		Clock: func() time.Time { return time.Unix(0, p.clock.Load()) },
	}
	if p.late {
		p.config.Spec.Key = "id"
		p.config.Labels = &plugin.Labels{}
	}
	if configure != nil {
		configure(&p.config)
	}
	var err error
	p.Stage, err = plugin.New(p.config)
	return p, err
}

// Close closes the stage.
func (p *Player) Close() { p.Stage.Close() }

// Play answers and learns a message.
func (p *Player) Play(ctx context.Context, d *model.Data) error {
	begin := cores.ProcessorTime()
	defer func() { p.Used += cores.ProcessorTime() - begin }()
	p.Released = p.Released[:0]
	p.played = append(p.played, d)
	first := p.row
	p.row += d.N
	p.seq++
	rec := p.record(d, first)
	defer rec.Release()
	msg, err := p.Stage.FromRecord(rec)
	if err != nil {
		return err
	}
	if p.Stage.Live() != nil {
		answer, err := p.Stage.Transform(ctx, msg)
		if err != nil {
			return err
		}
		if width := answer.Reduced.Dim; !slices.Contains(p.Widths, width) {
			p.Widths = append(p.Widths, width)
		}
	}
	return p.learn(ctx, func(at plugin.Position) error { return p.Stage.Learn(msg, at) }, p.seq, first)
}

// PlayLabels learns the labels of rows, by their numbers in the stream, in one message.
func (p *Player) PlayLabels(ctx context.Context, rows []int, labels []string) error {
	begin := cores.ProcessorTime()
	defer func() { p.Used += cores.ProcessorTime() - begin }()
	p.Released = p.Released[:0]
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.BinaryTypes.String}, {Name: "label", Type: arrow.BinaryTypes.String}}, nil))
	defer b.Release()
	for i, row := range rows {
		b.Field(0).(*array.StringBuilder).Append(strconv.Itoa(row))
		b.Field(1).(*array.StringBuilder).Append(labels[i])
	}
	rec := b.NewRecord()
	defer rec.Release()
	var wire bytes.Buffer
	w := ipc.NewWriter(&wire, ipc.WithSchema(rec.Schema()))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		return err
	}
	msg, err := p.Stage.DecodeLabels(wire.Bytes())
	if err != nil {
		return err
	}
	p.labels++
	return p.learn(ctx, func(at plugin.Position) error { return p.Stage.LearnLabels(msg, at) }, p.labels, p.row)
}

func (p *Player) learn(ctx context.Context, learn func(plugin.Position) error, seq uint64, row int) error {
	p.clock.Store(int64(time.Duration(row) * time.Millisecond))
	at := plugin.Position{Created: time.Unix(0, 0), Seq: seq, Time: time.Unix(0, p.clock.Load())}
	if err := learn(at); err != nil {
		return err
	}
	return p.Stage.Wait(ctx)
}

// Restart closes the stage and opens another one from what was stored, as a host does after a crash: it learns the
// stream again from the position of the checkpoint. Released are the models that went live meanwhile: there should be
// none.
func (p *Player) Restart(ctx context.Context) error {
	if p.late {
		return fmt.Errorf("no restarts with late labels")
	}
	p.Released = p.Released[:0]
	p.Stage.Close()
	c := p.config
	c.Resume, c.Contract = p.resume, p.contract
	from := uint64(1)
	if p.resume != nil {
		_, from = plugin.ReadFrom(p.resume.State)
	}
	var err error
	if p.Stage, err = plugin.New(c); err != nil {
		return err
	}
	row := 0
	for i, d := range p.played {
		if seq := uint64(i + 1); seq >= from {
			rec := p.record(d, row)
			msg, err := p.Stage.FromRecord(rec)
			if err != nil {
				return err
			}
			err = p.learn(ctx, func(at plugin.Position) error { return p.Stage.Learn(msg, at) }, seq, row)
			rec.Release()
			if err != nil {
				return err
			}
		}
		row += d.N
	}
	return nil
}

// record returns the rows as an Arrow record.
func (p *Player) record(d *model.Data, first int) arrow.Record {
	fields := []arrow.Field{{Name: "x", Type: arrow.FixedSizeListOf(int32(d.M), arrow.PrimitiveTypes.Float32)}}
	if p.late {
		fields = append(fields, arrow.Field{Name: "id", Type: arrow.BinaryTypes.String})
	} else {
		fields = append(fields, arrow.Field{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	list, text := b.Field(0).(*array.FixedSizeListBuilder), b.Field(1).(*array.StringBuilder)
	values := list.ValueBuilder().(*array.Float32Builder)
	for i, y := range d.Y {
		list.Append(true)
		for _, v := range d.X[i*d.M : (i+1)*d.M] {
			values.Append(float32(v))
		}
		switch {
		case p.late:
			text.Append(strconv.Itoa(first + i))
		case y == streams.NoLabel:
			text.AppendNull()
		default:
			text.Append(d.Classes[y])
		}
	}
	return b.NewRecord()
}

// complete reports whether no feature of a row is missing.
func complete(x []float64) bool {
	return !slices.ContainsFunc(x, math.IsNaN)
}
