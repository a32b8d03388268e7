package arrowio

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio/internal/ipc"
)

// Columns that are checked and found as a run give what they give one by one: rows or an error, whatever their order,
// their nulls and the numbers in the metadata of a batch.
func TestRunsAreAsColumns(t *testing.T) {
	compareRuns(t, false)
	compareRuns(t, true)
}

// compareRuns compares messages of one null; with allNull of bitmaps at equal distances, and a null in some of them.
func compareRuns(t *testing.T, allNull bool) {
	const columns, count = 12, 17 // rows whose bitmap takes three bytes
	var all []any
	names := make([]string, columns)
	for j := range columns {
		names[j] = "x" + strconv.Itoa(j)
		rows := fmt.Sprintf("[%d, %d%s]", j, 100+j, strings.Repeat(", 7", count-2))
		if j == 11 || allNull {
			rows = strings.Replace(rows, ", 7", ", null", 1)
		}
		all = append(all, names[j], from(t, arrow.PrimitiveTypes.Float32, rows))
	}
	all = append(all, "id", from(t, arrow.PrimitiveTypes.Int32, "[1"+strings.Repeat(", 2", count-1)+"]"))
	for k := 12; k < 20; k++ {
		all = append(all, "p"+strconv.Itoa(k), from(t, arrow.PrimitiveTypes.Int64, "[1"+strings.Repeat(", 2", count-1)+"]"))
	}
	msg := message(t, all...)
	first, rest, _ := ipc.NextFrame(msg, true)
	batch := len(msg) - len(rest)
	end := batch + 8 + int(le.Uint32(msg[batch+4:]))
	if first.Kind != ipc.HeadSchema || end > len(msg) {
		t.Fatal("the message is not a schema and a batch")
	}
	for at, zeroed := batch+8, 0; allNull && at+16 <= end && zeroed < 9; at += 8 {
		if le.Uint64(msg[at:]) == count && le.Uint64(msg[at+8:]) == 1 { // the node of a column
			le.PutUint64(msg[at+8:], 0) // readers ignore the bitmap then
			zeroed++
		}
	}
	reversed := slices.Clone(names)
	slices.Reverse(reversed)
	for _, order := range [][]string{{"x*"}, names, reversed, {"x3", "x4", "x5", "x0", "x1", "x2", "x11"}} {
		spec := Spec{Features: order}
		byRun, one := newDecoder(t, spec), newDecoder(t, spec)
		if m := decode(t, byRun, msg); len(m.plan.schema.Layout.Runs) != 2 {
			t.Fatalf("%d runs, not 2", len(m.plan.schema.Layout.Runs))
		}
		decode(t, one, msg).plan.schema.Layout.Runs = nil // of the cached plan
		different := 0
		for at := batch + 8; at+8 <= end; at += 8 {
			was := le.Uint64(msg[at:])
			for _, v := range []uint64{was, 0, 2, was + 1, was + 4, was + 8, was + 64, was - 1, was - 64, 1 << 40, ^uint64(0)} {
				le.PutUint64(msg[at:], v)
				a, errA := byRun.Decode(msg, nil)
				b, errB := one.Decode(msg, nil)
				if fmt.Sprint(errA) != fmt.Sprint(errB) {
					t.Fatalf("features %v, word %d = %d: error %v by runs, %v by columns", order, at, v, errA, errB)
				}
				if errA != nil {
					different++
					continue
				}
				if x, y := matrix(a.Batches()[0]), matrix(b.Batches()[0]); !slices.Equal(x, y) {
					t.Fatalf("features %v, word %d = %d: %v by runs, %v by columns", order, at, v, x, y)
				}
				a.Release()
				b.Release()
			}
			le.PutUint64(msg[at:], was)
		}
		if different == 0 {
			t.Error("no change was an error")
		}
	}
}
