package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

// keyedMessage returns a message of rows with keys; a key "" is null. With withhold it has no labels.
func keyedMessage(t testing.TB, rows []row, keys []string, withhold bool) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(testFeatures, arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "id", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	list := b.Field(0).(*array.FixedSizeListBuilder)
	for i, r := range rows {
		list.Append(true)
		list.ValueBuilder().(*array.Float32Builder).AppendValues(r.x, nil)
		text(b.Field(1), r.class, !withhold && r.class != "")
		text(b.Field(2), keys[i], keys[i] != "")
	}
	return encodeRecord(t, b)
}

func text(b array.Builder, s string, has bool) {
	if has {
		b.(*array.StringBuilder).Append(s)
	} else {
		b.AppendNull()
	}
}

func encodeRecord(t testing.TB, b *array.RecordBuilder) []byte {
	t.Helper()
	rec := b.NewRecord()
	defer rec.Release()
	body, err := arrowio.FromRecords(rec.Schema(), rec)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// labelMessage is a message of labels; a key or a label "" is null.
func labelMessage(t testing.TB, keys, labels []string) []byte {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true}}, nil))
	defer b.Release()
	for i, k := range keys {
		text(b.Field(0), k, k != "")
		text(b.Field(1), labels[i], labels[i] != "")
	}
	return encodeRecord(t, b)
}

func newJoiningStage(t testing.TB, l spec.Labels) *Stage {
	t.Helper()
	return newStage(t, func(c *spec.Config) {
		c.Spec.Key, c.Labels, c.Contract = "id", &l, testContract(t)
	})
}

func learnKeyed(t testing.TB, s *Stage, seq uint64, rows []row, keys []string) {
	t.Helper()
	m, err := s.Decode(keyedMessage(t, rows, keys, true))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Learn(m, spec.Position{Seq: seq, Time: time.Unix(int64(seq), 0)}); err != nil {
		t.Fatal(err)
	}
}

func learnLabels(t testing.TB, s *Stage, seq uint64, at int, msg []byte) {
	t.Helper()
	m, err := s.DecodeLabels(msg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.LearnLabels(m, spec.Position{Seq: seq, Time: time.Unix(int64(at), 0)}); err != nil {
		t.Fatal(err)
	}
}

// TestLearnLabels learns a model from rows without labels and labels that arrive later.
func TestLearnLabels(t *testing.T) {
	s := newJoiningStage(t, spec.Labels{})
	rows := clouds(rand.New(rand.NewPCG(1, 1)), 200, 3)
	var keys, labels []string
	for i, r := range rows {
		keys, labels = append(keys, fmt.Sprint(i)), append(labels, r.class)
	}
	for i := 0; i < 200; i += 20 {
		learnKeyed(t, s, uint64(1+i/20), rows[i:i+20], keys[i:i+20])
	}
	if st := s.LabelStatus(); st.RowsWaiting != 200 || st.Joined != 0 || st.Note != "" {
		t.Errorf("before any label: %+v", st)
	}
	learnLabels(t, s, 1, 11, labelMessage(t, keys[:150], labels[:150]))
	waitIdle(t, s)
	if s.Live() == nil {
		t.Fatal("no model from 150 rows that got their labels")
	}
	learnLabels(t, s, 2, 12, labelMessage(t, append(keys[150:], "", "x"), append(labels[150:], "c0", "")))
	waitIdle(t, s)
	st := s.LabelStatus()
	if st.Joined != 200 || st.RowsWaiting != 0 || st.Skipped != 2 || st.Bytes == 0 || st.Note != "" {
		t.Errorf("after all labels: %+v", st)
	}
	if n := s.Status().Rows; n != 200 {
		t.Errorf("the window has %d rows, want 200", n)
	}
}

// TestSameWindow: a stage whose labels are late, out of order, duplicated, early, corrected and for rows of a key that
// is sent again has the same window as one whose rows have their labels, row for row and digest for digest.
func TestSameWindow(t *testing.T) {
	const n = 3000
	rng := rand.New(rand.NewPCG(5, 6))
	rows := clouds(rng, n, 4)
	keys, unlabelled := make([]string, n), make([]bool, n)
	type sent struct {
		at         int // in messages of rows
		key, label string
	}
	var labels []sent
	for i := range rows {
		keys[i] = fmt.Sprint("row", i)
		at := i/20 + rng.IntN(100)
		switch p := rng.Float64(); {
		case p < 0.01:
			unlabelled[i] = true
			continue
		case p < 0.03:
			at = i/20 - 1
		case p < 0.04:
			labels = append(labels, sent{at + 5, keys[i], rows[i].class})
		case p < 0.06:
			labels = append(labels, sent{at, keys[i], rows[(i+1)%n].class})
			at += 3
		case p < 0.08 && i >= 20: // the row is sent again, with other features
			keys[i] = keys[i-20]
			unlabelled[i-20] = true
			rows[i].class = rows[i-20].class
		}
		labels = append(labels, sent{at, keys[i], rows[i].class})
	}
	plain := newStage(t, func(c *spec.Config) { c.Spec.Key, c.Training.IgnoreDrift = "id", true })
	late := newStage(t, func(c *spec.Config) {
		c.Spec.Key, c.Training.IgnoreDrift, c.Labels = "id", true, &spec.Labels{}
	})
	for _, s := range []*Stage{plain, late} {
		next := uint64(1)
		for seq := -1; seq < n/20+110; seq++ {
			if i := 20 * seq; i >= 0 && i < n {
				part := append([]row(nil), rows[i:i+20]...)
				for k := range part {
					if unlabelled[i+k] {
						part[k].class = ""
					}
				}
				m, err := s.Decode(keyedMessage(t, part, keys[i:i+20], s == late))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Learn(m, spec.Position{Seq: uint64(1 + seq), Time: time.Unix(int64(10+seq), 0)}); err != nil {
					t.Fatal(err)
				}
			}
			var k, l []string
			for _, one := range labels {
				if one.at == seq {
					k, l = append(k, one.key), append(l, one.label)
				}
			}
			if s == late && len(k) > 0 {
				learnLabels(t, s, next, 10+seq, labelMessage(t, k, l))
				next++
			}
			waitIdle(t, s)
		}
	}
	window := func(s *Stage) (out []string) {
		inspect(s).Window.All(func(r *window.Row) bool {
			out = append(out, fmt.Sprint(r.Position, r.Time, r.Label, r.IsHeldOut(), r.X))
			return true
		})
		return out
	}
	digest := func(s *Stage) string {
		m, err := inspect(s).Fit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m.Digest()
	}
	a, b := window(plain), window(late)
	if len(a) < 900 || !slices.Equal(a, b) {
		t.Errorf("the windows have %d and %d rows and are not the same", len(a), len(b))
	}
	if x, y := digest(plain), digest(late); x != y {
		t.Errorf("fitted from all of the window the models have digests %.16s and %.16s", x, y)
	}
	c := late.LabelStatus()
	if c.Corrected == 0 || c.Duplicate == 0 || c.Repeated == 0 || c.Late > 0 || c.Expired > 0 {
		t.Errorf("%+v: want some corrected, duplicate and repeated, and none late or expired", c)
	}
	t.Logf("%d rows in the window; %+v", len(a), c)
}

// TestLateReproducible: with late labels too, decisions are the same, also after a restart at any point that reads rows
// and labels again in the order of their times; and no model is scored on a row that it has learned.
func TestLateReproducible(t *testing.T) {
	const n = 4000
	rng := rand.New(rand.NewPCG(11, 12))
	rows := clouds(rng, n, 3)
	keys := make([]string, n)
	type sent struct{ key, label string }
	labels := make([][]sent, n/20+60) // by the message of rows that they follow
	for i := range rows {
		for j := range rows[i].x {
			rows[i].x[j] /= 2
		}
		if i > 2000 { // the place of the classes changes
			slices.Reverse(rows[i].x)
		}
		rows[i].x[i%testFeatures] += float32(i % 7)
		keys[i] = fmt.Sprint("row", i)
		at := i/20 + rng.IntN(50)
		switch p := rng.Float64(); {
		case p < 0.01:
			continue
		case p < 0.03:
			at = max(0, i/20-3)
		case p < 0.05:
			labels[at] = append(labels[at], sent{keys[i], rows[(i+1)%n].class})
			at += 5
		}
		labels[at] = append(labels[at], sent{keys[i], rows[i].class})
	}
	change := func(c *spec.Config) {
		c.Spec.Key, c.Labels = "id", &spec.Labels{Wait: 200 * time.Second} // of one second a message
		c.Training.Window = spec.Window{Rows: 600}
		c.Training.Every.Rows = 500
	}
	// feed sends the labels of a period, and the rows from message first on.
	feed := func(w *recordedStage, first uint64, from, until int) {
		for i := from; i < until; i++ {
			at := spec.Position{Seq: uint64(1 + i), Time: time.Unix(int64(1+i), 0)}
			if i+1 >= int(first) && 20*i < n {
				m, err := w.Decode(keyedMessage(t, rows[20*i:20*i+20], keys[20*i:20*i+20], true))
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Learn(m, at); err != nil {
					t.Fatal(err)
				}
				waitIdle(t, w.Stage)
			}
			var k, l []string
			for _, one := range labels[i] {
				k, l = append(k, one.key), append(l, one.label)
			}
			learnLabels(t, w.Stage, at.Seq, i+1, labelMessage(t, k, l))
			waitIdle(t, w.Stage)
		}
	}
	whole := newRecordedStage(t, change)
	stops := []int{40, 66, 97, 120, 151, 200, 230}
	var states []stored // at each of the stops
	learned := 0
	for _, stop := range append(slices.Clone(stops), len(labels)) {
		feed(whole, 1, learned, stop)
		states, learned = append(states, whole.stored()), stop
	}
	if len(whole.decisions) < 2 || whole.LabelStatus().Corrected == 0 {
		t.Fatalf("decisions %v, %+v", whole.decisions, whole.LabelStatus())
	}
	for i, stop := range stops {
		first := states[i]
		_, seq := ReadFrom(first.live.State)
		second := newRecordedStage(t, func(c *spec.Config) { change(c); c.Resume = first.live })
		second.decisions = first.decisions
		feed(second, seq, max(0, int(seq)-1-200), len(labels)) // labels from as long before as they may wait
		x, y := whole.Status(), second.Status()
		if x.Rows != y.Rows || x.Accuracy != y.Accuracy || x.Evidence != y.Evidence {
			t.Errorf("stopped after %d, read again from %d: %d rows, accuracy %v, evidence %v after a restart; %d, %v and %v "+
				"without",
				stop, seq, y.Rows, y.Accuracy, y.Evidence, x.Rows, x.Accuracy, x.Evidence)
		}
		if x, y := strings.Join(whole.decisions, "\n"), strings.Join(second.decisions, "\n"); x != y {
			t.Errorf("stopped after %d, read again from %d: without\n%s\nwith\n%s", stop, seq, x, y)
		}
	}
}

// TestCorrectionsAreBacklog: corrections wait in the queue as rows do, so that readers of labels wait for a long fit
// and none is dropped.
func TestCorrectionsAreBacklog(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}, 1), make(chan struct{})
	s := newStage(t, func(c *spec.Config) {
		c.Spec.Key, c.Labels, c.Contract = "id", &spec.Labels{}, testContract(t)
		c.Store = func(context.Context, *spec.Release) (string, error) {
			select {
			case begun <- struct{}{}:
			default:
			}
			<-end
			return "v1", nil
		}
	})
	defer close(end)
	rows := clouds(rand.New(rand.NewPCG(1, 1)), 200, 3)
	var keys, labels, others []string
	for i, r := range rows {
		keys, labels = append(keys, fmt.Sprint(i)), append(labels, r.class)
		others = append(others, rows[(i+1)%len(rows)].class)
	}
	learnKeyed(t, s, 1, rows, keys)
	learnLabels(t, s, 1, 2, labelMessage(t, keys, labels))
	<-begun
	learnLabels(t, s, 2, 3, labelMessage(t, keys[:50], others[:50]))
	if n := s.Backlog(); n != 50 {
		t.Errorf("%d of 50 corrections are in the backlog", n)
	}
}

// TestManyLabelsReproducible: a checkpoint may be taken among the rows of a message of labels, whatever their order. A
// restart learns those that were left then.
func TestManyLabelsReproducible(t *testing.T) {
	const n, each = 3000, 200 // rows, and labels of a message
	rows := clouds(rand.New(rand.NewPCG(11, 12)), n, 3)
	for i := range rows {
		for j := range rows[i].x {
			rows[i].x[j] /= 2
		}
		if i > 1500 {
			slices.Reverse(rows[i].x)
		}
		rows[i].x[i%testFeatures] += float32(i % 7)
	}
	change := func(c *spec.Config) {
		c.Spec.Key, c.Labels = "id", &spec.Labels{Wait: time.Hour}
		c.Training.Window, c.Training.IgnoreDrift = spec.Window{Rows: 600}, true
		c.Training.Every.Rows = 500
	}
	// feed sends rows, those from message first on, and after each 200 their labels, that of the newest row first.
	feed := func(w *recordedStage, first uint64, from, until int) {
		for i := from; i < until; i += each {
			var keys, labels []string
			for k := i; k < i+each; k++ {
				keys, labels = append(keys, fmt.Sprint("row", k)), append(labels, rows[k].class)
			}
			for k := 0; k < each; k += 20 {
				seq := uint64(1 + (i+k)/20)
				if seq < first {
					continue
				}
				m, err := w.Decode(keyedMessage(t, rows[i+k:i+k+20], keys[k:k+20], true))
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Learn(m, spec.Position{Seq: seq, Time: time.Unix(int64(seq), 0)}); err != nil {
					t.Fatal(err)
				}
				waitIdle(t, w.Stage)
			}
			slices.Reverse(keys)
			slices.Reverse(labels)
			learnLabels(t, w.Stage, uint64(1+i/each), 1+(i+each)/20, labelMessage(t, keys, labels))
			waitIdle(t, w.Stage)
		}
	}
	whole := newRecordedStage(t, change)
	stops := []int{400, 1000, 2400}
	var states []stored // at each of the stops
	learned := 0
	for _, stop := range append(slices.Clone(stops), n) {
		feed(whole, 1, learned, stop)
		states, learned = append(states, whole.stored()), stop
	}
	for i, stop := range stops {
		_, seq := ReadFrom(states[i].live.State)
		seq = max(seq, 1)
		again := newRecordedStage(t, func(c *spec.Config) { change(c); c.Resume = states[i].live })
		again.decisions = states[i].decisions
		feed(again, seq, int(seq-1)*20/each*each, n)
		x, y := whole.Status(), again.Status()
		if x.Rows != y.Rows || x.Accuracy != y.Accuracy || x.Evidence != y.Evidence {
			t.Errorf("stopped after %d, read again from %d: %d rows, accuracy %v, evidence %v after a restart; %d, %v and %v "+
				"without", stop, seq, y.Rows, y.Accuracy, y.Evidence, x.Rows, x.Accuracy, x.Evidence)
		}
		if x, y := strings.Join(whole.decisions, "\n"), strings.Join(again.decisions, "\n"); x != y || x == "" {
			t.Errorf("stopped after %d, read again from %d: without\n%s\nwith\n%s", stop, seq, x, y)
		}
	}
}

// TestLabelNotes: the notes about labels and rows that do not match have the cause and the fix.
func TestLabelNotes(t *testing.T) {
	rows := clouds(rand.New(rand.NewPCG(1, 1)), 100, 3)
	names := func(prefix string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint(prefix, i))
		}
		return out
	}
	same := func(s string, n int) []string { return strings.Split(strings.Repeat(s+" ", n)[:n*(len(s)+1)-1], " ") }
	for _, c := range []struct {
		name string
		do   func(s *Stage)
		want string
	}{
		{"no keys", func(s *Stage) { learnKeyed(t, s, 1, rows, make([]string, 100)) },
			`none of 100 rows has a key, so no label can find them: send column "id" with the rows, ` +
				`or set schema.key to the key column that is sent`},
		{"keys repeat", func(s *Stage) { learnKeyed(t, s, 1, rows, same("a", 100)) },
			`keys repeat: 99 of 100 rows have the key of an earlier row and replace it; ` +
				`send a different value in column "id" for each row`},
		{"other keys", func(s *Stage) {
			learnKeyed(t, s, 1, rows, names("row", 100))
			learnLabels(t, s, 1, 1, labelMessage(t, names("label", 50), same("c0", 50)))
			s.LabelsReached(time.Unix(20, 0))
		}, `50 labels arrived and none has the key of a row: rows and labels must have the same text in column "id"`},
		{"too late", func(s *Stage) {
			learnKeyed(t, s, 1, rows, names("row", 100))
			learnLabels(t, s, 1, 2, labelMessage(t, names("row", 5), same("c0", 5)))
			learnLabels(t, s, 2, 20, labelMessage(t, names("row", 100)[5:], same("c0", 95)))
		}, `95 labels found no row and 95 rows have no label: they wait at most 10s for each other within 1 MiB, ` +
			`raise limits.label_wait or limits.labels, or send labels sooner`},
		{"another kind", func(s *Stage) {
			learnKeyed(t, s, 1, rows, names("row", 100))
			learnLabels(t, s, 1, 2, labelMessage(t, names("row", 50), same("1", 50)))
			b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
				{Name: "id", Type: arrow.BinaryTypes.String},
				{Name: "label", Type: arrow.FixedWidthTypes.Boolean}}, nil))
			defer b.Release()
			text(b.Field(0), "row50", true)
			b.Field(1).(*array.BooleanBuilder).Append(true)
			learnLabels(t, s, 2, 3, encodeRecord(t, b))
		}, `labels were text and are booleans since label message 2: the text of a label names its class, ` +
			`so 3 and "3" are one class, and true and 1 are two; send one kind`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newJoiningStage(t, spec.Labels{Wait: 10 * time.Second, Bytes: 1 << 20})
			c.do(s)
			if got := s.LabelStatus().Note; got != c.want {
				t.Errorf("the note is\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestBadLabels: an invalid message of labels is rejected with a code and a fix, and a stage without late labels
// reports it.
func TestBadLabels(t *testing.T) {
	s := newJoiningStage(t, spec.Labels{})
	other := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.BinaryTypes.String}, {Name: "label", Type: arrow.PrimitiveTypes.Float64}}, nil))
	defer other.Release()
	text(other.Field(0), "a", true)
	other.Field(1).(*array.Float64Builder).Append(1)
	for _, c := range []struct {
		name string
		msg  []byte
		code wire.Code
		fix  string
	}{
		{"not arrow", []byte("x"), wire.NotArrow, "publish one Arrow IPC stream a message"},
		{"no key", encodeRows(t, clouds(rand.New(rand.NewPCG(1, 1)), 2, 2)), wire.MissingColumn, "schema.key"},
		{"a float for a label", encodeRecord(t, other), wire.LabelType, "use a string"},
	} {
		_, err := s.DecodeLabels(c.msg)
		var e *arrowio.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(err.Error(), c.fix) || e.Row != -1 {
			t.Errorf("%s: %v, row %d, want code %s and %q", c.name, err, e.Row, c.code, c.fix)
		}
	}
	m, err := s.DecodeLabels(labelMessage(t, []string{"a"}, []string{"c0"}))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := s.LearnLabels(m, spec.Position{}); !errors.Is(err, spec.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	plain := newStage(t, nil)
	if err := plain.LearnLabels(m, spec.Position{}); err == nil || !strings.Contains(err.Error(), "Config.Labels") {
		t.Errorf("without Labels: %v", err)
	}
	if _, err := plain.DecodeLabels(labelMessage(t, []string{"a"}, []string{"c0"})); !errors.Is(err, errNoLabels) {
		t.Errorf("without spec.Labels a message of labels: %v", err)
	}
	if _, err := New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Labels: &spec.Labels{}}); err == nil ||
		!strings.Contains(err.Error(), "key column") {
		t.Errorf("without a key: %v", err)
	}
}

// TestLabelFlood checks the memory limit of a stage with keys that never match.
func TestLabelFlood(t *testing.T) {
	s := newJoiningStage(t, spec.Labels{Bytes: 1 << 20})
	rows := clouds(rand.New(rand.NewPCG(1, 1)), 100, 3)
	for i := range uint64(100) {
		var keys, others, labels []string
		for k := range rows {
			keys = append(keys, fmt.Sprint("row ", i, " ", k))
			others, labels = append(others, fmt.Sprint("label ", i, " ", k)), append(labels, "c0")
		}
		learnKeyed(t, s, i+1, rows, keys)
		learnLabels(t, s, i+1, int(i+1), labelMessage(t, others, labels))
		if n := s.LabelStatus().Bytes; n > 1<<20 {
			t.Fatalf("%d bytes are held, and %d are allowed", n, 1<<20)
		}
	}
	st := s.LabelStatus()
	if int(st.Expired)+st.RowsWaiting != 10_000 || int(st.Late)+st.LabelsWaiting != 10_000 || st.Late+st.Expired == 0 {
		t.Errorf("10,000 rows and as many labels: %+v", st)
	}
}

// TestTimestampsAreReported: wrong timestamps are logged when their correction changes, at most once a minute.
func TestTimestampsAreReported(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := &learner{config: &spec.Config{Clock: func() time.Time { return now }},
		mu: logMutex{log: slog.New(slog.NewTextHandler(&log, nil))}}
	e := eventTime{kind: "messages"}
	for i, c := range []struct {
		stamp, later time.Duration // of the message, from now; until it comes
		lines        int           // that are logged so far
		at           time.Duration // its event time, from the beginning
	}{
		{0, 0, 0, 0}, {time.Hour, time.Second, 1, 0}, {time.Second, time.Second, 1, 3 * time.Second},
		{time.Hour, time.Second, 1, 3 * time.Second}, {0, time.Minute, 1, 63 * time.Second},
		{time.Hour, time.Second, 2, 63 * time.Second},
	} {
		now = now.Add(c.later)
		l.mu.Lock()
		got := e.of(l, spec.Position{Seq: uint64(i + 1), Time: now.Add(c.stamp)})
		l.mu.Unlock()
		if lines := strings.Count(log.String(), "ahead of this machine's clock"); lines != c.lines {
			t.Errorf("message %d: %d lines, want %d: %s", i, lines, c.lines, log.String())
		}
		if from := got.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); from != c.at {
			t.Errorf("message %d has event time %v, want %v", i, from, c.at)
		}
	}
}

// TestLateLabelsOfASlowClock: rows and labels are joined by the server's times of their messages, also where this
// machine's clock is behind them, and where it is set right later.
func TestLateLabelsOfASlowClock(t *testing.T) {
	server := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const wait = 10 * time.Minute
	for _, c := range []struct {
		name        string
		behind      time.Duration // the clock
		labelsFirst bool          // a label of an earlier row that is gone is read first
		isSetRight  bool          // after the first row
	}{
		{name: "right"}, {name: "behind", behind: time.Hour}, {name: "set right", behind: time.Hour, isSetRight: true},
		{name: "right, older labels", labelsFirst: true},
		{name: "behind, older labels", behind: 1000 * time.Hour, labelsFirst: true},
	} {
		behind, now := c.behind, server
		s := newStage(t, func(x *spec.Config) {
			x.Spec.Key, x.Labels, x.Contract = "id", &spec.Labels{Wait: wait}, testContract(t)
			x.Clock = func() time.Time { return now.Add(-behind) }
		})
		row := func(seq uint64, after time.Duration) {
			m, err := s.Decode(keyedMessage(t, clouds(rand.New(rand.NewPCG(1, seq)), 1, 3), []string{fmt.Sprint(seq)}, true))
			if err == nil {
				err = s.Learn(m, spec.Position{Seq: seq, Time: server.Add(after)})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		label := func(seq uint64, key string, after time.Duration) {
			m, err := s.DecodeLabels(labelMessage(t, []string{key}, []string{"c0"}))
			if err == nil {
				err = s.LearnLabels(m, spec.Position{Seq: seq, Time: server.Add(after)})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if c.labelsFirst {
			label(1, "none", -time.Hour)
		}
		row(1, 0)
		if c.isSetRight {
			behind = 0
		}
		label(2, "1", 0)
		for i := range 5 {
			at := time.Duration(i) * time.Minute
			now = server.Add(at)
			row(uint64(2+i), at)
			s.LabelsReached(now)
		}
		for i := range 5 {
			at := time.Duration(5+i) * time.Minute
			now = server.Add(at)
			label(uint64(3+i), fmt.Sprint(2+i), at)
		}
		waitIdle(t, s)
		if st := s.LabelStatus(); st.Joined != 6 || st.Expired != 0 {
			t.Errorf("%s: %+v; want 6 joined, none expired", c.name, st)
		}
		if age := now.Add(-behind).Sub(s.Status().Newest); behind == 0 && (age < 0 || age > wait) {
			t.Errorf("%s: the newest row of 5 minutes ago is %v old", c.name, age)
		}
	}
}
