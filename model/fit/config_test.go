package fit

import (
	"math"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
)

// TestConfigurationsAreRefused: the error has the value and what is allowed, and values at a limit are allowed.
func TestConfigurationsAreRefused(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{}, ""},
		{Config{Scale: "wide"}, `unknown scale "wide"; give one of standard, minmax, unit, none, rank, auto`},
		{Config{MaxDim: 3, Dim: 3}, ""},
		{Config{MaxDim: 3, Dim: 4}, "dim 4 is above max dim 3; give a smaller dim, or a larger max dim"},
		{Config{MaxDim: -1}, "max dim is -1; give at least 1, or 0 for no bound"},
		{Config{Fewest: true}, ""},
		{Config{Method: "lda", Dim: AutoDim, Fewest: true}, ""},
		{Config{Method: "lda", Fewest: true}, "fewest is for dim auto, which then has as few outputs as possible"},
		{Config{Dim: 2, Fewest: true}, "fewest is for dim auto"},
		{Config{Method: "pca", Dim: AutoDim, Fewest: true}, "fewest compares dimensions by labels, which method pca does"},
		{Config{Nonlinear: true}, ""},
		{Config{Method: "lda", Nonlinear: true}, "nonlinear is for method auto, which then tries landmarks and normal " +
			"scores; for lda give landmarks, or the scale rank"},
		{Config{Nonlinear: true, Landmarks: 1}, "nonlinear auto draws 300 landmarks itself; remove landmarks or nonlinear"},
		{Config{Nonlinear: true, Scale: model.ScaleRank},
			"nonlinear auto tries the scale rank among others; remove scale or nonlinear"},
		{Config{Landmarks: 1, Scale: model.ScaleRank}, "landmarks cannot be combined with the scale rank"},
		{Config{Landmarks: -1}, "landmarks is -1, and their width 0; give numbers from 0"},
		{Config{Landmarks: 1, Width: -1}, "landmarks is 1, and their width -1; give numbers from 0"},
		{Config{Landmarks: 1, Width: math.NaN()}, "landmarks is 1, and their width NaN; give numbers from 0"},
		{Config{Landmarks: 1, Width: math.Inf(1)}, "landmarks is 1, and their width +Inf; give numbers from 0"},
		{Config{Blend: 1}, ""},
		{Config{Blend: -1}, "blend is -1; give the number of candidates that auto blends"},
		{Config{Memory: -1}, "memory is -1; give the bytes that a fit may hold, or 0 for no bound"},
		{Config{Workers: 1}, ""},
		{Config{Workers: -1}, "workers is -1; give at least 1, or 0 for all cores"},
		{Config{Outputs: 3, Dim: 3}, ""},
		{Config{Outputs: 3, Dim: 4}, "3 outputs for dim 4; give 0, or at least dim, without pad"},
		{Config{DesignEffect: 0.5}, "design effect 0.5; give a number of at least 1, or 0"},
		{Config{DesignEffect: math.NaN()}, "design effect NaN"},
		{Config{Outputs: -1}, "-1 outputs for dim 0; give 0"},
		{Config{Outputs: 3, Pad: true}, "3 outputs for dim 0; give 0"},
		{Config{Pad: true}, ""},
		{Config{Dim: AutoDim}, ""},
		{Config{Dim: -2}, "dim is -2; give at least 1, 0 for the method's default, or -1 (AutoDim) for the best by"},
		{Config{Method: Blend}, "method blend needs the parameter members, for example lda/standard/2,pca/standard/8"},
		{Config{Method: "lad"}, `unknown method "lad"; the nearest is lda, the others are `},
		{Config{Method: "something else"}, `unknown method "something else"; the methods are dawge, dla, isomap, `},
	} {
		err := c.config.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
	if _, err := (Config{Method: "lad"}).Describe(); err == nil {
		t.Error("a method that does not exist is described")
	}
	if m, err := (Config{}).Describe(); err != nil || m.Name != Auto {
		t.Errorf("%s is the default, %v", m.Name, err)
	}
}
