package stream

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/needs"
)

// replicaVariable makes this program a replica: it holds the address of a server and the number of partitions.
const replicaVariable = "EMBEDD_PARTITION_REPLICA"

func TestMain(m *testing.M) {
	if how := os.Getenv(replicaVariable); how != "" {
		url, partitions, _ := strings.Cut(how, " ")
		if err := replicate(url, partitions); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testsize.AtOnce(16)
	natsx.KeyPoll = time.Second
	os.Exit(m.Run())
}

// replicate runs a replica until the process is killed.
func replicate(url, partitions string) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.Timeout(ample))
	if err != nil {
		return err
	}
	p := keyed()
	p.Partitions, err = strconv.Atoi(partitions)
	if err != nil {
		return err
	}
	if p.Stage.Fixed, err = pair(context.Background()); err != nil {
		return err
	}
	e, err := New(Options{Conn: nc, Pipelines: []Pipeline{p}, Wait: ample})
	if err != nil {
		return err
	}
	return e.Run(context.Background())
}

// pair is a model of the numbered messages.
func pair(ctx context.Context) (*model.Model, error) {
	d := &model.Data{N: 40, M: 4, Classes: []string{"even", "odd"}, Features: []string{"x[0]", "x[1]", "x[2]", "x[3]"}}
	for i := range d.N {
		d.X = append(d.X, float64(i), float64(i%2*100), float64(i*31%17), float64(i*7%5))
		d.Y = append(d.Y, i%2)
	}
	return fit.Fit(ctx, d, fit.Config{Method: "pca", Dim: 2})
}

// fleetTTL is the TTL of leases, and the ack wait, of replicas that share partitions: a busy machine has to renew them.
const fleetTTL = 5 * lease.MinTTL / 2

// keyed is a pipeline whose subject has a key.
func keyed() Pipeline {
	return Pipeline{Name: "p", Stream: "in", Subject: "in.*", Partitions: 8, Output: "out.x", Dead: "out.dead",
		Lease: fleetTTL, AckWait: fleetTTL,
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}}}
}

// fleet has replicas of a pipeline with keys, each a separate process.
type fleet struct {
	*site
	partitions int
	running    []*exec.Cmd
	through    string   // what carries the connections of those that join; "" for nothing
	keys       []string // of the messages, by their numbers
	random     *rand.Rand
}

func newFleet(t *testing.T, partitions int) *fleet {
	f := &fleet{site: newSite(t), partitions: partitions, keys: []string{""}, random: rand.New(rand.NewPCG(1, 2))}
	if partitions > 0 {
		f.transform(needs.PartitionTransform("in.*", partitions))
	}
	t.Cleanup(func() {
		for _, one := range f.running {
			_ = one.Process.Kill()
			_ = one.Wait()
		}
	})
	return f
}

func (s *site) transform(how *jetstream.SubjectTransformConfig) {
	s.Helper()
	if _, err := s.js.UpdateStream(s.Context(), jetstream.StreamConfig{Name: "in", Subjects: []string{"in.>"},
		SubjectTransform: how}); err != nil {
		s.Fatal(err)
	}
}

func (f *fleet) join() {
	f.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", replicaVariable, cmp.Or(f.through, f.url()), f.partitions))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.running = append(f.running, cmd)
}

// kill ends a replica with SIGKILL.
func (f *fleet) kill() {
	f.Helper()
	i := f.random.IntN(len(f.running))
	if err := f.running[i].Process.Kill(); err != nil {
		f.Fatal(err)
	}
	_ = f.running[i].Wait()
	f.running = slices.Delete(f.running, i, i+1)
}

// stop stops a replica with SIGSTOP for the given time; then it continues.
func (f *fleet) stop(d time.Duration) {
	f.Helper()
	one := f.running[f.random.IntN(len(f.running))]
	if err := one.Process.Signal(syscall.SIGSTOP); err != nil {
		f.Fatal(err)
	}
	time.AfterFunc(d, func() { _ = one.Process.Signal(syscall.SIGCONT) })
}

// publish stores n messages of the given number of keys.
func (f *fleet) publish(n, keys int) {
	f.Helper()
	for range n {
		key := fmt.Sprintf("k%d", f.random.IntN(keys))
		f.keys = append(f.keys, key)
		f.store("in."+key, f.message(len(f.keys)-1))
	}
}

// answered waits until every message has its output.
func (f *fleet) answered() {
	f.Helper()
	f.until("every input has an output", func() bool { return f.state("out").Msgs >= uint64(len(f.keys)-1) })
}
