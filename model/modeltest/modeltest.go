package modeltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// Run checks the configured method or criterion, with one subtest per property:
//
//   - the same rows, order, configuration and seed give the same digest, with and without Progress, and a fit does not
//     change its rows;
//   - every output is finite, and its bits do not depend on the other rows of a batch;
//   - there are Dim outputs or, if Dim is too large, a [model.DimError] with the largest possible number;
//   - a cancelled context ends the fit with its error;
//   - a model read from its file is the same as the written one;
//   - a model of other rows can be aligned to it in every mode;
//   - rows without a label are left out, if the method learns from labels;
//   - rows without information give an error or a model with finite outputs, never a panic;
//   - every parameter is reported with the value that the fit used, and a fit with these is the same;
//   - each row twice gives the same columns, for a method that learns from moments.
//
// With a reference it also checks, in subtests named criterion, that the fit reaches the optimum of the criterion: the
// constraint, the ridge, the objective against the reference's optimum and against random columns. The rows are of
// uneven classes, duplicated, wide, far from all others, far from zero, tied, or have constant features. They are drawn
// twice, with EMBEDD_LONG four times. A reference nil leaves these out, for a method without a criterion, as auto.
//
// The data sets are tall (60 x 6) and wide (18 x 30), with duplicates, missing values and a rare class of three rows.
// Run sets Dim and Progress of the configuration; parameters that make a method faster on small data belong in Params.
func Run(t *testing.T, c fit.Config, ref Reference) {
	t.Helper()
	c.Dim, c.Progress = 0, nil
	about, err := c.Describe()
	if err != nil {
		t.Fatal(err)
	}
	s := suite{c: c, hasRidge: slices.ContainsFunc(about.Params, func(p fit.Param) bool { return p.Name == "ridge" })}
	for name, d := range ordinary() {
		t.Run(name, func(t *testing.T) { s.ordinary(t, d) })
	}
	tall := clouds(1, 60, 6, false)
	t.Run("progress", func(t *testing.T) { s.progress(t, tall) })
	t.Run("dim", func(t *testing.T) { s.dim(t, tall) })
	t.Run("cancel", func(t *testing.T) { s.cancel(t, tall) })
	t.Run("align", func(t *testing.T) { s.align(t, tall, clouds(6, 60, 6, false)) })
	if about.Supervised {
		t.Run("unlabelled", func(t *testing.T) { s.unlabelled(t, tall) })
	}
	for name, d := range degenerate() {
		t.Run(name, func(t *testing.T) { s.degenerate(t, d) })
	}
	if c.Method != fit.Auto { // the parameters of its models are those of another method
		t.Run("parameters", func(t *testing.T) { s.parameters(t, tall, about) })
	}
	if about.Streaming == "moments" && c.Landmarks == 0 { // landmarks are drawn from the rows
		t.Run("twice", func(t *testing.T) { s.twice(t, tall) })
	}
	if ref == nil {
		return
	}
	t.Run("criterion", func(t *testing.T) {
		for draw := range testsize.Of(2, 4) {
			for name, d := range telling(uint64(draw)) {
				t.Run(fmt.Sprintf("%s, draw %d", name, draw), func(t *testing.T) {
					s := s
					if name == "tied" {
						s.c.Scale = model.ScaleNone // distances are then exact, and so are ties
					}
					s.criterion(t, d, ref)
				})
			}
		}
	})
}

// suite is the configuration that is checked.
type suite struct {
	c        fit.Config
	hasRidge bool
}

func (s suite) fit(t *testing.T, d *model.Data, c fit.Config) *model.Model {
	t.Helper()
	m, err := fit.Fit(t.Context(), d, c)
	if err != nil {
		t.Fatalf("fit: %v", err)
	}
	return m
}

func (s suite) ordinary(t *testing.T, d *model.Data) {
	x, y := slices.Clone(d.X), slices.Clone(d.Y)
	m := s.fit(t, d, s.c)
	if again := s.fit(t, d, s.c); again.Digest() != m.Digest() {
		t.Errorf("the same rows gave digest %.16s, then %.16s; is something read in the order of a map, or drawn without "+
			"the seed?",
			m.Digest(), again.Digest())
	}
	if !sameBits(x, d.X) || !slices.Equal(y, d.Y) {
		t.Error("the fit wrote into the caller's rows or labels")
	}
	whole := outputs(t, m, d, 0, d.N)
	for _, size := range []int{1, 7} {
		for from := 0; from < d.N; from += size {
			to := min(from+size, d.N)
			if part := outputs(t, m, d, from, to); !sameBits32(part, whole[from*m.Dim():to*m.Dim()]) {
				t.Fatalf("rows %d to %d alone have other bits than among all rows", from, to-1)
			}
		}
	}
	var file bytes.Buffer
	if err := model.Write(&file, m); err != nil {
		t.Fatal(err)
	}
	read, err := model.Read(&file)
	if err != nil {
		t.Fatalf("reading the model back: %v", err)
	}
	if read.Digest() != m.Digest() || !sameBits32(outputs(t, read, d, 0, d.N), whole) {
		t.Error("the model that is read back has another digest or other outputs")
	}
}

func (s suite) progress(t *testing.T, d *model.Data) {
	c, calls := s.c, 0
	c.Progress = func(phase string, done float64) {
		if calls++; phase == "" || !(done >= 0 && done <= 1) {
			t.Errorf("progress %q is %g; it must be in [0, 1], and have a name", phase, done)
		}
	}
	if quiet, loud := s.fit(t, d, s.c), s.fit(t, d, c); quiet.Digest() != loud.Digest() {
		t.Errorf("digest %.16s, with progress %.16s", quiet.Digest(), loud.Digest())
	}
	if calls == 0 {
		t.Error("no progress was reported")
	}
}

func (s suite) dim(t *testing.T, d *model.Data) {
	c := s.c
	for c.Dim = 1; c.Dim <= 2; c.Dim++ {
		m, err := fit.Fit(t.Context(), d, c)
		var bound *model.DimError
		switch {
		case errors.As(err, &bound) && c.Dim > 1:
		case err != nil:
			t.Errorf("dim %d: %v", c.Dim, err)
		case m.Dim() != c.Dim:
			t.Errorf("%d outputs, asked for %d", m.Dim(), c.Dim)
		}
	}
	// The largest of all, then what the error says can be had. A criterion may turn out to have fewer directions than
	// its rows, so the figure may fall once more, but never rise.
	for c.Dim = 10 * d.N; ; {
		m, err := fit.Fit(t.Context(), d, c)
		if err == nil {
			if c.Dim >= 10*d.N || m.Dim() != c.Dim {
				t.Errorf("%d outputs, asked for %d of %d rows", m.Dim(), c.Dim, d.N)
			}
			return
		}
		var bound *model.DimError
		if !errors.As(err, &bound) || bound.Asked != c.Dim || bound.Max < 1 || bound.Max >= bound.Asked ||
			bound.What == "" {
			t.Fatalf("dim %d: %v, want a DimError with the largest dim that can be had", c.Dim, err)
		}
		c.Dim = bound.Max
	}
}

func (s suite) cancel(t *testing.T, d *model.Data) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fit.Fit(ctx, d, s.c); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is cancelled: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	c := s.c
	c.Progress = func(string, float64) { cancel() }
	if _, err := fit.Fit(ctx, d, c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled at its first sign of progress: %v", err)
	}
}

func (s suite) align(t *testing.T, d, other *model.Data) {
	live, candidate := s.fit(t, d, s.c), s.fit(t, other, s.c)
	for _, mode := range []string{model.AlignNone, model.AlignSign, model.AlignBlock, model.AlignRigid} {
		m, a, err := model.Align(t.Context(), candidate, live, rowsOf(d, 0, d.N), mode)
		if err != nil {
			t.Errorf("align %s: %v", mode, err)
			continue
		}
		if m.Dim() != candidate.Dim() || math.IsNaN(a.Residual) {
			t.Errorf("align %s: %d outputs of %d, residual %g", mode, m.Dim(), candidate.Dim(), a.Residual)
		}
		outputs(t, m, d, 0, d.N)
	}
}

func (s suite) unlabelled(t *testing.T, d *model.Data) {
	more := withUnlabelled(d)
	a, b := s.fit(t, d, s.c), s.fit(t, more, s.c)
	if a.Digest() != b.Digest() {
		t.Errorf("digest %.16s, with rows without label %.16s", a.Digest(), b.Digest())
	}
	if n := b.Report().Unlabelled; n != more.N-d.N {
		t.Errorf("the report counts %d rows without label of %d", n, more.N-d.N)
	}
}

func (s suite) degenerate(t *testing.T, d *model.Data) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	m, err := fit.Fit(t.Context(), d, s.c)
	var p model.Panic
	switch {
	case errors.As(err, &p):
		t.Errorf("%v\n%s", err, p.Stack())
	case err == nil:
		outputs(t, m, d, 0, d.N)
	case err.Error() == "":
		t.Error("an error that says nothing")
	}
}

// outputs projects some rows and checks that the outputs are finite.
func outputs(t *testing.T, m *model.Model, d *model.Data, from, to int) []float32 {
	t.Helper()
	y := make([]float32, (to-from)*m.Dim())
	if err := m.Project(y, rowsOf(d, from, to)); err != nil {
		t.Fatalf("project: %v", err)
	}
	for i, v := range y {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			t.Fatalf("output %d of row %d is %g", i%m.Dim(), from+i/m.Dim(), v)
		}
	}
	return y
}

func rowsOf(d *model.Data, from, to int) model.Rows {
	return model.DenseRows(d.X[from*d.M:to*d.M], to-from, d.M)
}

// sameBits treats missing values as equal, unlike ==.
func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

func sameBits32(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
