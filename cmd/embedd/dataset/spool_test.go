package dataset

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
)

// TestStreams: rows that are kept in a temporary file are those that are kept in memory.
func TestStreams(t *testing.T) {
	for _, gap := range []bool{false, true} { // rows with a missing value end up in memory
		path := rowsFile(t, 4000, gap)
		for _, nulls := range map[bool][]string{false: {"impute"}, true: {"impute", "skip"}}[gap] {
			s := Spec{Path: path, Label: "label", Nulls: nulls}
			held, heldNotes := read(t, s)
			s.CanSpool = true
			t.Setenv("TMPDIR", t.TempDir())
			r, notes := read(t, s)
			if (r.Stored == nil) != gap || notes != heldNotes {
				t.Fatalf("gap %t: stored %t, with the notes %s, in memory %s", gap, r.Stored != nil, notes, heldNotes)
			}
			x := r.X
			if r.Stored != nil {
				x = make([]float64, r.N*r.M)
				if err := r.Stored.ReadRows(x, 0); err != nil {
					t.Fatal(err)
				}
			}
			if r.N != held.N || r.M != held.M || !slices.Equal(r.Features, held.Features) || !slices.Equal(r.Y, held.Y) ||
				!slices.EqualFunc(x, held.X, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
				t.Errorf("gap %t, %s: %d rows of %d features differ from %d of %d", gap, nulls, r.N, r.M, held.N, held.M)
			}
			r.Close()
			if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
				t.Errorf("%s is left behind", left[0].Name())
			}
		}
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	s := Spec{Path: rowsFile(t, 4000, false), Label: "label", Nulls: "impute", CanSpool: true}
	if _, err := Read(t.Context(), &cli.Env{Stderr: &bytes.Buffer{}}, s); err == nil ||
		!strings.Contains(err.Error(), "set TMPDIR") {
		t.Errorf("no temporary folder: %v", err)
	}
}

// read returns what was written without the progress, which a slow machine shows.
func read(t *testing.T, s Spec) (r *Rows, notes string) {
	t.Helper()
	var out bytes.Buffer
	r, err := Read(t.Context(), &cli.Env{Stderr: &out}, s)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "reading ") {
			notes += line
		}
	}
	return r, notes
}

// rowsFile writes rows of an index, 600 numbers and a label.
func rowsFile(t *testing.T, n int, gap bool) (path string) {
	t.Helper()
	const m = 600
	path = filepath.Join(t.TempDir(), "rows.arrow")
	w, err := file.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "row", Type: arrow.PrimitiveTypes.Int32},
		{Name: "x", Type: arrow.FixedSizeListOf(m, arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String}}, nil)
	for from := 0; from < n; from += 1000 {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		x := b.Field(1).(*array.FixedSizeListBuilder)
		for i := from; i < from+1000; i++ {
			b.Field(0).(*array.Int32Builder).Append(int32(i))
			b.Field(2).(*array.StringBuilder).Append(fmt.Sprint(i % 7))
			x.Append(true)
			for j := range m {
				v := float32(i*j%997) / 3
				if gap && i == 3210 && j == 5 {
					v = float32(math.NaN())
				}
				x.ValueBuilder().(*array.Float32Builder).Append(v)
			}
		}
		rec := b.NewRecord()
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
		rec.Release()
		b.Release()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
