package eval

import (
	"math"
	"slices"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fail"
)

// TestRefusedConfigs: the error has the value and what is allowed, and values at a limit are allowed.
func TestRefusedConfigs(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{}, ""},
		{Config{Splits: 1, TrainFraction: 0.999, TrainPerClass: 1, Neighbors: 1, Dims: []int{1, fit.AutoDim}}, ""},
		{Config{Splits: -1}, "eval: -1 splits; give at least 1"},
		{Config{TrainFraction: 1}, "eval: training fraction 1; give one between 0 and 1"},
		{Config{TrainFraction: -0.1}, "eval: training fraction -0.1; give one between 0 and 1"},
		{Config{TrainFraction: math.NaN()}, "eval: training fraction NaN; give one between 0 and 1"},
		{Config{TrainPerClass: -1}, "eval: -1 training rows per class; give at least 1, or 0 for the fraction"},
		{Config{Neighbors: -2}, "eval: -2 neighbors; give at least 1"},
		{Config{Dims: []int{2, fit.AutoDim}, Tune: true},
			"eval: tuning needs given dimensions; give numbers, or disable tuning"},
		{Config{Dims: []int{2, 0}}, "eval: dim 0; give at least 1, or -1 (AutoDim) to choose by cross-validation"},
		{Config{Tune: true, Landmarks: 5}, "eval: tuning does not support landmarks; remove one of the two"},
		{Config{Methods: []string{"lda"}, Scale: model.ScaleRank}, ""},
		{Config{Methods: []string{Raw}, Scale: model.ScaleRank},
			"eval: raw cannot be scored at the scale rank; remove it, or give another scale"},
		{Config{Methods: []string{Raw}, Scale: "wide"},
			`eval: unknown scale "wide"; give one of standard, minmax, unit, none, rank, auto`},
		{Config{Params: map[string]map[string]string{"none": nil}}, "eval: parameters: "},
	} {
		err := c.config.Validate()
		if (err == nil) != (c.want == "") || err != nil && (len(err.Error()) < len(c.want) ||
			err.Error()[:len(c.want)] != c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
	one := &model.Data{N: 1, M: 1, X: []float64{1}, Y: []int{0}, Classes: []string{"a"}}
	for want, d := range map[string]*model.Data{"eval: 0 labels for 1 rows; it needs labelled rows": {N: 1, M: 1},
		"eval: 0 labels for 0 rows; it needs labelled rows": {M: 1},
		"eval: no rows are given":                           nil,
		"eval: 1 values are not 1 rows x 2 features; it needs the rows in memory": {N: 1, M: 2, X: []float64{1},
			Y: []int{0}},
		"eval: no class has the 2 labelled rows that a split needs": one} {
		err := Evaluate(t.Context(), d, Config{Methods: []string{Raw}}, func(Result) error { return nil })
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c := Config{}.withDefaults()
	if c.Splits != 10 || c.TrainFraction != 0.5 || c.Neighbors != 1 || !slices.Equal(c.Dims, []int{2}) ||
		len(c.Methods) != 1+len(fit.Methods()) || c.Methods[0] != Raw {
		t.Errorf("%+v", c)
	}
	if got := c.dims(Raw, 7); !slices.Equal(got, []int{7}) || !slices.Equal(c.dims("lda", 7), []int{2}) {
		t.Errorf("raw has %v", got)
	}
}

// TestRowsOfSlowMethods: a method that has a limit of rows is evaluated with 500, unless another is given.
func TestRowsOfSlowMethods(t *testing.T) {
	c := Config{Params: map[string]map[string]string{"lenews": {"rows": "7"}, "lppnews": {"beta": "0.5"}}}
	for _, want := range []struct{ method, rows, beta string }{
		{"lenews", "7", ""}, {"lppnews", "500", "0.5"}, {"lenewks", "500", ""}, {"lda", "", ""}, {"none", "", ""},
	} {
		if got := c.paramsOf(want.method); got["rows"] != want.rows || got["beta"] != want.beta {
			t.Errorf("%s: %v", want.method, got)
		}
	}
	if len(c.Params["lppnews"]) != 1 {
		t.Error("the given parameters are changed")
	}
}

// TestSplitsOfAnEvaluation: a split has a share of the rows of each class, or a number of them.
func TestSplitsOfAnEvaluation(t *testing.T) {
	y := []int{0, 0, 0, 0, 0, 0, 1, 1, 1, 1}
	for _, c := range []struct {
		config Config
		train  int
	}{{Config{TrainFraction: 0.5}, 5}, {Config{TrainFraction: 0.7}, 7}, {Config{TrainPerClass: 3}, 6},
		{Config{TrainPerClass: 9}, 8}} {
		c.config.Splits = 3
		splits, err := c.config.splits(y)
		if err != nil || len(splits) != 3 {
			t.Fatal(err)
		}
		for _, s := range splits {
			if len(s.train) != c.train || len(s.test) != 10-c.train || s.memo == nil {
				t.Errorf("%+v: %d training rows, want %d", c.config, len(s.train), c.train)
			}
		}
		if slices.Equal(splits[0].train, splits[1].train) && slices.Equal(splits[1].train, splits[2].train) {
			t.Errorf("%+v: all splits are equal", c.config)
		}
	}
	count := tally{map[int]int{}, map[int]int{}}
	if share := count.add([]int{0, 0, 1, 1}, []bool{true, false, true, true}); share != 0.75 {
		t.Errorf("a share of %g", share)
	}
	count.add([]int{0, 2}, []bool{true, false})
	if r := count.recall([]string{"a", "b", "c", "d"}); len(r) != 3 || r["a"] != 2./3 || r["b"] != 1 || r["c"] != 0 {
		t.Errorf("recall %v", r)
	}
}

// TestScaleOfAnEvaluation: mean and divisor are those of a fit, and a feature whose variance exceeds float64 is named.
func TestScaleOfAnEvaluation(t *testing.T) {
	d := &model.Data{N: 2, M: 2, X: []float64{1, 5, 3, 5}}
	if mean, scale := fitScale(t.Context(), d, model.ScaleMinMax); mean[0] != 2 || scale[0] != 2 || scale[1] != 1 {
		t.Errorf("mean %v, scale %v", mean, scale)
	}
	d.X[0], d.X[2], d.Features = -1e200, 1e200, []string{"wide", "y"}
	err := func() (err error) {
		defer fail.Catch(&err)
		fitScale(t.Context(), d, model.ScaleStandard)
		return nil
	}()
	if want := `feature "wide" is too large: its variance exceeds float64; divide it by a constant`; err == nil ||
		err.Error() != want {
		t.Error(err)
	}
}
