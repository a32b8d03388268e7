package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// tabular is a message of rows whose features are columns of doubles of these names.
func tabular(t testing.TB, rows []row, names ...string) []byte {
	t.Helper()
	var fields []arrow.Field
	for _, name := range names {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64})
	}
	fields = append(fields, arrow.Field{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true})
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for _, r := range rows {
		for j, name := range names {
			b.Field(j).(*array.Float64Builder).Append(float64(r.x[int(name[0]-'a')%len(r.x)]))
		}
		text(b.Field(len(names)), r.class, r.class != "")
	}
	return encodeRecord(t, b)
}

// countingStage is a stage that counts which columns are features.
func countingStage(t testing.TB, change func(*spec.Config)) *Stage {
	return newStage(t, func(c *spec.Config) {
		c.Spec.Features = []string{"*"}
		c.Training.Every = spec.Every{Rows: 100, Period: time.Hour}
		if change != nil {
			change(c)
		}
	})
}

// send decodes and learns a message at a second.
func send(t testing.TB, s *Stage, seq uint64, msg []byte) {
	t.Helper()
	m, err := s.Decode(msg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Learn(m, spec.Position{Seq: seq, Time: time.Unix(int64(seq), 0)}); err != nil {
		t.Fatal(err)
	}
}

// TestCountsContracts: one odd first message decides nothing. The contract that most messages have is stored when it
// has the rows of a first model, and the model is that of a stage that knew the contract from the start.
func TestCountsContracts(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(31, 32)), 300, 3)
	var stored []*arrowio.Contract
	s := countingStage(t, func(c *spec.Config) {
		c.StoreContract = func(_ context.Context, c *arrowio.Contract) (*arrowio.Contract, error) {
			stored = append(stored, c)
			return c, nil
		}
	})
	odd := clouds(rand.New(rand.NewPCG(33, 34)), 20, 2)
	send(t, s, 1, tabular(t, odd, "a"))
	if s.Contract() != nil || s.Live() != nil {
		t.Fatal("the first message fixed the contract")
	}
	select {
	case <-s.ContractFixed():
		t.Fatal("the contract is fixed")
	default:
	}
	for i := 0; i < len(rows); i += 20 {
		names := []string{"a", "b", "c"}
		if i == 40 {
			names = []string{"c", "a", "b"} // another order is the same contract
		}
		msg := tabular(t, rows[i:i+20], names...)
		if s.Contract() != nil && i == 280 {
			if _, err := s.Decode(tabular(t, odd, "a")); err == nil {
				t.Error("a message of another schema is decoded")
			}
		}
		send(t, s, uint64(2+i/20), msg)
		waitIdle(t, s)
		if st := s.Status(); i == 0 && (len(st.Candidates) != 2 || st.Candidates[0].First != 1 || st.Rows != 20 ||
			!strings.Contains(st.Hint, "1 of 2 have the most frequent ones")) {
			t.Errorf("after two messages: %+v", st)
		}
	}
	want, err := arrowio.NewContract([]string{"a", "b", "c"}, "label", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(stored) != 1 || !stored[0].Equal(want) || !s.Contract().Equal(want) {
		t.Fatalf("stored %v, the contract is %v", stored, s.Contract())
	}
	<-s.ContractFixed()
	other := countingStage(t, func(c *spec.Config) { c.Contract = want })
	for i := 0; i < len(rows); i += 20 {
		send(t, other, uint64(2+i/20), tabular(t, rows[i:i+20], "a", "b", "c"))
		waitIdle(t, other)
	}
	a, b := s.Status(), other.Status()
	if a.Live == nil || b.Live == nil || a.Live.Model.Digest() != b.Live.Model.Digest() || a.Rows != b.Rows {
		t.Errorf("counted: %+v\nknown: %+v", a, b)
	}
	if a.Mismatched != 1 || len(a.Candidates) != 0 || b.Mismatched != 0 {
		t.Errorf("%d messages do not fit, and %d candidates are counted", a.Mismatched, len(a.Candidates))
	}
}

// TestStoredContractWins: if another process was first, its contract applies and the kept messages that fit it are
// learned.
func TestStoredContractWins(t *testing.T) {
	theirs, err := arrowio.NewContract([]string{"b", "a"}, "label", "")
	if err != nil {
		t.Fatal(err)
	}
	rows := clouds(rand.New(rand.NewPCG(35, 36)), 200, 2)
	var tries int
	s := countingStage(t, func(c *spec.Config) {
		now := time.Unix(1000, 0)
		c.Clock = func() time.Time { now = now.Add(time.Minute); return now }
		c.StoreContract = func(context.Context, *arrowio.Contract) (*arrowio.Contract, error) {
			if tries++; tries == 1 {
				return nil, errors.New("no connection")
			}
			return theirs, nil
		}
	})
	sent := 0
	for i := 0; i < len(rows); i += 20 {
		if s.Contract() != nil {
			break
		}
		names := []string{"a", "b", "c"} // whose columns a and b fit
		if i%40 == 20 && i < 80 {
			names = []string{"a"}
		} else {
			sent += 20
		}
		send(t, s, uint64(1+i/20), tabular(t, rows[i:i+20], names...))
		waitIdle(t, s)
	}
	st := s.Status()
	if tries != 2 || !s.Contract().Equal(theirs) || st.Mismatched != 2 || st.Rows != sent || sent > 120 {
		t.Errorf("after %d attempts to store: %v, %d do not fit, %d rows", tries, s.Contract(), st.Mismatched, st.Rows)
	}
	if err := s.FixContract(theirs); err != nil {
		t.Error(err)
	}
	if err := s.FixContract(testContract(t)); err == nil {
		t.Error("another contract is accepted")
	}
}

// TestFixContract ends counting, and what was kept is learned.
func TestFixContract(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(37, 38)), 60, 2)
	s := countingStage(t, nil)
	for i := 0; i < len(rows); i += 20 {
		send(t, s, uint64(1+i/20), tabular(t, rows[i:i+20], "a", "b"))
	}
	before, err := s.Decode(tabular(t, rows[:20], "b", "a"))
	if err != nil {
		t.Fatal(err)
	}
	contract, err := arrowio.NewContract([]string{"a", "b"}, "label", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.FixContract(contract); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, s)
	if st := s.Status(); st.Rows != 60 || st.Mismatched != 0 {
		t.Errorf("%+v", st)
	}
	if err := s.Learn(before, spec.Position{Seq: 4}); !errors.Is(err, spec.ErrContract) {
		t.Errorf("a message that was decoded before: %v", err)
	}
	if err := s.Refit(); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, s)
	if _, err := s.Transform(t.Context(), before); !errors.Is(err, spec.ErrContract) {
		t.Errorf("a message that was decoded before: %v", err)
	}
}

// TestCountingEnds: a contract is fixed after the period, by a request to fit, by the memory limit, and by unlabelled
// rows if those make a model; a flood of messages without usable rows decides nothing.
func TestCountingEnds(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(39, 40)), 40, 2)
	blank := slices.Clone(rows)
	for i := range blank {
		blank[i].class = ""
	}
	clock := time.Unix(20_000, 0)
	for name, c := range map[string]struct {
		change func(*spec.Config)
		then   func(*Stage)
		want   int // features, 0: no contract
	}{
		"few rows": {nil, func(*Stage) {}, 0},
		"period": {nil, func(s *Stage) {
			send(t, s, 10_000, tabular(t, rows[:2], "a", "b"))
		}, 2},
		"refit": {nil, func(s *Stage) {
			if err := s.Refit(); err != nil {
				t.Error(err)
			}
		}, 2},
		"memory": {func(c *spec.Config) { c.Training.Window.Bytes = 64 << 10 }, func(s *Stage) {
			for seq := range uint64(3) {
				send(t, s, 50+seq, tabular(t, rows[:20], "a", "b"))
			}
		}, 2},
		"a flood without labels": {nil, func(s *Stage) {
			for seq := range uint64(100) {
				send(t, s, 50+seq, tabular(t, blank, "c"))
			}
			send(t, s, 200, tabular(t, append(slices.Clone(rows), rows...), "a", "b"))
		}, 2},
		"rows of a PCA": {func(c *spec.Config) { c.Until = spec.UntilPCA }, func(s *Stage) {
			for seq := range uint64(4) {
				send(t, s, 50+seq, tabular(t, blank, "a", "b"))
			}
		}, 2},
		"no labels are learned": {func(c *spec.Config) { c.Spec.Label, c.Fit.Method = "", "pca" }, func(s *Stage) {
			for seq := range uint64(4) {
				send(t, s, 50+seq, tabular(t, rows, "a", "b"))
			}
		}, 2},
		"blocks": {func(c *spec.Config) { c.Training.Block = 10 }, func(s *Stage) {
			send(t, s, 50, tabular(t, append(slices.Clone(rows), rows...), "a", "b"))
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := countingStage(t, func(conf *spec.Config) {
				conf.Clock = func() time.Time { return clock }
				if c.change != nil {
					c.change(conf)
				}
			})
			send(t, s, 1, tabular(t, rows, "a", "b"))
			c.then(s)
			waitIdle(t, s)
			if n := s.Contract().Len(); n != c.want {
				t.Errorf("%d features: %+v", n, s.Status())
			}
		})
	}
}

// TestCountingOrder: whatever the first messages are, and in whatever order, the same contract is stored.
func TestCountingOrder(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(41, 42)), 20, 2)
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := countingStage(t, nil)
		var msgs [][]byte
		for i := range 20 {
			names := []string{"a", "b", "c"}
			if i%4 == 3 {
				names = [][]string{{"a"}, {"b", "c"}, {"a", "b", "c", "d"}}[r.IntN(3)]
			}
			msgs = append(msgs, tabular(t, rows, names...))
		}
		r.Shuffle(len(msgs)-12, func(i, j int) { msgs[i], msgs[j] = msgs[j], msgs[i] })
		for i, msg := range msgs {
			if s.Contract() != nil {
				break
			}
			send(t, s, uint64(i+1), msg)
			waitIdle(t, s)
		}
		if got := fmt.Sprint(s.Contract().Elements()); got != "[a b c]" {
			t.Errorf("draw %d: the contract is %s", seed, got)
		}
	}
}

// TestCountedReproducible: a stage that counts decides as one that restarts, at any point, with the stored contract:
// what is learned does not depend on when the contract became known.
func TestCountedReproducible(t *testing.T) {
	rows := driftingRows(1200)
	var msgs [][]byte
	for i := 0; i < len(rows); i += 20 {
		names := []string{"a", "b", "c", "d"}
		switch i / 20 % 7 {
		case 1:
			names = []string{"a", "b"} // does not fit
		case 3:
			names = []string{"a", "b", "c", "d", "e"} // fits by its first columns
		}
		msgs = append(msgs, tabular(t, rows[i:i+20], names...))
	}
	var stored *arrowio.Contract
	change := func(c *spec.Config) {
		c.Spec.Features, c.Contract = []string{"*"}, stored
		c.Training.Window, c.Training.Every.Rows, c.Training.Gate.Evidence = spec.Window{Rows: 800}, 200, 10
		c.StoreContract = func(_ context.Context, c *arrowio.Contract) (*arrowio.Contract, error) {
			stored = c
			return c, nil
		}
	}
	run := func(s *recordedStage, from, to uint64) {
		for seq := from; seq <= to; seq++ {
			m, err := s.Decode(msgs[seq-1])
			if err != nil {
				continue
			}
			if err := s.Learn(m, spec.Position{Seq: seq, Time: time.Unix(int64(seq), 0)}); err != nil {
				t.Fatal(err)
			}
			waitIdle(t, s.Stage)
		}
	}
	whole := newRecordedStage(t, change)
	run(whole, 1, uint64(len(msgs)))
	if whole.Contract().Len() != 4 || len(whole.decisions) < 2 {
		t.Fatalf("%v, %v", whole.Contract(), whole.decisions)
	}
	for _, stop := range []uint64{3, 12, 20, 31, 45} {
		stored = nil
		before := newRecordedStage(t, change)
		run(before, 1, stop)
		from := uint64(1)
		if before.live != nil {
			_, from = ReadFrom(before.live.State)
		}
		after := newRecordedStage(t, func(c *spec.Config) { change(c); c.Resume = before.live })
		after.decisions = before.decisions
		run(after, from, uint64(len(msgs)))
		if !slices.Equal(after.decisions, whole.decisions) {
			t.Errorf("stopped after %d: %q, without %q", stop, after.decisions, whole.decisions)
		}
		if a, b := after.Status().Rows, whole.Status().Rows; a != b {
			t.Errorf("stopped after %d: %d rows in the window, without %d", stop, a, b)
		}
	}
}

// TestCountRemote: a stage adds up what others counted, each once and as it was sent last. The schema of most messages
// is used when it alone has the rows of a first model.
func TestCountRemote(t *testing.T) {
	t.Parallel()
	config := func() *spec.Config {
		return &spec.Config{Spec: arrowio.Spec{Features: []string{"*"}, Label: "label"}, Fit: fit.Config{Method: "lda"},
			Training: spec.Training{Every: spec.Every{Rows: 40}, Block: 10}}
	}
	count := func(messages map[string]int) []byte {
		t.Helper()
		var c contractCounts
		for column, n := range messages {
			contract, err := arrowio.NewContract([]string{column}, "label", "")
			if err != nil {
				t.Fatal(err)
			}
			for k := range n {
				c.add(contract, window.Position{Seq: uint64(k + 1)}, time.Unix(int64(k), 0), usableRows{rows: 1}, 10)
			}
		}
		text, err := c.marshal()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	s, err := New(*config())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, one := range []struct {
		edge     string
		messages map[string]int
	}{{"a", map[string]int{"odd": 30, "x": 5}}, {"a", map[string]int{"odd": 35, "x": 10}},
		{"b", map[string]int{"x": 20}}} {
		if err := s.CountRemote(one.edge, count(one.messages)); err != nil {
			t.Fatal(err)
		}
	}
	status := s.Status()
	if s.Contract() != nil || status.Counted != 65 || status.Candidates[0].Messages != 35 ||
		status.Candidates[1].Rows != 30 {
		t.Errorf("before a model is due the schema is %v, and %d are counted, %+v", s.Contract(), status.Counted,
			status.Candidates)
	}
	other, err := arrowio.NewContract([]string{"x"}, "another", "")
	if err != nil {
		t.Fatal(err)
	}
	var c contractCounts
	c.add(other, window.Position{Seq: 1}, time.Unix(1, 0), usableRows{rows: 1000}, 10)
	text, err := c.marshal()
	if err != nil {
		t.Fatal(err)
	}
	for edge, text := range map[string][]byte{"b": count(map[string]int{"x": 60}), "c": text} {
		if err := s.CountRemote(edge, text); err != nil {
			t.Fatal(err)
		}
	}
	<-s.ContractFixed()
	if got := s.Contract(); !got.Has([]string{"x"}) || got.Label() != "label" {
		t.Errorf("the schema is %v", got)
	}
	if err := s.CountRemote("d", []byte("no JSON")); err == nil {
		t.Error("counts that cannot be read are accepted")
	}
}

// TestRefitWhileCounting: a request to fit before the schema is known fits the rows that were kept, also if it comes
// while the worker looks for work, as here, where it has only started.
func TestRefitWhileCounting(t *testing.T) {
	rows := decode(t, newStage(t, nil), clouds(rand.New(rand.NewPCG(21, 22)), 20, 3))
	for i := range 500 {
		s := newStage(t, nil)
		if err := s.Learn(rows, spec.Position{Seq: 1, Time: time.Unix(1, 0), Source: "in.a"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Refit(); err != nil {
			t.Fatal(err)
		}
		waitIdle(t, s)
		if s.Live() == nil {
			t.Fatalf("attempt %d: the request was lost: %+v", i, s.Status())
		}
		s.Close()
	}
}

// TestRefitWhileTheStoreFails: the request stays until the schema is stored. A change of standby does not wait for it.
func TestRefitWhileTheStoreFails(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(23, 24)), 60, 3)
	for _, standby := range []bool{false, true} {
		now, tries := time.Unix(1000, 0), 0
		s := countingStage(t, func(c *spec.Config) {
			c.Clock = func() time.Time { return now }
			c.StoreContract = func(_ context.Context, c *arrowio.Contract) (*arrowio.Contract, error) {
				if tries++; tries == 1 {
					return nil, errors.New("no connection")
				}
				return c, nil
			}
		})
		send(t, s, 1, tabular(t, rows[:30], "a", "b"))
		if err := s.Refit(); err != nil {
			t.Fatal(err)
		}
		waitIdle(t, s)
		if tries != 1 || s.Contract() != nil {
			t.Fatalf("%d attempts, the schema is %v", tries, s.Contract())
		}
		s.Standby(standby)
		waitIdle(t, s)
		now = now.Add(time.Minute)
		send(t, s, 2, tabular(t, rows[30:], "a", "b"))
		waitIdle(t, s)
		if tries != 2 || s.Status().Rows != 60 || (s.Live() != nil) == standby {
			t.Errorf("standby %v: %d attempts, %+v", standby, tries, s.Status())
		}
	}
}

// lockedLog is a log that is read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestKeptMessages: while the schema is not known, messages are kept up to an eighth of the window's memory, later
// events in their order, and each time that labels have reached once.
func TestKeptMessages(t *testing.T) {
	t.Parallel()
	log := &lockedLog{}
	s := countingStage(t, func(c *spec.Config) {
		c.Logger, c.Training.Window.Bytes = logTo(log), 8*3000
		c.Training.Every.Rows, c.Training.Every.Period = 10_000, 0
	})
	l := s.learner
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keepReached(time.Unix(1, 0)) {
		t.Error("a time is kept without rows")
	}
	msg := tabular(t, clouds(rand.New(rand.NewPCG(69, 70)), 20, 2), "a", "b")
	m, err := s.Decode(msg)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for n := 1; n <= 40; n++ {
		before := l.bytes
		l.keep(m, spec.Position{Seq: uint64(n)}, 20)
		if room := before <= trainer.QueueBytes(8*3000) || n == 1; room {
			kept++
		}
		if c := l.counting; len(c.kept) != kept || c.rows != 20*kept || l.dropped != 20*(n-kept) {
			t.Fatalf("message %d: %d are kept of %d rows, %d dropped, want %d", n, len(c.kept), c.rows, l.dropped, kept)
		}
	}
	l.mu.Unlock()
	l.mu.Lock()
	if kept == 40 || kept < 2 || !strings.Contains(log.String(), "rows are not learned because they arrive faster") {
		t.Errorf("%d of 40 messages are kept, the log has %q", kept, log.String())
	}
	if l.keepLabels(m, spec.Position{Seq: 41}) {
		t.Error("labels are kept beyond the memory")
	}
	l.bytes = 0
	if !l.keepLabels(m, spec.Position{Seq: 42}) || l.counting.labels != 20 || !l.counting.kept[kept].labels ||
		l.bytes != int64(len(l.counting.kept[kept].data)) {
		t.Errorf("%d labels are kept", l.counting.labels)
	}
	for _, at := range []int64{5, 9} {
		if !l.keepReached(time.Unix(at, 0)) || len(l.counting.kept) != kept+2 ||
			!l.counting.kept[kept+1].reached.Equal(time.Unix(at, 0)) {
			t.Errorf("after %d s: %+v", at, l.counting.kept[kept+1])
		}
	}
}

// TestTrainableCandidates: a schema can be fixed early if a model could be fitted: on two rows without labels, on four
// if labels come later, else on two classes of two rows.
func TestTrainableCandidates(t *testing.T) {
	t.Parallel()
	two := map[string]int{"a": 2, "b": 2}
	for _, c := range []struct {
		label   string
		late    bool
		rows    int
		classes map[string]int
		want    bool
	}{
		{"", false, 1, nil, false}, {"", false, 2, nil, true}, {"l", true, 3, two, false}, {"l", true, 4, nil, true},
		{"l", false, 3, nil, false}, {"l", false, 4, nil, true}, {"l", false, 3, two, true},
		{"l", false, 9, map[string]int{"a": 9, "b": 1}, false}, {"l", false, 9, map[string]int{"a": 9}, false},
		{"l", false, 9, map[string]int{"a": 1, "b": 2, "c": 2}, true}, {"l", true, 4, map[string]int{"a": 9}, true},
	} {
		l := &learner{config: &spec.Config{Spec: arrowio.Spec{Label: c.label}}}
		if c.late {
			l.late = &lateLabels{}
		}
		if got := l.isTrainable(&contractCandidate{rows: c.rows, classes: c.classes}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestStatusOfCandidates: candidates are listed with their messages and rows, the leader first, at most eight, and the
// hint says how many messages have the leading one once more than a tenth have not.
func TestStatusOfCandidates(t *testing.T) {
	t.Parallel()
	var c contractCounts
	if c.leader() != nil || c.hint() != "" || c.total() != 0 || c.status() != nil {
		t.Error("no message has a candidate")
	}
	add := func(name string, seq uint64, messages int) {
		k, err := arrowio.NewContract([]string{name}, "l", "")
		if err != nil {
			t.Fatal(err)
		}
		for range messages {
			c.add(k, window.Position{Seq: seq}, time.Unix(int64(seq), 0), usableRows{rows: 3, unlabelled: 2,
				labels: []string{"p", "q", "r"}}, 2)
		}
	}
	add("a", 5, 9)
	if add("b", 3, 1); c.hint() != "" {
		t.Errorf("of one in ten: %q", c.hint())
	}
	if add("c", 4, 1); c.hint() != "messages have different features: 9 of 11 have the most frequent ones, 1 features: "+
		"a; label l; send the same from each publisher, or set schema.features with sizes" {
		t.Errorf("of two in eleven: %q", c.hint())
	}
	got := c.status()
	if len(got) != 3 || got[0].Messages != 9 || got[0].Rows != 45 || got[0].First != 5 || got[1].First != 3 ||
		got[2].First != 4 || got[2].Rows != 5 || len(c.leader().classes) != 2 || c.leader().classes["p"] != 9 ||
		c.leader().unlabelled != 18 || c.leader().rows != 27 {
		t.Errorf("%+v, leader %+v", got, c.leader())
	}
	for k := range 100 {
		add(fmt.Sprint("x", k), uint64(10+k), 1)
	}
	if len(c.byID) != 64 || c.other != 39 || c.total() != 111 || len(c.status()) != 8 {
		t.Errorf("%d candidates, %d other messages of %d, %d listed", len(c.byID), c.other, c.total(), len(c.status()))
	}
	text, err := c.marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := parseCandidates(text, arrowio.Spec{Features: []string{"*"}, Label: "l"})
	if err != nil || len(back) != 8 || back[0].messages != 9 || back[0].rows != 27 || back[0].unlabelled != 18 ||
		!back[0].since.Equal(time.Unix(5, 0)) || !back[0].newest.Equal(time.Unix(5, 0)) || back[0].first.Seq != 5 {
		t.Errorf("%+v, %v", back, err)
	}
	for _, other := range []arrowio.Spec{{Features: []string{"*"}}, {Features: []string{"*"}, Label: "l", Key: "k"},
		{Features: []string{"z"}, Label: "l"}} {
		if back, err := parseCandidates(text, other); err != nil || len(back) != 0 {
			t.Errorf("%+v accepts %+v, %v", other, back, err)
		}
	}
	var merged contractCounts
	one := back[0]
	later := one
	later.first, later.since, later.newest = window.Position{Seq: 2}, time.Unix(1, 0), time.Unix(99, 0)
	merged.merge(one)
	merged.merge(later)
	if k := merged.leader(); k.messages != 18 || k.rows != 54 || k.unlabelled != 36 || k.first.Seq != 2 ||
		!k.since.Equal(time.Unix(1, 0)) || !k.newest.Equal(time.Unix(99, 0)) {
		t.Errorf("%+v", k)
	}
}
