package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/score"
)

// Raw is the name under which an evaluation scores the features themselves, in the scale of the training rows.
const Raw = "raw"

// Config is what Evaluate scores and how. Zero fields have the default in brackets.
type Config struct {
	Data          string      // name of the data, for the results
	Methods       []string    // names, Raw among them [Raw, then every method]
	Dims          []int       // [2]; AutoDim among them
	Scale         model.Scale // [auto]
	Landmarks     int         // see fit.Config
	Width         float64     // see fit.Config
	Blend         int         // of Auto, see fit.Config [0]
	Nonlinear     bool        // of Auto, see fit.Config
	Fewest        bool        // of fit.AutoDim, see fit.Config
	Memory        int64       // of a fit, see fit.Config
	Splits        int         // [10]
	TrainFraction float64     // in (0, 1) [0.5]
	TrainPerClass int         // training rows per class, instead of the fraction
	Neighbors     int         // of the vote [1]
	Seed          uint64
	Params        map[string]map[string]string // by method, then parameter
	// Tune chooses, for each split and dimension, among the values of the parameters' grids by 4-fold cross-validation on
	// the training rows. Params are fixed. Dims must be numbers then.
	Tune bool
	// Progress, if set, is called before each fit with the method, the dimension and the share of the evaluation that is
	// done.
	Progress func(method string, dim int, done float64)
}

// Result is the score of one method at one dimension. If Error is set, the method could not be fitted and has no score.
type Result struct {
	Data         string
	Method       string
	Dim          int // requested
	DimUsed      int // at most the bound of the method; the smallest over the splits
	Splits       int
	AccuracyMean float64 // share of test rows whose class is correct
	AccuracySD   float64 // over the splits, divided by splits - 1; 0 for one
	// Recall is the share of the test rows of each class whose class is correct, over all splits: by class, as in
	// Data.Classes. Classes without a test row have none.
	Recall     map[string]float64
	FitSeconds float64           // mean of a fit, without tuning
	Rank       int               // informative rank
	Params     map[string]string // of the last split
	Chosen     map[string]int    // number of splits by what Auto or AutoDim chose, for example "lda 2"
	Tuned      map[string]int    // number of splits by the combination that Tune chose, for example "k=5 t=auto"
	Report     *model.Report     // of the fit in the first split; nil for Raw
	Error      string
	TooLarge   bool // Config.Memory is too small for the fit
}

// MarshalJSON writes null instead of no error, and instead of the scores of a method that failed.
func (r Result) MarshalJSON() ([]byte, error) {
	var dim any = r.Dim
	if r.Dim == fit.AutoDim {
		dim = fit.Auto
	}
	form := struct {
		Data         string             `json:"data"`
		Method       string             `json:"method"`
		Dim          any                `json:"dim"` // "auto" if it was chosen
		DimUsed      int                `json:"dim_used"`
		Splits       int                `json:"splits"`
		AccuracyMean *float64           `json:"accuracy_mean"`
		AccuracySD   *float64           `json:"accuracy_sd"`
		Recall       map[string]float64 `json:"recall,omitempty"`
		FitSeconds   *float64           `json:"fit_seconds"`
		Rank         int                `json:"informative_rank"`
		Params       map[string]string  `json:"params"`
		Chosen       map[string]int     `json:"chosen,omitempty"`
		Tuned        map[string]int     `json:"tuned,omitempty"`
		Report       *model.Report      `json:"report,omitempty"`
		Error        *string            `json:"error"`
	}{r.Data, r.Method, dim, r.DimUsed, r.Splits, &r.AccuracyMean, &r.AccuracySD, r.Recall, &r.FitSeconds, r.Rank,
		r.Params,
		r.Chosen, r.Tuned, r.Report, nil}
	if r.Error != "" {
		form.AccuracyMean, form.AccuracySD, form.FitSeconds, form.Error = nil, nil, nil, &r.Error
	}
	if form.Params == nil {
		form.Params = map[string]string{}
	}
	return json.Marshal(form)
}

func (c Config) withDefaults() Config {
	if len(c.Methods) == 0 {
		c.Methods = []string{Raw}
		for _, m := range fit.Methods() {
			c.Methods = append(c.Methods, m.Name)
		}
	}
	if len(c.Dims) == 0 {
		c.Dims = []int{2}
	}
	c.Splits, c.TrainFraction, c.Neighbors = cmp.Or(c.Splits, 10), cmp.Or(c.TrainFraction, 0.5), cmp.Or(c.Neighbors, 1)
	return c
}

// Validate checks everything that can be checked without rows.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Splits < 1:
		return fmt.Errorf("eval: %d splits; give at least 1", c.Splits)
	case !(c.TrainFraction > 0 && c.TrainFraction < 1):
		return fmt.Errorf("eval: training fraction %g; give one between 0 and 1", c.TrainFraction)
	case c.TrainPerClass < 0:
		return fmt.Errorf("eval: %d training rows per class; give at least 1, or 0 for the fraction", c.TrainPerClass)
	case c.Neighbors < 1:
		return fmt.Errorf("eval: %d neighbors; give at least 1", c.Neighbors)
	}
	for _, d := range c.Dims {
		if d == fit.AutoDim && c.Tune {
			return fmt.Errorf("eval: tuning needs given dimensions; give numbers, or disable tuning")
		}
		if d < 1 && d != fit.AutoDim {
			return fmt.Errorf("eval: dim %d; give at least 1, or %d (AutoDim) to choose by cross-validation", d,
				fit.AutoDim)
		}
	}
	if c.Tune && c.Landmarks > 0 {
		return fmt.Errorf("eval: tuning does not support landmarks; remove one of the two")
	}
	for _, name := range c.Methods {
		if name == Raw {
			if name = "pca"; c.Scale == model.ScaleRank { // checks the scale
				return fmt.Errorf("eval: %s cannot be scored at the scale rank; remove it, or give another scale", Raw)
			}
		}
		if err := (fit.Config{Method: name, Scale: c.Scale, Blend: c.Blend,
			Nonlinear: c.Nonlinear && name == fit.Auto, Landmarks: c.Landmarks,
			Width: c.Width, Params: c.Params[name]}).Validate(); err != nil {
			return fmt.Errorf("eval: %w", err)
		}
	}
	for name := range c.Params {
		if _, err := fit.Lookup(name); err != nil {
			return fmt.Errorf("eval: parameters: %w", err)
		}
	}
	return nil
}

// Evaluate scores methods by nearest neighbours over stratified splits and passes each result to yield as soon as it
// is known: method by method, and for each its dimensions. Scale, means of missing values and everything learned come
// from the training part of a split alone. The reference rows are the training rows; a map of views classifies by
// itself. A method that cannot reach a dimension runs at its bound. If a method fails, its result has the error and
// the evaluation continues. A cancelled ctx, or an error of yield, ends the evaluation with that error.
func Evaluate(ctx context.Context, d *model.Data, c Config, yield func(Result) error) (err error) {
	defer parallel.Recover(&err, "eval")
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.withDefaults()
	if d == nil {
		return errors.New("eval: no rows are given")
	}
	if len(d.Y) != d.N || d.N == 0 {
		return fmt.Errorf("eval: %d labels for %d rows; it needs labelled rows", len(d.Y), d.N)
	}
	if d.M < 1 || len(d.X)/d.M != d.N || len(d.X)%d.M != 0 {
		return fmt.Errorf("eval: %d values are not %d rows x %d features; it needs the rows in memory", len(d.X), d.N, d.M)
	}
	splits, err := c.splits(d.Y)
	if err != nil {
		return err
	}
	total, done := 0, 0
	for _, name := range c.Methods {
		total += len(c.dims(name, d.M)) * c.Splits
	}
	for _, name := range c.Methods {
		for _, dim := range c.dims(name, d.M) {
			result := Result{Data: c.Data, Method: name, Dim: dim, Splits: c.Splits}
			var shares []float64
			count := tally{map[int]int{}, map[int]int{}}
			for k := range splits {
				progress := func(of float64) {
					if c.Progress != nil {
						c.Progress(name, dim, (float64(done+k)+of)/float64(total))
					}
				}
				progress(0)
				share, err := c.score(ctx, d, &splits[k], &result, count, progress)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					result.Error, result.TooLarge = err.Error(), errors.As(err, new(*fit.MemoryError))
					break
				}
				shares = append(shares, share)
			}
			done += len(splits)
			if result.Error == "" {
				result.AccuracyMean, result.AccuracySD = meanSD(shares)
				result.Recall = count.recall(d.Classes)
				result.FitSeconds /= float64(c.Splits)
			}
			if err := yield(result); err != nil {
				return err
			}
		}
	}
	return nil
}

// dims are the dimensions at which a method is scored.
func (c Config) dims(method string, m int) []int {
	if method == Raw {
		return []int{m}
	}
	return c.Dims
}

// tally counts test rows by class, and those whose class is correct.
type tally struct{ rows, correct map[int]int }

// add counts the rows of a split, and returns the share that is correct.
func (t tally) add(y []int, right []bool) (share float64) {
	n := 0
	for i, is := range right {
		t.rows[y[i]]++
		if is {
			t.correct[y[i]]++
			n++
		}
	}
	return float64(n) / float64(len(right))
}

func (t tally) recall(classes []string) map[string]float64 {
	recall := map[string]float64{}
	for y, n := range t.rows {
		recall[classes[y]] = float64(t.correct[y]) / float64(n)
	}
	return recall
}

// score fits on the training part of a split and returns the share of test rows whose class is correct. progress is
// called with the share that is done.
func (c Config) score(ctx context.Context, d *model.Data, s *split, r *Result, count tally,
	progress func(float64)) (share float64, err error) {
	defer fail.Catch(&err)
	train, test := d.Subset(s.train), d.Subset(s.test)
	start := time.Now()
	var correct []bool
	if r.Method == Raw {
		correct = correctRaw(ctx, train, test, c.Scale, c.Neighbors)
		r.FitSeconds += time.Since(start).Seconds()
		r.DimUsed, r.Rank = d.M, d.M
	} else {
		var m *model.Model
		for _, params := range c.paramsByDim(ctx, train, s, r.Method, progress)[r.Dim] {
			start = time.Now()
			if m, err = fit.AtMost(ctx, train, fit.Config{Method: r.Method, Dim: r.Dim, Scale: c.Scale, Blend: c.Blend,
				Fewest: c.Fewest && r.Dim == fit.AutoDim, Nonlinear: c.Nonlinear && r.Method == fit.Auto,
				Landmarks: c.Landmarks, Width: c.Width, Params: params,
				Seed: c.Seed, Memory: c.Memory, Memo: s.memo}); err == nil || ctx.Err() != nil {
				c.countTuned(r, params)
				break
			}
		}
		fail.Check(err)
		r.FitSeconds += time.Since(start).Seconds()
		r.Params = m.Params()
		if r.Report == nil {
			report := m.Report()
			r.Report = &report
		}
		if m.Report().Choice != nil {
			if r.Chosen == nil {
				r.Chosen = map[string]int{}
			}
			r.Chosen[fmt.Sprintf("%s %d", m.Method(), m.Dim())]++
		}
		if r.DimUsed == 0 || m.Dim() < r.DimUsed {
			r.DimUsed, r.Rank = m.Dim(), m.InformativeRank()
		}
		correct = fail.Must(score.CorrectRows(ctx, m, train, test, c.Neighbors))
	}
	return count.add(test.Y, correct), nil
}

// paramsByDim returns the parameters of a fit at each dimension: the given ones or, with Tune, the combinations ranked
// on the training rows, best first. One that can be fitted in every fold may fail on all rows; the next one replaces it
// then. A split is tuned once for all dimensions.
func (c Config) paramsByDim(ctx context.Context, train *model.Data, s *split, method string,
	progress func(float64)) fit.Tuning {
	if !c.Tune {
		given := fit.Tuning{}
		for _, d := range c.Dims {
			given[d] = []map[string]string{c.paramsOf(method)}
		}
		return given
	}
	if s.tuned[method] == nil {
		tuned := fail.Must(fit.Tune(ctx, train, fit.Config{Method: method, Scale: c.Scale, Seed: c.Seed,
			Params: c.paramsOf(method), Memory: c.Memory}, c.Dims, progress))
		s.tuned[method] = tuned
	}
	return s.tuned[method]
}

// countTuned counts the combination of a split.
func (c Config) countTuned(r *Result, params map[string]string) {
	if !c.Tune {
		return
	}
	if name := fit.TunedName(r.Method, params, c.paramsOf(r.Method)); name != "" {
		if r.Tuned == nil {
			r.Tuned = map[string]int{}
		}
		r.Tuned[name]++
	}
}

// evalRows limits the rows of methods whose cost is the cube of their rows, because an evaluation fits many times.
const evalRows = "500"

// paramsOf are the parameters given for a method.
func (c Config) paramsOf(name string) map[string]string {
	given := c.Params[name]
	m, err := fit.Lookup(name)
	if _, known := given["rows"]; known || err != nil ||
		!slices.ContainsFunc(m.Params, func(p fit.Param) bool { return p.Name == "rows" }) {
		return given
	}
	out := map[string]string{"rows": evalRows}
	maps.Copy(out, given)
	return out
}

// fitScale learns mean and scale as a fit does, and nothing else.
func fitScale(ctx context.Context, d *model.Data, scaling model.Scale) (mean, scale []float64) {
	p := fail.Must(frame.Prepare(ctx, d, false, scaling == model.ScaleUnit, &model.Report{}))
	mean, variance := p.Spread()
	for j, v := range variance {
		if !linalg.IsFinite(v) {
			panic(fail.With(fmt.Errorf("feature %s is too large: its variance exceeds float64; divide it by a constant",
				frame.FeatureName(d.Features, j))))
		}
	}
	scale, _, _ = (&frame.Task{Scaling: scaling}).Scales(mean, variance, float64(p.N), p)
	return mean, scale
}

// correctRaw reports for each test row whether its class is that of the nearest training rows among the scaled
// features.
func correctRaw(ctx context.Context, train, test *model.Data, scaling model.Scale, k int) []bool {
	mean, scale := fitScale(ctx, train, scaling)
	scaled := func(d *model.Data) []float64 {
		out, rows := make([]float64, len(d.X)), model.DenseRows(d.X, d.N, d.M)
		for i := range d.N {
			rows.Scaled(out[i*d.M:(i+1)*d.M], i, mean, scale, scaling == model.ScaleUnit)
		}
		return out
	}
	return fail.Must(score.CorrectRowsNN(ctx, scaled(train), train.Y, scaled(test), test.Y, train.M, k))
}

// meanSD is the mean and the sample standard deviation.
func meanSD(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	if len(x) < 2 {
		return mean, 0
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, math.Sqrt(sd)
}
