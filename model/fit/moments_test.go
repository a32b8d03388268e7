package fit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/moments"
)

// TestDesignEffect: with it the ridge of rows that come ten times each is that of the rows once.
func TestDesignEffect(t *testing.T) {
	d := uneven()
	often := &model.Data{M: d.M, Classes: d.Classes, Features: d.Features}
	for range 10 {
		often.N += d.N
		often.X, often.Y = append(often.X, d.X...), append(often.Y, d.Y...)
	}
	shrinkage := func(d *model.Data, effect float64, byMoments bool) float64 {
		c := Config{Method: "lda", DesignEffect: effect, Params: map[string]string{"ridge": "oas"}}
		m, err := Fit(t.Context(), d, c)
		if byMoments {
			s := moments.New(d.M, false)
			if err := s.Add(t.Context(), d.X, d.Y); err != nil {
				t.Fatal(err)
			}
			m, err = FitMoments(t.Context(), s, d.Features, d.Classes, c)
		}
		if err != nil {
			t.Fatal(err)
		}
		return *m.Report().Ridge.Shrinkage
	}
	for _, byMoments := range []bool{false, true} {
		want, got := shrinkage(d, 0, byMoments), shrinkage(often, 10, byMoments)
		if without := shrinkage(often, 1, byMoments); !(math.Abs(got/want-1) <= 1e-9) || !(without < 0.2*want) {
			t.Errorf("moments %t: shrinkage %g, want %g; %g without", byMoments, got, want, without)
		}
	}
}

// TestDesignEffectOfMembers: the members of a blend have the ridge of fewer rows too.
func TestDesignEffectOfMembers(t *testing.T) {
	d := synthetic(47, 60, 12, 4)
	fitted := func(ridge string, effect float64) []float64 {
		params := map[string]string{"members": "lda/standard/2/ridge=" + ridge + ",pairacc/none/1/ridge=" + ridge}
		m, err := Fit(t.Context(), d, Config{Method: Blend, Dim: 2, Params: params, DesignEffect: effect})
		if err != nil {
			t.Fatal(err)
		}
		return outputsOf(t, m, d)
	}
	want := fitted("10", 0) // the largest ridge of oas
	if slices.Equal(fitted("oas", 0), want) {
		t.Fatal("the ridge makes no difference")
	}
	if got := fitted("oas", math.MaxFloat64); !slices.Equal(got, want) {
		t.Errorf("outputs %v, want %v", got[:4], want[:4])
	}
}

// TestMomentsAreRefused: where moments are not enough, the error says what the method needs.
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
		{moments.New(2, false), nil, classes, Config{Method: "lda"}, "lda: moments: no rows"},
		{s, nil, classes, Config{Method: "mfa"}, "mfa: needs the rows; fit it from a window"},
		{s, nil, classes, Config{Method: Blend, Params: map[string]string{"members": "lda/standard/1,mfa/none/1"}},
			"blend: member mfa/none/1 needs the rows; fit it from a window"},
		{s, nil, classes, Config{Method: "lda", Scale: model.ScaleMinMax},
			"lda: scale minmax needs the rows; give standard or none"},
		{s, nil, classes, Config{Method: "lda", Landmarks: 5}, "lda: 5 landmarks need the rows; map the rows, and give"},
		{s, []string{"x"}, classes, Config{Method: "lda"}, "lda: 1 feature names for 2 features"},
		{s, []string{"x", "x"}, classes, Config{Method: "lda"}, `lda: two features are named "x"; rename one`},
		{s, nil, []string{"a", "a"}, Config{Method: "lda"}, `lda: two classes are named "a"; rename one`},
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

// TestMomentsInUsedMemory: fits in the memory of earlier ones give the same model, and do not change those.
func TestMomentsInUsedMemory(t *testing.T) {
	for _, method := range []string{"lda", "pca", "srda", "sle", "pairacc"} {
		components := func(x ...float64) []float64 {
			s := moments.New(2, true)
			if err := s.Add(t.Context(), x, []int{0, 0, 0, 1, 1, 1}); err != nil {
				t.Fatal(err)
			}
			m, err := FitMoments(t.Context(), s, nil, []string{"a", "b"}, Config{Method: method})
			if err != nil {
				t.Fatal(err)
			}
			return m.Components()
		}
		rows := []float64{0, 1, 2, 5, 4, 1, 7, 3, 8, 8, 6, 5}
		first := components(rows...)
		want := slices.Clone(first)
		for range 10 {
			components(9, 1, 2, 8, 3, 1, 5, 3, 4, 4, 7, 7)
			if got := components(rows...); !slices.Equal(got, want) || !slices.Equal(first, want) {
				t.Fatalf("%s: components %v, before %v, now %v", method, got, want, first)
			}
		}
	}
}
