package frame

import (
	"context"
	"errors"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/linalg"
)

// endless is stored rows that end a context once blocks of them are read.
type endless struct {
	end  context.CancelFunc
	read int
}

func (e *endless) ReadRows(dst []float64, from int) error {
	for i := range dst {
		dst[i] = float64(from + i)
	}
	if e.read = max(e.read, len(dst)); len(dst) > 1 {
		e.end()
	}
	return nil
}

// TestLoadReadsInBlocks: of stored rows of one feature, 8,192 are in memory at once, and the context ends a load.
func TestLoadReadsInBlocks(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	rows := &endless{end: end}
	const n = 30000
	p := &Rows{N: n, M: 1, Data: &model.Data{N: n, M: 1, Stored: rows}, Index: linalg.Range(n)}
	task := &Task{Method: &Method{Name: "stored", Streaming: "moments"}, Report: &model.Report{}}
	if err := task.Load(ctx, p); !errors.Is(err, context.Canceled) || rows.read != 8192 {
		t.Errorf("%v after blocks of %d rows", err, rows.read)
	}
}

// TestWideRows: a method that needs only moments is fitted in a basis of the rows if they are much fewer than the
// features, and, since its matrices are singular, if there is no ridge.
func TestWideRows(t *testing.T) {
	for _, c := range []struct {
		rows  int
		ridge string
		wide  bool
	}{{4, "0.1", true}, {4, "0", true}, {8, "0.1", false}, {8, "0", true}, {12, "0", false}} {
		data := &model.Data{N: c.rows, M: 10, X: make([]float64, 10*c.rows)}
		for i := range data.X {
			data.X[i] = float64(i * i % 17)
		}
		p := &Rows{N: c.rows, M: 10, Data: data, X: data.X, Index: linalg.Range(c.rows)}
		task := &Task{Method: &Method{Streaming: "moments"}, Report: &model.Report{},
			Params: map[string]string{"ridge": c.ridge}}
		if err := task.Load(t.Context(), p); err != nil || task.M < 10 != c.wide {
			t.Errorf("%+v: %v, %d coordinates", c, err, task.M)
		}
	}
}
