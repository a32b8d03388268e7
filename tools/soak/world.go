package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// world has a server, a link to it that can be cut, the daemon behind the link, and a connection that only faults of
// the server affect.
type world struct {
	options
	server *process
	daemon *process
	link   *link
	url    string // of the server itself
	http   string // of the daemon
	config string // file of the daemon
	nc     *nats.Conn
	js     jetstream.JetStream

	injected []injection // faults so far
}

// The streams and subjects of a run.
const (
	inputs, input   = "SOAK_IN", "soak.in"
	outputs, output = "SOAK_OUT", "soak.out"
	letters, letter = "SOAK_DEAD", "soak.dead"
	durable         = "embedd_soak"
	pipeline        = "soak"
	other           = "soak.other" // a further subject of the stream of outputs
)

func build(ctx context.Context, path, pkg string) error {
	text, err := exec.CommandContext(ctx, "go", "build", "-o", path, pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, text)
	}
	return nil
}

func newWorld(ctx context.Context, o options) (*world, error) {
	w := &world{options: o}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	w.url = fmt.Sprintf("nats://127.0.0.1:%d", port)
	conf := filepath.Join(o.dir, "server.conf")
	text := fmt.Sprintf("listen: 127.0.0.1:%d\njetstream {store_dir: %q}\n", port, filepath.Join(o.dir, "store"))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	w.server = &process{path: filepath.Join(o.dir, "nats-server"), args: []string{"-c", conf},
		log: filepath.Join(o.dir, "server.log")}
	if w.link, err = newLink(fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		return nil, err
	}
	if port, err = freePort(); err != nil {
		return nil, err
	}
	w.http = fmt.Sprintf("http://127.0.0.1:%d", port)
	w.config = filepath.Join(o.dir, "embedd.yaml")
	if err := w.configure(2000); err != nil {
		return nil, err
	}
	w.daemon = &process{path: filepath.Join(o.dir, "embedd"), args: []string{"run", "-c", w.config},
		log: filepath.Join(o.dir, "embedd.log")}
	return w, nil
}

// configure writes the daemon's configuration, with a window of a number of rows.
func (w *world) configure(rows int) error {
	text := fmt.Sprintf(configuration, w.link.Address(), strings.TrimPrefix(w.http, "http://"), rows)
	return os.WriteFile(w.config, []byte(text), 0o600)
}

// configuration promotes models as often as possible, on a concept that changes all the time.
const configuration = `nats: {url: "nats://%s", wait: 1m}
http: {listen: "%s"}
pipelines:
  soak:
    input: {stream: SOAK_IN, subject: soak.in}
    schema: {features: [x], label: label, key: id}
    output: {subject: soak.out, dead: soak.dead}
    model: {method: lda, dim: 3}
    training: {window: {rows: %d}, every: {rows: 250}, gate: {evidence: 2}}
`

// begin starts all, with the streams.
func (w *world) begin(ctx context.Context) error {
	if err := w.server.start(); err != nil {
		return err
	}
	var err error
	if w.nc, err = nats.Connect(w.url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond)); err != nil {
		return err
	}
	if w.js, err = jetstream.New(w.nc); err != nil {
		return err
	}
	for name, subjects := range map[string][]string{inputs: {input}, outputs: {output, other}, letters: {letter}} {
		c := jetstream.StreamConfig{Name: name, Subjects: subjects, Duplicates: w.window}
		err := again(ctx, time.Minute, func(ctx context.Context) error {
			_, err := w.js.CreateOrUpdateStream(ctx, c)
			return err
		})
		if err != nil {
			return fmt.Errorf("making stream %s: %w", name, err)
		}
	}
	return w.daemon.start()
}

// end stops everything.
func (w *world) end() {
	w.daemon.stop(10 * time.Second)
	w.link.close()
	if w.nc != nil {
		w.nc.Close()
	}
	w.server.stop(10 * time.Second)
}

// awaitAnswers waits until no input is pending or in flight.
func (w *world) awaitAnswers(ctx context.Context, most time.Duration) error {
	return again(ctx, most, func(ctx context.Context) error {
		c, err := w.js.Consumer(ctx, inputs, durable)
		if err != nil {
			return err
		}
		if i := c.CachedInfo(); i.NumPending > 0 || i.NumAckPending > 0 {
			return fmt.Errorf("%d inputs wait, %d are under way", i.NumPending, i.NumAckPending)
		}
		return nil
	})
}

// again retries until it succeeds.
func again(ctx context.Context, most time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		one, done := context.WithTimeout(ctx, 3*time.Second)
		err := try(one)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
