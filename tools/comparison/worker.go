//go:build linux

// Command comparison is embedd's side of peers.py: it fits and projects on request, and reports what each took.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/embedd/embedd/internal/cores"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/onnx"
)

// request is one line of standard input. Do is fit, which makes Model of the first Rows rows; write, which writes
// Model to Path.embedd and Path.onnx, and its outputs of the first Rows rows to Path.f32; or project, which projects
// the first Rows rows, Block of them at a time.
type request struct {
	Do        string
	Model     string
	Path      string
	Rows      int
	Block     int
	Threads   int
	Method    string
	Dim       int
	Landmarks int
	Scale     model.Scale
	Params    map[string]string
}

// cost is the answer: the seconds of one run, by the clock and of all cores together.
type cost struct {
	Clock     float64 `json:"clock"`
	Processor float64 `json:"processor"`
}

// worker has the rows of a file, as float32 and as fits take them.
type worker struct {
	features     int
	hasHugePages bool
	rows         []float32
	labels       []int32
	data         map[int]*model.Data // by number of rows
	models       map[string]*model.Model
}

func main() {
	if err := serve(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "comparison:", err)
		os.Exit(1)
	}
}

// serve answers each line of in with a line of out. Rows and labels are in PATH.f32 and PATH.i32.
func serve(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("usage: comparison PATH FEATURES small|huge, started by tools/comparison/peers.py")
	}
	w := &worker{data: map[int]*model.Data{}, models: map[string]*model.Model{}, hasHugePages: args[2] == "huge"}
	if _, err := fmt.Sscan(args[1], &w.features); err != nil || w.features < 1 {
		return fmt.Errorf("%q features: give a number", args[1])
	}
	rows, err := w.read(args[0] + ".f32")
	if err != nil {
		return err
	}
	labels, err := w.read(args[0] + ".i32")
	if err != nil {
		return err
	}
	w.rows, w.labels = numbers[float32](rows), numbers[int32](labels)
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		c, err := w.do(r)
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.Do, r.Model, err)
		}
		if err := answers.Encode(c); err != nil {
			return err
		}
	}
	return lines.Err()
}

// read is a file of numbers of four bytes in the order of this machine, which wrote it.
func (w *worker) read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	b, err := w.memory(int(info.Size()))
	if err != nil {
		return nil, err
	}
	_, err = io.ReadFull(file, b)
	return b, err
}

// memory is outside the heap, so that its pages are as small or as large as asked for.
func (w *worker) memory(bytes int) ([]byte, error) {
	b, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err == nil && w.hasHugePages {
		err = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
	}
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory: %w", bytes, err)
	}
	return b, nil
}

// numbers are the bytes as numbers.
func numbers[T float32 | float64 | int32](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(T(0))))
}

func (w *worker) do(r request) (cost, error) {
	if r.Rows < 1 || r.Rows > len(w.labels) || r.Rows*w.features > len(w.rows) {
		return cost{}, fmt.Errorf("%d rows: the file has %d", r.Rows, min(len(w.labels), len(w.rows)/w.features))
	}
	runtime.GOMAXPROCS(max(r.Threads, 1))
	ctx := model.Limit(context.Background(), max(r.Threads, 1))
	switch r.Do {
	case "fit":
		d, err := w.dataOf(r.Rows)
		if err != nil {
			return cost{}, err
		}
		return timed(func() (err error) {
			w.models[r.Model], err = fit.Fit(ctx, d,
				fit.Config{Method: r.Method, Dim: r.Dim, Landmarks: r.Landmarks, Scale: r.Scale, Params: r.Params})
			return err
		})
	case "write":
		return cost{}, w.write(ctx, r)
	case "project":
		m := w.models[r.Model]
		y := make([]float32, r.Block*m.Dim())
		return timed(func() error { return w.project(ctx, m, r.Rows, r.Block, func(int) []float32 { return y }) })
	}
	return cost{}, errors.New("do fit, write or project")
}

func timed(do func() error) (cost, error) {
	begin, used := time.Now(), cores.ProcessorTime()
	err := do()
	return cost{time.Since(begin).Seconds(), (cores.ProcessorTime() - used).Seconds()}, err
}

// dataOf is the first n rows, as fits take them.
func (w *worker) dataOf(n int) (*model.Data, error) {
	if d := w.data[n]; d != nil {
		return d, nil
	}
	b, err := w.memory(8 * n * w.features)
	if err != nil {
		return nil, err
	}
	d := &model.Data{N: n, M: w.features, X: numbers[float64](b)}
	for j := range w.features {
		d.Features = append(d.Features, fmt.Sprintf("x[%d]", j))
	}
	for i, v := range w.rows[:n*w.features] {
		d.X[i] = float64(v)
	}
	for _, c := range w.labels[:n] {
		for len(d.Classes) <= int(c) {
			d.Classes = append(d.Classes, string(rune('a'+len(d.Classes))))
		}
		d.Y = append(d.Y, int(c))
	}
	w.data[n] = d
	return d, nil
}

// project projects rows in blocks; into is where the outputs from a row on are written.
func (w *worker) project(ctx context.Context, m *model.Model, rows, block int, into func(row int) []float32) error {
	for from := 0; from < rows; from += block {
		n := min(block, rows-from)
		x := w.rows[from*w.features : (from+n)*w.features]
		view := model.Rows{N: n, Blocks: []model.Block{{F32: x, Cols: w.features, RowStride: w.features, ColStride: 1}}}
		if err := m.ProjectContext(ctx, into(from), view); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) write(ctx context.Context, r request) error {
	m := w.models[r.Model]
	for name, as := range map[string]func(io.Writer, *model.Model) error{".embedd": model.Write, ".onnx": onnx.Write} {
		file, err := os.Create(r.Path + name)
		if err != nil {
			return err
		}
		if err := errors.Join(as(file, m), file.Close()); err != nil {
			return err
		}
	}
	y := make([]float32, r.Rows*m.Dim())
	if err := w.project(ctx, m, r.Rows, r.Rows, func(int) []float32 { return y }); err != nil {
		return err
	}
	return os.WriteFile(r.Path+".f32", unsafe.Slice((*byte)(unsafe.Pointer(&y[0])), 4*len(y)), 0o666)
}
