package fit

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/embedd/embedd/model/internal/method"
)

// Every grid has the default and only values that the parameter accepts, and is small enough.
func TestGrids(t *testing.T) {
	for _, m := range method.Table {
		for _, p := range m.Params {
			if p.Grid != nil && !slices.Contains(p.Grid, p.Default) {
				t.Errorf("%s.%s: the grid %v lacks the default %s", m.Name, p.Name, p.Grid, p.Default)
			}
			for _, v := range p.Grid {
				if err := p.Check(v); err != nil {
					t.Errorf("%s.%s: %v", m.Name, p.Name, err)
				}
			}
		}
		all := combinations(m, nil)
		if len(all) > 36 {
			t.Errorf("%s has %d combinations", m.Name, len(all))
		}
		defaults, _ := m.Resolve(nil)
		if !maps.Equal(all[0], defaults) {
			t.Errorf("%s: the first combination is %v", m.Name, all[0])
		}
		seen := map[string]bool{}
		for _, c := range all {
			seen[TunedName(m.Name, c, nil)] = true
		}
		if len(seen) != len(all) {
			t.Errorf("%s: %d of %d combinations differ", m.Name, len(seen), len(all))
		}
	}
}

// TestTuneWithinMemory: combinations that would exceed the memory are not tried, and if none is left the error says so.
func TestTuneWithinMemory(t *testing.T) {
	train := synthetic(94, 120, 4, 3)
	fitted := false
	begun := func(float64) { fitted = true }
	_, err := Tune(t.Context(), train, Config{Method: "mfa", Memory: 1000}, []int{2}, begun)
	if large := (*MemoryError)(nil); !errors.As(err, &large) || fitted {
		t.Errorf("folds were fitted: %v; error %v", fitted, err)
	}
	c := Config{Method: "lpp", Params: map[string]string{"k": "5"}}
	few := c.MemoryEstimate(120, 120, 4)
	c = Config{Method: "lpp", Memory: few}
	tuned, err := Tune(t.Context(), train, c, []int{2}, begun)
	more := func(p map[string]string) bool { return p["k"] != "5" }
	if _, err := Tune(t.Context(), train, Config{Method: "lpp"}, []int{2}, nil); err != nil {
		t.Errorf("without progress: %v", err)
	}
	if err != nil || len(tuned[2]) == 0 || slices.ContainsFunc(tuned[2], more) {
		t.Errorf("%v, error %v", tuned, err)
	}
}

// TestNamesOfTunedParameters: a combination is named by its parameters with a grid that were not given; defaults are
// tried first.
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
