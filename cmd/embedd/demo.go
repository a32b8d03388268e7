package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

// What the demo sends and asks for. Half of the digits are sent with their labels and learned from; the other half is
// never learned from. At the end all are sent once more without labels, so that one model answers for every row that
// is compared.
const (
	demoBatch    = 16 // rows in a message
	demoEvidence = 10 // the stream is short
	demoPace     = 120 * time.Millisecond
)

func demoCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{Use: "demo", Short: "show it: real digits through an embedded server, a table and a picture"}
	f := flagsOf(cmd)
	picture := f.StringP("output", "o", "embedd-demo.png", "`FILE` of the picture: .png or .svg")
	verbose := f.BoolP("verbose", "v", false, "log what happens")
	out := f.output(e)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if _, err := newCanvas(*picture); err != nil || *picture == "-" {
			return usagef("demo: -o %s: the picture is a file whose name ends in .png or .svg", *picture)
		}
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		level := "error"
		if *verbose {
			level = "info"
		}
		d, err := newDemo(e, out, newLogger(e, "text", level))
		if err != nil {
			return err
		}
		defer d.close()
		report, err := d.play(ctx, *picture)
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		if out.json {
			return out.object(report)
		}
		return d.print(report)
	}
	return cmd
}

// demo is a server, three pipelines on one input, and the data.
type demo struct {
	env      *env
	out      *output
	show     *progress
	log      *slog.Logger
	store    string
	conn     *connection.Conn
	js       jetstream.JetStream
	digits   *digits
	scale    model.Scale
	mu       sync.Mutex
	models   []demoModel // of the main pipeline
	cleanup  []func()
	sent     int
	sentRows int
}

const (
	demoSubject = "features.digits"
	demoMain    = "digits"      // as many dimensions as discriminate ten classes
	demoMap     = "digits-map"  // two dimensions of their own, for the picture
	demoLine    = "digits-line" // two dimensions of straight lines, to compare with it
)

func newDemo(e *env, out *output, log *slog.Logger) (*demo, error) {
	d := &demo{env: e, out: out, show: newProgress(e), log: log, scale: "none"} // pixels are of one kind already
	if err := d.open(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *demo) open() (err error) {
	if d.store, err = os.MkdirTemp("", "embedd-demo-"); err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, func() { os.RemoveAll(d.store) })
	if d.digits, err = readDigits(d.store); err != nil {
		return err
	}
	s, err := startServer(filepath.Join(d.store, "nats"), -1)
	if err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, func() { stopServer(s) })
	if d.conn, err = dialServer(context.Background(), s, connection.Options{}); err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, d.conn.Close)
	d.js, err = d.conn.JetStream()
	return err
}

func (d *demo) close() {
	d.show.end()
	for _, f := range slices.Backward(d.cleanup) {
		f()
	}
	d.cleanup = nil
}

// pipelines are those of the demo: they read the same subject, and learn each for itself.
func (d *demo) pipelines() []stream.Pipeline {
	one := func(name string, dim, landmarks, every int) stream.Pipeline {
		return stream.Pipeline{
			Name: name, Stream: "FEATURES", Subject: demoSubject, Output: "reduced." + name, Dead: "dead." + name,
			Stage: plugin.Config{
				Spec: arrowio.Spec{Features: []string{"pixels"}, Label: "label", Key: "id"},
				Fit:  fit.Config{Method: "pairacc", Dim: dim, Landmarks: landmarks, Scale: d.scale, Seed: 1},
				Training: plugin.Training{Gate: plugin.Gate{Evidence: demoEvidence},
					Every: plugin.Every{Rows: every, Period: time.Minute}},
			},
		}
	}
	first := one(demoMain, 10, 220, 300)
	first.Stage.Observe = d.observe
	return []stream.Pipeline{first, one(demoMap, 2, 300, 600), one(demoLine, 2, 0, 600)}
}

func (d *demo) observe(f plugin.Outcome) {
	if f.Err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m := demoModel{Promoted: f.Promoted, Method: f.Live.Model.Method()}
	if !math.IsNaN(f.Candidate) {
		m.Score = &f.Candidate
	}
	if f.Promoted {
		m.Version = f.Live.Version
	}
	d.models = append(d.models, m)
}

// play runs the whole demo.
func (d *demo) play(ctx context.Context, picture string) (*demoReport, error) {
	pipelines := d.pipelines()
	if _, err := stream.Setup(ctx, d.js, pipelines, true); err != nil {
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

	d.out.printf("%d handwritten digits of 64 pixels flow through a NATS server as Arrow batches;\n"+
		"%d of them carry a label. Projections to 10 and to 2 dimensions are learned on the way,\n"+
		"behind landmarks: rows that stand in the place of pixels, so that lines may be curved.\n\n", d.digits.n,
		len(d.digits.train))
	if err := d.send(ctx, d.digits.train, true, demoPace, "learning from labelled rows", failed); err != nil {
		return nil, err
	}
	if err := d.settle(ctx, engine, failed); err != nil {
		return nil, err
	}
	mark := d.sent
	if err := d.send(ctx, d.digits.all(), false, 0, "reducing all rows", failed); err != nil {
		return nil, err
	}
	reduced, err := d.collect(ctx, demoMain, mark, failed)
	if err != nil {
		return nil, err
	}
	flat, err := d.collect(ctx, demoMap, mark, failed)
	if err != nil {
		return nil, err
	}
	line, err := d.collect(ctx, demoLine, mark, failed)
	if err != nil {
		return nil, err
	}
	return d.report(ctx, engine, reduced, flat, line, picture)
}

// send publishes rows in batches.
func (d *demo) send(ctx context.Context, rows []int, labelled bool, pace time.Duration, phase string,
	failed func() error) error {
	for from := 0; from < len(rows); from += demoBatch {
		part := rows[from:min(from+demoBatch, len(rows))]
		body, err := d.digits.message(part, labelled)
		if err != nil {
			return err
		}
		if _, err := d.js.Publish(ctx, demoSubject, body); err != nil {
			return err
		}
		d.sent++
		d.sentRows += len(part)
		d.show.show(fmt.Sprintf("%s: %d of %d rows", phase, from+len(part), len(rows)), -1)
		if err := sleep(ctx, pace); err != nil {
			return err
		}
		if err := failed(); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until all labelled rows were seen and no fit is due.
func (d *demo) settle(ctx context.Context, engine *stream.Engine, failed func() error) error {
	for {
		done := true
		for _, s := range engine.Status() {
			done = done && s.Stage.Rows == len(d.digits.train) && !s.Stage.Fitting && s.Stage.Live != nil
		}
		if done {
			return nil
		}
		d.show.show("fitting", -1)
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		if err := failed(); err != nil {
			return err
		}
	}
}

// accuracy is that of 1-NN: the held-out rows against the rows that were learned from.
func (d *demo) accuracy(ctx context.Context, dim int, row func(i int) []float64) (float64, error) {
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

func (d *demo) report(ctx context.Context, engine *stream.Engine, reduced, flat, line *answers,
	path string) (*demoReport, error) {
	live := engine.Status()[0].Stage.Live
	if len(reduced.y) != d.digits.n || len(flat.y) != d.digits.n || len(line.y) != d.digits.n || live.Version != reduced.model {
		return nil, fmt.Errorf("%d, %d and %d of %d rows came back, from model %s, live is %s", len(reduced.y), len(flat.y),
			len(line.y), d.digits.n, reduced.model, live.Version)
	}
	scaled := make([]float64, d.digits.n*64)
	live.Model.ScaledTo(scaled, model.DenseRows(d.digits.x, d.digits.n, 64))
	r := &demoReport{
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
	pic := &picture{
		title: "Ten digits, 64 pixels to 2 dimensions",
		subtitle: fmt.Sprintf("%d digits that were not learned from; 1-NN accuracy %.1f %%", len(d.digits.held),
			100*r.Accuracy.Picture),
		xLabel: "embedding_0", yLabel: "embedding_1",
	}
	for digit := range 10 {
		pic.classes = append(pic.classes, fmt.Sprint(digit))
	}
	for _, i := range d.digits.held {
		pic.x, pic.y = append(pic.x, float64(flat.y[i][0])), append(pic.y, float64(flat.y[i][1]))
		pic.class = append(pic.class, slices.Index(pic.classes, d.digits.label[i]))
	}
	return r, pic.save(d.env, r.Picture)
}

func widen(y []float32) []float64 {
	out := make([]float64, len(y))
	for i, v := range y {
		out[i] = float64(v)
	}
	return out
}

// hasFailed tells why an engine ended by itself; nil while it runs. One that was told to stop ends without an error.
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
