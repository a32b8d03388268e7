package trainer

import (
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestRowsArriveBackwards: rows with labels in separate messages are backwards if their median is before that of the
// window.
func TestRowsArriveBackwards(t *testing.T) {
	for _, c := range []struct {
		window int
		rows   []uint64
		want   bool
	}{
		{0, []uint64{1}, false}, {100, nil, false}, {100, []uint64{51}, false}, {100, []uint64{50}, true},
		{100, []uint64{1, 99}, false}, {100, []uint64{99, 1, 2}, true}, {100, []uint64{1, 60, 70}, false},
		{100, []uint64{90, 3, 80, 2, 1}, true}, {1, []uint64{1}, false},
	} {
		d := &dataset{window: windowOf(c.window, window.Config{}, "a", "b")}
		var rows []window.Row
		for _, seq := range c.rows {
			rows = append(rows, window.Row{Position: window.Position{Seq: seq}})
		}
		if got := d.isBackwards(rows); got != c.want {
			t.Errorf("rows %v of a window of %d: %v", c.rows, c.window, got)
		}
	}
}

// TestRowsOfTooManyClasses: rows of classes beyond the maximum are counted, and the first are logged.
func TestRowsOfTooManyClasses(t *testing.T) {
	l, log, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	for _, rows := range []int{0, 3, 2} {
		l.data.countOverClassLimit(rows)
	}
	want := `level=WARN msg="rows of new classes are not learned" rows=3 limit=10 fix="raise limits.classes, or check ` +
		`that the label column holds classes"` + "\n"
	if l.data.overClassLimit != 5 || log.String() != want {
		t.Errorf("%d rows, the log has %q", l.data.overClassLimit, log.String())
	}
}

// TestFixedLabels: a fix to a row that is not in the window is returned; the present label changes nothing; another
// label moves the reference; a replaced row leaves the window.
func TestFixedLabels(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	d := l.data
	row := *d.references.All()[0]
	other := map[string]string{"in": "out", "out": "in"}[row.Label]
	rows, references := d.window.Len(), d.references.Len()
	absent := Fix{At: window.Position{Seq: 99}, Label: "in"}
	if got := d.fix([]Fix{absent, {At: row.Position, Label: row.Label}}); !slices.Equal(got, []Fix{absent}) {
		t.Errorf("fixes that are left: %v", got)
	}
	if d.window.At(row.Position).Label != row.Label || d.references.Len() != references {
		t.Error("the label that a row has changes it")
	}
	d.fix([]Fix{{At: row.Position, Label: other}})
	if got := d.window.At(row.Position); got == nil || got.Label != other || d.references.Len() != references ||
		!slices.ContainsFunc(d.references.All(), func(r *window.Row) bool { return r.Position == row.Position }) {
		t.Errorf("after another label the row is %+v", got)
	}
	d.fix([]Fix{{At: row.Position, Replaced: true}})
	if d.window.At(row.Position) != nil || d.window.Len() != rows-1 || d.references.Len() != references-1 {
		t.Error("a replaced row is still there")
	}
	if got := (&dataset{}).fix([]Fix{absent}); !slices.Equal(got, []Fix{absent}) {
		t.Errorf("without a window: %v", got)
	}
}

// TestNewestRows: models are aligned by the newest rows that enter fits, oldest first.
func TestNewestRows(t *testing.T) {
	l, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	x, labels := l.data.newestRows(3)
	if len(x) != 6 || !slices.Equal(labels, []string{"out", "in", "out"}) {
		t.Errorf("%v, %v", x, labels)
	}
	if last := l.data.window.At(window.Position{Seq: 15, Row: 19}); !slices.Equal(x[4:], last.X) {
		t.Errorf("the last row is %v, want %v", x[4:], last.X)
	}
	if x, labels = l.data.newestRows(1000); len(labels) != 300 || len(x) != 600 {
		t.Errorf("%d rows", len(labels))
	}
	if x, labels = (&dataset{window: windowOf(0, window.Config{})}).newestRows(3); x != nil || labels != nil {
		t.Errorf("of no rows: %v, %v", x, labels)
	}
}

// TestOutlierIsDescribed: the newest outlier is described with its place, its feature and its limits.
func TestOutlierIsDescribed(t *testing.T) {
	l, log, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	if got := l.data.describeOutlier(); got != "" {
		t.Errorf("without outliers: %q", got)
	}
	e := &Event{}
	for row := range 2 {
		e.Rows = append(e.Rows, window.Row{Position: window.Position{Seq: 16, Row: row}, MessageRows: 2, Time: 16e9,
			Label: "in", Source: "in.a", X: []float64{1, []float64{1e6, -1e200}[row]}})
	}
	l.Learn(t.Context(), e)
	l.data.sift()
	got := l.data.describeOutlier()
	if want := "2 outliers were set aside, 0 are learned within limits; the newest is row 1 of message 16 of in.a: " +
		"feature y is -1e+200, and sums of squares of numbers beyond 1e+140 exceed float64"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	const begins = `level=WARN msg="outliers are set aside, or learned within limits" rows=2 newest="`
	if !strings.HasPrefix(log.String(), begins) ||
		!strings.HasSuffix(log.String(), `fix="find their publisher; if the values are right, send their logarithm"`+"\n") {
		t.Errorf("the log has %q", log.String())
	}
	var s spec.Status
	if l.data.countOutliers(&s); s.Outliers != 2 || s.LimitedRows != 0 || s.LastOutlier != got ||
		len(s.OutlierClasses) != 1 || s.OutlierClasses[0].Class != "in" || s.OutlierClasses[0].SetAside != 2 {
		t.Errorf("status %+v", s)
	}
}
