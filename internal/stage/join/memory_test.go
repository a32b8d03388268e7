package join

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// heap returns the size of live objects.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryBound sends keys that never match: the heap stays within the limit and agrees with the accounting, and all
// evictions are counted.
func TestMemoryBound(t *testing.T) {
	at := func(i int) time.Time { return time.Unix(int64(i/1000), 0) }
	for _, c := range []struct {
		name  string
		n     int
		feed  func(j *Join[[]float64], i int)
		share float64 // of the books that the heap must reach at least: they are no fiction
	}{
		{"rows", 100_000, func(j *Join[[]float64], i int) {
			j.AddRow(Row[[]float64]{Position: Position{Seq: uint64(i + 1)}, Time: at(i), Key: fmt.Sprint("row ", i),
				Payload: make([]float64, 48), Size: 48 * 8})
		}, 0.7},
		{"labels", 100_000, func(j *Join[[]float64], i int) {
			j.AddLabel(Label{Position: Position{Seq: uint64(i + 1)}, Time: at(i), Key: fmt.Sprint("label ", i),
				Text: fmt.Sprint(i)})
		}, 0.6},
		{"both", 100_000, func(j *Join[[]float64], i int) {
			j.AddRow(Row[[]float64]{Position: Position{Seq: uint64(i + 1)}, Time: at(i), Key: fmt.Sprint("row ", i),
				Payload: make([]float64, 4), Size: 32})
			j.AddLabel(Label{Position: Position{Seq: uint64(i + 1)}, Time: at(i), Key: fmt.Sprint("label ", i), Text: "x"})
		}, 0.6},
		{"given", 100_000, func(j *Join[[]float64], i int) {
			j.AddRow(Row[[]float64]{Position: Position{Seq: uint64(i + 1)}, Time: at(i), Key: fmt.Sprint("row ", i),
				Payload: make([]float64, 48), Size: 48 * 8})
			j.AddLabel(Label{Position: Position{Seq: uint64(i + 1)}, Time: at(i), Key: fmt.Sprint("row ", i), Text: "x"})
		}, 0.6},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := c.n
			limits := Limits{Wait: 24 * time.Hour, Bytes: 12 << 20}
			before := heap()
			j := New[[]float64](limits)
			begin := time.Now()
			for i := range n {
				c.feed(j, i)
				if j.Bytes() > limits.Bytes {
					t.Fatalf("event %d: %d bytes are held, and %d are allowed", i, j.Bytes(), limits.Bytes)
				}
			}
			each := time.Since(begin) / time.Duration(n)
			held := heap() - before
			t.Logf("%d bytes by the books, %d on the heap; %v an event; %s", j.Bytes(), held, each, counted(j.Counts()))
			if held > limits.Bytes {
				t.Errorf("%d bytes are on the heap, and %d are allowed", held, limits.Bytes)
			}
			if float64(held) < c.share*float64(j.Bytes()) {
				t.Errorf("%d bytes are on the heap, and the books say %d", held, j.Bytes())
			}
			rows, _ := j.Waiting()
			labels, _ := j.Early()
			k := j.Counts()
			if c.name != "labels" && c.name != "given" && int(k.Expired)+rows != n {
				t.Errorf("%d rows expired and %d wait, of %d", k.Expired, rows, n)
			}
			if c.name != "rows" && int(k.Late+k.Joined)+labels != n {
				t.Errorf("%d labels were late, %d joined and %d wait, of %d", k.Late, k.Joined, labels, n)
			}
			runtime.KeepAlive(j)
		})
	}
}

// TestOneKey: a key shared by all rows costs no more than another.
func TestOneKey(t *testing.T) {
	j := New[int](Limits{Wait: time.Minute, Bytes: 64 << 20})
	begin := time.Now()
	for i := range 50_000 { // labels far ahead of the rows
		j.AddLabel(Label{Position: Position{Seq: uint64(i + 1)}, Time: time.Unix(int64(i)*3600, 0), Key: "a", Text: "x"})
	}
	for i := range 50_000 {
		j.AddRow(Row[int]{Position: Position{Seq: uint64(i + 1)}, Time: time.Unix(int64(i)*100, 0), Key: "a"})
	}
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("100,000 events of one key took %v", d)
	}
	if len(j.keys) != 1 || j.Bytes() > 1<<20 {
		t.Errorf("%d keys and %d bytes are held of one key", len(j.keys), j.Bytes())
	}
}
