package fit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/moments"
)

// TestConfigurationsAreRefused with what was given and what is allowed; bounds are allowed.
func TestConfigurationsAreRefused(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{}, ""},
		{Config{Scale: "wide"}, `unknown scale "wide"; give one of standard, minmax, unit, none, rank, auto`},
		{Config{MaxDim: 3, Dim: 3}, ""},
		{Config{MaxDim: 3, Dim: 4}, "dim 4 is not within max dim 3; give at least 1, 0 for no bound, and no dim above it"},
		{Config{MaxDim: -1}, "dim 0 is not within max dim -1"},
		{Config{Fewest: true}, ""},
		{Config{Method: "lda", Dim: AutoDim, Fewest: true}, ""},
		{Config{Method: "lda", Fewest: true}, "fewest is for dim auto, which then has as few outputs as possible"},
		{Config{Dim: 2, Fewest: true}, "fewest is for dim auto"},
		{Config{Nonlinear: true}, ""},
		{Config{Method: "lda", Nonlinear: true}, "nonlinear is for method auto, which then tries landmarks and normal " +
			"scores; for lda give landmarks, or the scale rank"},
		{Config{Nonlinear: true, Landmarks: 1}, "nonlinear auto draws 300 landmarks itself; remove landmarks or nonlinear"},
		{Config{Nonlinear: true, Scale: model.ScaleRank}, "nonlinear auto tries the scale rank among others"},
		{Config{Landmarks: 1, Scale: model.ScaleRank}, "landmarks cannot be combined with the scale rank"},
		{Config{Landmarks: -1}, "-1 landmarks of width 0; give numbers from 0"},
		{Config{Landmarks: 1, Width: -1}, "1 landmarks of width -1; give numbers from 0"},
		{Config{Landmarks: 1, Width: math.NaN()}, "1 landmarks of width NaN; give numbers from 0"},
		{Config{Landmarks: 1, Width: math.Inf(1)}, "1 landmarks of width +Inf; give numbers from 0"},
		{Config{Blend: 1}, ""},
		{Config{Blend: -1}, "blend is -1; give the number of candidates that auto blends"},
		{Config{Workers: 1}, ""},
		{Config{Workers: -1}, "workers is -1; give at least 1, or 0 for all cores"},
		{Config{Outputs: 3, Dim: 3}, ""},
		{Config{Outputs: 3, Dim: 4}, "3 outputs for dim 4; give 0, or at least dim, without pad"},
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

// TestMomentsAreRefused where they are not enough, with what is.
func TestMomentsAreRefused(t *testing.T) {
	s := moments.New(2, false)
	if err := s.Add(t.Context(), []float64{0, 1, 2, 5, 4, 1, 7, 3}, []int{0, 0, 1, 1}); err != nil {
		t.Fatal(err)
	}
	classes := []string{"a", "b"}
	for _, c := range []struct {
		sums     *moments.Set
		features []string
		classes  []string
		config   Config
		want     string
	}{
		{s, nil, classes, Config{Method: "lda"}, ""},
		{s, []string{"x", "y"}, classes, Config{Method: "lda", Scale: model.ScaleNone}, ""},
		{nil, nil, classes, Config{Method: "lda"}, "lda: no statistics given"},
		{s, nil, classes, Config{Method: "mfa"}, "mfa: needs the rows; fit it from a window"},
		{s, nil, classes, Config{Method: Blend, Params: map[string]string{"members": "lda/standard/1,mfa/none/1"}},
			"blend: member mfa/none/1 needs the rows; fit it from a window"},
		{s, nil, classes, Config{Method: "lda", Scale: model.ScaleMinMax},
			"lda: scale minmax needs the rows; give standard or none"},
		{s, nil, classes, Config{Method: "lda", Landmarks: 5}, "lda: 5 landmarks need the rows; map the rows, and give"},
		{s, []string{"x"}, classes, Config{Method: "lda"}, "lda: 1 feature names for 2 features"},
		{s, nil, []string{"a"}, Config{Method: "lda"}, "lda: statistics of 2 classes, names of 1"},
		{s, nil, nil, Config{Method: "pca"}, ""},
		{s, nil, classes, Config{Method: "lad"}, `unknown method "lad"`},
	} {
		_, err := FitMoments(t.Context(), c.sums, c.features, c.classes, c.config)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
	for name, want := range map[string]bool{"lda": true, "pca": true, "srda": true, "sle-ovr": false, "mfa": false,
		Auto:  false,
		Blend: false, "none": false} {
		if (Config{Method: name}).Streams() != want {
			t.Errorf("%s reads rows in blocks: %v", name, !want)
		}
	}
	for _, c := range []Config{{Method: "lda", Landmarks: 3}, {Method: "lda", Scale: model.ScaleRank},
		{Method: "lda", Scale: model.ScaleUnit}, {Method: "lda", Scale: model.ScaleMinMax}} {
		if c.Streams() {
			t.Errorf("%+v reads rows in blocks", c)
		}
	}
}

// TestRuleOfAutoWithoutClasses: pca, and why.
func TestRuleOfAutoWithoutClasses(t *testing.T) {
	d := &model.Data{N: 4, M: 2, X: []float64{0, 1, 2, 5, 4, 1, 7, 3}}
	for rule, y := range map[string][]int{"no row has a label": nil, "all labelled rows are of one class": {1, -1, 1, 1}} {
		if d.Y, d.Classes = y, nil; y != nil {
			d.Classes = []string{"a", "b"}
		}
		m, err := Fit(t.Context(), d, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if c := m.Report().Choice; m.Method() != "pca" || c.Rule != rule || c.Chosen != "method and dim" ||
			m.Params()["auto"] != "method and dim" || m.Rows() != 4 {
			t.Errorf("%v: %s of %d rows, %+v", y, m.Method(), m.Rows(), c)
		}
	}
	if presentClasses(nil) != 0 || presentClasses(&model.Data{Y: []int{-1, 3, 3, 0}}) != 2 {
		t.Error("other classes are present")
	}
	if used(d, false) != 4 || used(&model.Data{N: 3, Y: []int{-1, 0, 1}}, true) != 2 {
		t.Error("other rows are used")
	}
	if p := candidateParams("ksmpa", "0.5"); p["ridge"] != "0.5" || p["kernel"] != "gauss" || len(p) != 2 {
		t.Errorf("ksmpa has %v", p)
	}
	if p := candidateParams("pca", "0.5"); len(p) != 0 {
		t.Errorf("pca has %v", p)
	}
	if p := candidateParams("lda", "auto"); len(p) != 0 {
		t.Errorf("lda has %v", p)
	}
	if p := candidateParams("none", "0.5"); len(p) != 0 {
		t.Errorf("no method has %v", p)
	}
	for _, c := range []struct {
		choice *model.Choice
		config Config
		want   Config
	}{
		{&model.Choice{Method: "lda", Dim: 3, Scale: model.ScaleNone}, Config{}, Config{Method: "lda", Dim: 3,
			Scale: "none"}},
		{&model.Choice{Method: "lda", Dim: 3, Scale: model.ScaleNone}, Config{Scale: model.ScaleMinMax, Dim: 2},
			Config{Method: "lda", Dim: 2, Scale: "minmax"}},
		{&model.Choice{Method: "lda", Dim: 3, Landmarks: 9, Width: 2}, Config{Scale: "none"},
			Config{Method: "lda", Dim: 3, Scale: "none", Landmarks: 9, Width: 2}},
		{&model.Choice{Method: "lda", Dim: 3, Scale: model.ScaleRank}, Config{Scale: "none"},
			Config{Method: "lda", Dim: 3, Scale: "rank"}},
		{&model.Choice{Method: "lda", Dim: 3, Scale: model.ScaleRank}, Config{Method: "mfa", Dim: AutoDim, Fewest: true},
			Config{Method: "mfa", Dim: 3}},
	} {
		got := c.config.WithChoice(c.choice)
		if got.Method != c.want.Method || got.Dim != c.want.Dim || got.Scale != c.want.Scale ||
			got.Landmarks != c.want.Landmarks || got.Width != c.want.Width || got.Fewest || got.choice != c.choice {
			t.Errorf("%+v with %+v: %+v", c.config, c.choice, got)
		}
	}
}

// TestNamesOfTunedParameters: those with a grid that were not given; the defaults are tried first.
func TestNamesOfTunedParameters(t *testing.T) {
	combination := map[string]string{"k1": "5", "k2": "20", "penalty": "per-sample", "ridge": "auto"}
	for _, c := range []struct {
		method string
		given  map[string]string
		want   string
	}{
		{"mfa", nil, "k1=5 k2=20"}, {"mfa", map[string]string{"k1": "5"}, "k2=20"}, {"pca", nil, ""}, {"none", nil, ""},
	} {
		if got := TunedName(c.method, combination, c.given); got != c.want {
			t.Errorf("%s given %v: %q, want %q", c.method, c.given, got, c.want)
		}
	}
	m, err := lookup("mfa")
	if err != nil {
		t.Fatal(err)
	}
	all := combinations(m, map[string]string{"ridge": "1"})
	var first []string
	for _, c := range all[:4] {
		first = append(first, c["k1"]+" "+c["k2"])
	}
	if want := []string{"5 20", "5 5", "5 10", "5 40"}; len(all) != 30 || !slices.Equal(first, want) ||
		all[9]["ridge"] != "1" {
		t.Errorf("%d combinations begin with %v", len(all), first)
	}
}
