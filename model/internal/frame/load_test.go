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
