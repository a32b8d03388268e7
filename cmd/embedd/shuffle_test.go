package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// sortedRows returns a file that is sorted by its label, of three classes.
func sortedRows(n int) string {
	var b strings.Builder
	b.WriteString("id,x,y,label\n")
	for i := range n {
		c := 3 * i / n
		fmt.Fprintf(&b, "r%d,%d.%04d,%d.%04d,%c\n", i, 10*(c%2), i*7919%9973, 10*(c/2), i*3571%9967, 'a'+c)
	}
	return b.String()
}

// TestPublishShuffled: --shuffle publishes each row once, with its own values, in an order that the seed decides. A
// file that is sorted by its label has a hint, and a shuffled one has none.
func TestPublishShuffled(t *testing.T) {
	t.Parallel()
	s := serveNATS(t, server.Options{})
	data := writeFile(t, t.TempDir(), "rows.csv", sortedRows(5000))
	nc := sure(nats.Connect(s.ClientURL(), nats.Timeout(ample)))
	t.Cleanup(nc.Close)
	got := make(chan *nats.Msg, 1000)
	sure(nc.ChanSubscribe("features.>", got))
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	publish := func(flags ...string) (rows []string, notes string) {
		t.Helper()
		code, _, notes := call(t.Context(), append([]string{"publish", "--data", data, "--label", "label", "--subject",
			"features.a", "--server", s.ClientURL()}, flags...)...)
		if code != 0 {
			t.Fatal(notes)
		}
		for len(rows) < 5000 {
			var m *nats.Msg
			select {
			case m = <-got:
			case <-time.After(ample):
				t.Fatalf("%d rows of 5000 have come", len(rows))
			}
			r := sure(ipc.NewReader(bytes.NewReader(m.Data)))
			for r.Next() {
				for i := range int(r.Record().NumRows()) {
					var values []string
					for _, c := range r.Record().Columns() {
						values = append(values, c.ValueStr(i))
					}
					rows = append(rows, strings.Join(values, ","))
				}
			}
			r.Release()
		}
		return rows, notes
	}
	const hint = `rows are sorted by "label"`
	plain, notes := publish()
	if !strings.Contains(notes, hint) || !strings.Contains(notes, "--shuffle") {
		t.Errorf("no hint for a sorted file: %s", notes)
	}
	first, notes := publish("--shuffle")
	if strings.Contains(notes, hint) {
		t.Errorf("a hint for a shuffled file: %s", notes)
	}
	if again, _ := publish("--shuffle", "--seed", "1"); !slices.Equal(again, first) {
		t.Error("the same seed gives another order")
	}
	if other, _ := publish("--shuffle", "--seed", "2"); slices.Equal(other, first) {
		t.Error("another seed gives the same order")
	}
	if runs := countRuns(first); runs < 3000 {
		t.Errorf("%d runs of labels in 5000 shuffled rows of three classes", runs)
	}
	slices.Sort(first)
	slices.Sort(plain)
	if !slices.Equal(first, plain) {
		t.Error("the shuffled rows are not those of the file")
	}
	if code, _, errs := call(t.Context(), "publish", "--data", data, "--subject", "a", "--seed", "2"); code != 2 ||
		!strings.Contains(errs, "--shuffle") {
		t.Errorf("--seed without --shuffle: exit %d, %s", code, errs)
	}
}

// countRuns counts the runs of rows with the same label, their last column.
func countRuns(rows []string) (runs int) {
	last := ""
	for _, r := range rows {
		if label := r[strings.LastIndex(r, ","):]; label != last {
			runs, last = runs+1, label
		}
	}
	return runs
}

// TestSortedFileHint: fit and eval say that a file is sorted, and nothing of one that is not.
func TestSortedFileHint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		rows string
		want bool
	}{"sorted": {sortedRows(300), true}, "mixed": {labelledRows(300), false}, "small": {sortedRows(30), false}} {
		data := writeFile(t, dir, name+".csv", c.rows)
		code, _, notes := call(t.Context(), "fit", "--data", data, "--label", "label", "--method", "lda", "-o", dir+"/"+name)
		if code != 0 || strings.Contains(notes, "rows are sorted by") != c.want {
			t.Errorf("%s: exit %d, %s", name, code, notes)
		}
	}
}

// TestNoteOfClassesThatLookAlike: one line, however many there are.
func TestNoteOfClassesThatLookAlike(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	rows.WriteString("x,y,label\n")
	for i := range 80 {
		fmt.Fprintf(&rows, "%d,%d,%c%d\n", i, i*i%7, "aA"[i%2], i/2%20)
	}
	data := writeFile(t, t.TempDir(), "rows.csv", rows.String())
	code, _, notes := call(t.Context(), "fit", "--data", data, "--label", "label", "--method", "lda", "-o", data+".embedd")
	if code != 0 || strings.Count(notes, "are two classes") != 1 || !strings.Contains(notes, "19 other pairs") {
		t.Errorf("%d %s", code, notes)
	}
}
