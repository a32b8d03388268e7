// Package demo is `embedd demo`: it sends real digits through three pipelines on an embedded server, and compares the
// accuracy of their outputs.
package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/embedded"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/picture"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

// Half of the digits are sent with labels, for training. At the end all digits are sent once more without labels, so
// that one model answers every row that is compared.
const (
	batchRows = 16 // rows of a message
	evidence  = 10 // less than the default, because the stream is short
	pace      = 120 * time.Millisecond
)

// Demo is a server, three pipelines on one input, and the data.
type Demo struct {
	show     func(phase string, done float64)
	log      *slog.Logger
	store    string
	conn     *connection.Conn
	js       jetstream.JetStream
	digits   *digits
	scale    model.Scale
	mu       sync.Mutex
	models   []Model // of the main pipeline
	cleanup  []func()
	sent     int
	sentRows int
}

const (
	subject        = "features.digits"
	mainPipeline   = "digits"      // more dimensions than the picture has
	mapPipeline    = "digits-map"  // two dimensions, for the picture
	linearPipeline = "digits-line" // two dimensions by a linear map, for comparison
)

// Open starts the server and reads the data. show receives the progress of Play. The caller calls Close.
func Open(log *slog.Logger, show func(phase string, done float64)) (*Demo, error) {
	d := &Demo{show: show, log: log, scale: "none"} // pixels have one unit already
	if err := d.open(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Rows is the number of rows that are sent, and how many of them carry a label.
func (d *Demo) Rows() (all, labelled int) { return d.digits.n, len(d.digits.train) }

func (d *Demo) open() (err error) {
	if d.store, err = os.MkdirTemp("", "embedd-demo-"); err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, func() { os.RemoveAll(d.store) })
	if d.digits, err = readDigits(d.store); err != nil {
		return err
	}
	s, err := embedded.Start(filepath.Join(d.store, "nats"), -1)
	if err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, func() { embedded.Stop(s) })
	if d.conn, err = embedded.Dial(context.Background(), s, connection.Options{}); err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, d.conn.Close)
	d.js, err = d.conn.JetStream()
	return err
}

// Close stops the server and removes its store.
func (d *Demo) Close() {
	for _, f := range slices.Backward(d.cleanup) {
		f()
	}
	d.cleanup = nil
}

// pipelines read the same subject and train independently.
func (d *Demo) pipelines() []stream.Pipeline {
	one := func(name string, dim, landmarks, every int) stream.Pipeline {
		return stream.Pipeline{
			Name: name, Stream: "FEATURES", Subject: subject, Output: "reduced." + name, Dead: "dead." + name,
			Stage: plugin.Config{
				Spec: arrowio.Spec{Features: []string{"pixels"}, Label: "label", Key: "id"},
				Fit:  fit.Config{Method: "pairacc", Dim: dim, Landmarks: landmarks, Scale: d.scale, Seed: 1},
				Training: plugin.Training{Gate: plugin.Gate{Evidence: evidence},
					Every: plugin.Every{Rows: every, Period: time.Minute}},
			},
		}
	}
	first := one(mainPipeline, 10, 220, 300)
	first.Stage.Observe = d.observe
	return []stream.Pipeline{first, one(mapPipeline, 2, 300, 600), one(linearPipeline, 2, 0, 600)}
}

func (d *Demo) observe(f plugin.Outcome) {
	if f.Err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m := Model{Promoted: f.Promoted, Method: f.Live.Model.Method()}
	if !math.IsNaN(f.Candidate) {
		m.Score = &f.Candidate
	}
	if f.Promoted {
		m.Version = f.Live.Version
	}
	d.models = append(d.models, m)
}

// Play sends the data through the pipelines and writes the picture.
func (d *Demo) Play(ctx context.Context, path string) (*Report, error) {
	pipelines := d.pipelines()
	if _, err := admin.Setup(ctx, d.js, pipelines, true); err != nil {
		return nil, err
	}
	engine, err := stream.New(stream.Options{Conn: d.conn.Conn, Pipelines: pipelines, Logger: d.log})
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(run) }()
	defer func() {
		stop()
		<-ended
	}()
	failed := func() error { return hasFailed(ctx, ended) }

	if err := d.send(ctx, d.digits.train, true, pace, "learning from labelled rows", failed); err != nil {
		return nil, err
	}
	if err := d.awaitLearned(ctx, engine, failed); err != nil {
		return nil, err
	}
	mark := d.sent
	if err := d.send(ctx, d.digits.all(), false, 0, "reducing all rows", failed); err != nil {
		return nil, err
	}
	reduced, err := d.collect(ctx, mainPipeline, mark, failed)
	if err != nil {
		return nil, err
	}
	flat, err := d.collect(ctx, mapPipeline, mark, failed)
	if err != nil {
		return nil, err
	}
	line, err := d.collect(ctx, linearPipeline, mark, failed)
	if err != nil {
		return nil, err
	}
	return d.report(ctx, engine, reduced, flat, line, path)
}

// send publishes rows in batches, at most one each wait.
func (d *Demo) send(ctx context.Context, rows []int, labelled bool, wait time.Duration, phase string,
	failed func() error) error {
	for from := 0; from < len(rows); from += batchRows {
		part := rows[from:min(from+batchRows, len(rows))]
		body, err := d.digits.message(part, labelled)
		if err != nil {
			return err
		}
		if _, err := d.js.Publish(ctx, subject, body); err != nil {
			return err
		}
		d.sent++
		d.sentRows += len(part)
		d.show(fmt.Sprintf("%s: %d of %d rows", phase, from+len(part), len(rows)), -1)
		if err := cli.Sleep(ctx, wait); err != nil {
			return err
		}
		if err := failed(); err != nil {
			return err
		}
	}
	return nil
}

// awaitLearned waits until all labelled rows were learned and no fit runs.
func (d *Demo) awaitLearned(ctx context.Context, engine *stream.Engine, failed func() error) error {
	for {
		done := true
		for _, s := range engine.Status() {
			done = done && s.Stage.Rows == len(d.digits.train) && !s.Stage.Fitting && s.Stage.Live != nil
		}
		if done {
			return nil
		}
		d.show("fitting", -1)
		if err := cli.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		if err := failed(); err != nil {
			return err
		}
	}
}

// accuracy is the 1-NN accuracy of the held-out rows, with the training rows as references.
func (d *Demo) accuracy(ctx context.Context, dim int, row func(i int) []float64) (float64, error) {
	gather := func(rows []int) (x []float64) {
		for _, i := range rows {
			x = append(x, row(i)...)
		}
		return x
	}
	nearest, err := score.Nearest(ctx, gather(d.digits.train), len(d.digits.train), gather(d.digits.held),
		len(d.digits.held), dim)
	if err != nil {
		return 0, err
	}
	right := 0
	for i, at := range nearest {
		if d.digits.label[d.digits.held[i]] == d.digits.label[d.digits.train[at]] {
			right++
		}
	}
	return float64(right) / float64(len(d.digits.held)), nil
}

func (d *Demo) report(ctx context.Context, engine *stream.Engine, reduced, flat, line *answers,
	path string) (*Report, error) {
	live := engine.Status()[0].Stage.Live
	if len(reduced.y) != d.digits.n || len(flat.y) != d.digits.n || len(line.y) != d.digits.n ||
		live.Version != reduced.model {
		return nil, fmt.Errorf("%d, %d and %d of %d rows were answered, by model %s; the live model is %s",
			len(reduced.y), len(flat.y),
			len(line.y), d.digits.n, reduced.model, live.Version)
	}
	scaled := make([]float64, d.digits.n*64)
	live.Model.ScaledTo(scaled, model.DenseRows(d.digits.x, d.digits.n, 64))
	r := &Report{
		BatchesIn: d.sent, BatchesOut: reduced.messages, RowsIn: d.sentRows, RowsOut: reduced.rows,
		DeadLetters: reduced.dead, Models: d.models, Scale: string(d.scale), DimIn: 64, DimOut: reduced.dim,
	}
	var err error
	for _, a := range []struct {
		to  *float64
		dim int
		row func(i int) []float64
	}{
		{&r.Accuracy.Raw, 64, func(i int) []float64 { return scaled[i*64 : (i+1)*64] }},
		{&r.Accuracy.RawUnscaled, 64, func(i int) []float64 { return d.digits.x[i*64 : (i+1)*64] }},
		{&r.Accuracy.Reduced, reduced.dim, func(i int) []float64 { return widen(reduced.y[i]) }},
		{&r.Accuracy.Picture, flat.dim, func(i int) []float64 { return widen(flat.y[i]) }},
		{&r.Accuracy.Straight, line.dim, func(i int) []float64 { return widen(line.y[i]) }},
	} {
		if *a.to, err = d.accuracy(ctx, a.dim, a.row); err != nil {
			return nil, err
		}
	}
	if r.Picture, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	r.HeldOut = len(d.digits.held)
	return r, d.draw(r, flat)
}

// draw writes the picture of the held-out digits.
func (d *Demo) draw(r *Report, flat *answers) error {
	pic := &picture.Scatter{
		Title: "Ten digits, 64 pixels to 2 dimensions",
		Subtitle: fmt.Sprintf("%d digits that were not learned from; 1-NN accuracy %.1f %%", len(d.digits.held),
			100*r.Accuracy.Picture),
		XLabel: "embedding_0", YLabel: "embedding_1",
	}
	for digit := range 10 {
		pic.Classes = append(pic.Classes, fmt.Sprint(digit))
	}
	for _, i := range d.digits.held {
		pic.X, pic.Y = append(pic.X, float64(flat.y[i][0])), append(pic.Y, float64(flat.y[i][1]))
		pic.Class = append(pic.Class, slices.Index(pic.Classes, d.digits.label[i]))
	}
	drawn, err := pic.Render(r.Picture)
	if err != nil {
		return err
	}
	return files.WriteWhole(r.Picture, func(out io.Writer) error {
		_, err := drawn.WriteTo(out)
		return err
	})
}

func widen(y []float32) []float64 {
	out := make([]float64, len(y))
	for i, v := range y {
		out[i] = float64(v)
	}
	return out
}

// hasFailed returns the error with which the engine ended, nil while it runs. An engine that was stopped has no error.
func hasFailed(ctx context.Context, ended chan error) error {
	select {
	case err := <-ended:
		ended <- err
		if err != nil {
			return fmt.Errorf("the engine stopped: %w", err)
		}
		return ctx.Err()
	default:
		return ctx.Err()
	}
}
