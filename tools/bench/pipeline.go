package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/embedded"
	"github.com/embedd/embedd/internal/cores"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
)

// A turn on JetStream has turnBytes of messages, and at most turnMessages of them.
const (
	turnBytes    = 96 << 20
	turnMessages = 8192
)

// relayPending and relayPull are the limits of the relay: those of the pipeline.
const (
	relayPending = 1024
	relayPull    = 8 << 20
)

// small is the message size below which the goal is lower, because the cost per message dominates the cost per row.
const small = 64 << 10

// testbed is a filled input stream and an empty output stream.
type testbed struct {
	conn  *connection.Conn
	js    jetstream.JetStream
	last  uint64 // sequence of the newest input
	turns int
}

// pipeline measures an engine with a fixed model, compared with a relay of the same messages.
func (b run) pipeline(ctx context.Context, fitted *model.Model) (all []Ratio, err error) {
	dir, err := os.MkdirTemp("", "embedd-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := embedded.Start(filepath.Join(dir, "nats"), -1)
	if err != nil {
		return nil, err
	}
	defer embedded.Stop(s)
	conn, err := embedded.Dial(ctx, s, connection.Options{})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	c := &testbed{conn: conn}
	if c.js, err = jetstream.New(conn.Conn, jetstream.WithPublishAsyncMaxPending(2*relayPending)); err != nil {
		return nil, err
	}
	rec, err := b.shape.message(b.shape.rows(rand.New(rand.NewPCG(1, 2))))
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	msg, err := arrowio.FromRecords(rec.Schema(), rec)
	if err != nil {
		return nil, err
	}
	stage := plugin.Config{Spec: b.shape.spec(), Fixed: fitted}
	body, err := answerOf(ctx, stage, msg)
	if err != nil {
		return nil, err
	}
	b.show("filling the input stream", -1)
	if err := c.fill(ctx, msg); err != nil {
		return nil, err
	}
	var cpu [2][]float64
	turn := func(which int, worker func(context.Context, string) error) func() (float64, error) {
		return func() (float64, error) {
			seconds, used, err := c.run(ctx, worker)
			cpu[which] = append(cpu[which], used)
			return seconds, err
		}
	}
	took, err := b.turns(ctx, "pipeline and relay", pipelineWait, turn(0, c.pipeline(stage)), turn(1, c.relay(body)))
	if err != nil {
		return nil, err
	}
	drain := compare("pipeline, drain", "messages/s", "relay", took, [2]float64{1, 1})
	goal := 0.9
	if len(msg) < small {
		goal = 0.8
	}
	if isLinear(fitted) {
		drain.aim(goal, false)
	}
	all = append(all, drain)
	for i := range cpu {
		cpu[i] = cpu[i][1:]
	}
	if cpu[0][0] > 0 {
		line := compare("processor, server's too", "us a message", "relay", cpu, [2]float64{1, 1})
		line.Ours, line.Scale, line.Ratio = 1e6/line.Ours, 1e6/line.Scale, 1/line.Ratio
		if isLinear(fitted) {
			line.aim(1.3, true)
		}
		all = append(all, line)
	}
	return all, nil
}

// answerOf is the output that the pipeline publishes for a message.
func answerOf(ctx context.Context, c plugin.Config, msg []byte) ([]byte, error) {
	stage, err := plugin.New(c)
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	m, err := stage.Decode(msg)
	if err != nil {
		return nil, err
	}
	r, err := stage.Transform(ctx, m)
	if err != nil {
		return nil, err
	}
	return stage.Encode(r)
}

// fill creates the streams and fills the input.
func (c *testbed) fill(ctx context.Context, msg []byte) error {
	for _, name := range []string{"features", "reduced", "dead"} {
		if _, err := c.js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"},
			Storage: jetstream.FileStorage}); err != nil {
			return err
		}
	}
	c.last = uint64(max(min(turnMessages, turnBytes/len(msg)), 8))
	for range c.last {
		if _, err := c.js.PublishAsync("features.bench", msg, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-c.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run lets a worker answer the whole input and returns the seconds and the processor time per message, from an
// eighth of the input, when everything is warm, to the last acknowledgement.
func (c *testbed) run(ctx context.Context, worker func(ctx context.Context, name string) error) (seconds,
	cpu float64,
	err error) {
	c.turns++
	name := "bench" + strconv.Itoa(c.turns) // a new name changes the message ids: no output is a duplicate
	input, err := c.js.Stream(ctx, "features")
	if err != nil {
		return 0, 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker(running, name) }()
	from, err := c.await(ctx, input, "embedd_"+name, c.last/8, ended)
	to := from
	if err == nil {
		to, err = c.await(ctx, input, "embedd_"+name, c.last, ended)
	}
	stop()
	err = errors.Join(err, <-ended)
	if err != nil {
		return 0, 0, err
	}
	if to.seq == from.seq {
		return 0, 0, errors.New("the input was answered between two measurements: give more rows")
	}
	n := float64(to.seq - from.seq)
	seconds, cpu = to.at.Sub(from.at).Seconds()/n, (to.cpu-from.cpu).Seconds()/n
	if err := input.DeleteConsumer(ctx, "embedd_"+name); err != nil {
		return 0, 0, err
	}
	for name, want := range map[string]uint64{"reduced": c.last, "dead": 0} {
		output, err := c.js.Stream(ctx, name)
		if err != nil {
			return 0, 0, err
		}
		if have := output.CachedInfo().State.Msgs; have != want {
			return 0, 0, fmt.Errorf("stream %s has %d messages, want %d", name, have, want)
		}
		if err := output.Purge(ctx); err != nil {
			return 0, 0, err
		}
	}
	return seconds, cpu, nil
}

// progress is how far a worker is.
type progress struct {
	seq uint64
	at  time.Time
	cpu time.Duration
}

// await waits until the input is acknowledged up to a sequence.
func (c *testbed) await(ctx context.Context, input jetstream.Stream, durable string, seq uint64,
	ended chan error) (progress, error) {
	for {
		select {
		case err := <-ended:
			ended <- nil
			return progress{}, errors.Join(errors.New("it ended before the end of the input"), err)
		case <-ctx.Done():
			return progress{}, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
		consumer, err := input.Consumer(ctx, durable)
		switch {
		case err == nil && consumer.CachedInfo().AckFloor.Stream >= seq:
			return progress{consumer.CachedInfo().AckFloor.Stream, time.Now(), cores.ProcessorTime()}, nil
		case err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) && ctx.Err() == nil:
			return progress{}, err
		}
	}
}

// pipeline is the measured worker: an engine with one pipeline.
func (c *testbed) pipeline(stage plugin.Config) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		e, err := stream.New(stream.Options{Conn: c.conn.Conn, Pipelines: []stream.Pipeline{{Name: name, Stream: "features",
			Subject: "features.bench", Output: "reduced.bench", Dead: "dead.bench", Stage: stage}}})
		if err != nil {
			return err
		}
		return e.Run(ctx)
	}
}

// relay is the baseline: it pulls with the same limits, publishes a constant body under a message id, waits for the
// confirmation and acknowledges.
func (c *testbed) relay(body []byte) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		consumer, err := c.js.CreateConsumer(ctx, "features", jetstream.ConsumerConfig{Durable: "embedd_" + name,
			AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: relayPending, FilterSubject: "features.bench"})
		if err != nil {
			return err
		}
		type sent struct {
			msg    jetstream.Msg
			future jetstream.PubAckFuture
		}
		inFlight := make(chan sent, relayPending)
		var failed error
		var wg sync.WaitGroup
		wg.Go(func() {
			for s := range inFlight {
				select {
				case <-s.future.Ok():
					_ = s.msg.Ack() // the turn ends when the server has received the last one
				case err := <-s.future.Err():
					failed = errors.Join(failed, err)
				}
			}
		})
		room := int(max(relayPull, c.conn.MaxPayload()+64<<10))
		for ctx.Err() == nil {
			wait, cancel := context.WithTimeout(ctx, 5*time.Second)
			batch, err := consumer.Fetch(relayPending, jetstream.FetchMaxBytes(room), jetstream.FetchContext(wait),
				jetstream.FetchHeartbeat(time.Second))
			if err != nil {
				cancel()
				break
			}
			for msg := range batch.Messages() {
				future, err := c.js.PublishMsgAsync(&nats.Msg{Subject: "reduced.bench", Data: body},
					jetstream.WithMsgID(name+"/"+msg.Reply()), jetstream.WithStallWait(time.Minute))
				if err == nil {
					inFlight <- sent{msg, future}
				}
			}
			cancel()
		}
		close(inFlight)
		wg.Wait()
		return failed
	}
}
