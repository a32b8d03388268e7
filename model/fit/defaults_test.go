package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/score"
)

// beta of dla is the one of 0.3, 0.5, 0.1 and 1 with the most correct held-out rows, ties to the first.
func TestDLAChoosesItsBeta(t *testing.T) {
	chosen := map[string]bool{}
	for name, data := range map[string]*model.Data{"iris": fixture.Dataset(t, "iris"),
		"vowel": fixture.Dataset(t, "vowel").Subset(every(990, 3)), "clouds": synthetic(52, 90, 6, 3)} {
		p, err := frame.Prepare(t.Context(), data, true, false, &model.Report{})
		if err != nil {
			t.Fatal(err)
		}
		_, fold := frame.Folds(p, frame.MaxValidated, 3, 0)
		best, most := "", -1
		for _, beta := range []string{"0.3", "0.5", "0.1", "1"} {
			correct := 0
			for f := range 3 {
				train, test := frame.HeldOut(linalg.Range(data.N), fold, f)
				m := fit(t, data.Subset(train), Config{Method: "dla", Params: map[string]string{"beta": beta}})
				right, err := score.Correct(t.Context(), m, data.Subset(train), data.Subset(test), 1)
				if err != nil {
					t.Fatal(err)
				}
				correct += right
			}
			if correct > most {
				best, most = beta, correct
			}
		}
		chosen[best] = true
		got := fit(t, data, Config{Method: "dla"})
		want := fit(t, data, Config{Method: "dla", Params: map[string]string{"beta": best}})
		if !slices.Equal(got.Components(), want.Components()) {
			t.Errorf("%s: not the map of beta %s", name, best)
		}
		if notes := strings.Join(got.Report().Notes, "; "); !strings.Contains(notes, "beta "+best+" by cross-validation") ||
			!strings.Contains(notes, fmt.Sprintf("%d with %s", most, best)) {
			t.Errorf("%s, beta %s with %d right: %q", name, best, most, notes)
		}
	}
	if len(chosen) < 2 {
		t.Errorf("all sets choose %v: a fixed one would pass", chosen)
	}
	few := synthetic(28, 6, 4, 3)
	if notes := strings.Join(fit(t, few, Config{Method: "dla"}).Report().Notes, "; "); !strings.Contains(notes,
		"beta 0.3 without cross-validation") {
		t.Errorf("without rows to hold out: %q", notes)
	}
}

// lsda on components with a share of the variance is lsda of the outputs of pca, with at least as many of them as
// outputs.
func TestLSDABehindComponents(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	total := 0.0
	for _, v := range fit(t, data, Config{Method: "pca", Dim: 13}).Eigenvalues() {
		total += v
	}
	for share, d := range map[float64]int{0.5: 2, 0.9: 3, 0.1: 4} {
		components := fit(t, data, Config{Method: "pca", Dim: 13})
		k, sum := 0, 0.0
		for ; k < d || sum < share*total; k++ {
			sum += components.Eigenvalues()[k]
		}
		rows := &model.Data{N: data.N, M: k, Y: data.Y, Classes: data.Classes}
		y, err := score.Outputs(t.Context(), fit(t, data, Config{Method: "pca", Dim: k}), data)
		if err != nil {
			t.Fatal(err)
		}
		rows.X = y
		for _, ridge := range []string{"0", "0.1"} {
			front := fit(t, data, Config{Method: "lsda", Dim: d, Params: map[string]string{"ridge": ridge,
				"pca": fmt.Sprint(share)}})
			behind := fit(t, rows, Config{Method: "lsda", Dim: d, Scale: model.ScaleNone, Params: map[string]string{
				"ridge": ridge, "pca": "1"}})
			// The outputs of pca are float32.
			if e := apartEmbedded(centredOutputs(t, behind, rows), centredOutputs(t, front, data)); !(e <= 1e-4) {
				t.Errorf("share %g, ridge %s: outputs are %.2g apart from those of %d components", share, ridge, e, k)
			}
		}
	}
}

// With more than 100 columns held-out rows decide whether components are used, together with the ridge.
func TestLSDAChoosesComponents(t *testing.T) {
	wide, narrow := synthetic(50, 330, 110, 3), synthetic(50, 330, 100, 3)
	if r := fit(t, narrow, Config{Method: "lsda"}).Report().Ridge; r.Share != 0 || len(r.Scores) != 6 {
		t.Errorf("100 columns: share %g of %d scores", r.Share, len(r.Scores))
	}
	m := fit(t, wide, Config{Method: "lsda"})
	r := m.Report().Ridge
	if len(r.Scores) != 12 || r.Share != 1 && r.Share != 0.98 {
		t.Fatalf("110 columns: share %g of %d scores", r.Share, len(r.Scores))
	}
	most := slices.MaxFunc(r.Scores, func(a, b model.RidgeScore) int { return a.Correct - b.Correct })
	if !slices.ContainsFunc(r.Scores, func(s model.RidgeScore) bool {
		return s.Share == r.Share && s.Ridge == r.Relative && s.Correct == most.Correct
	}) {
		t.Errorf("share %g and ridge %g of %+v", r.Share, r.Relative, r.Scores)
	}
	given := fit(t, wide, Config{Method: "lsda", Params: map[string]string{"pca": fmt.Sprint(r.Share),
		"ridge": fmt.Sprint(r.Relative)}})
	if e := apart(matrixOf(m), matrixOf(given)); !(e <= 1e-9) {
		t.Errorf("the map differs by %.2g from that of what was chosen", e)
	}
	for _, share := range []string{"0", "1.1", "NaN", "most"} {
		if err := (Config{Method: "lsda", Params: map[string]string{"pca": share}}).Validate(); err == nil {
			t.Errorf("pca=%s is taken", share)
		}
	}
}

// The defaults of a learned similarity are relative to the rows, so they do not depend on the unit.
func TestLearnedSimilarityFollowsTheUnit(t *testing.T) {
	data := synthetic(51, 60, 5, 3)
	for _, method := range []string{"lenews", "lenewks", "lppnews"} {
		c := Config{Method: method, Dim: 2, Scale: model.ScaleNone}
		want := centredOutputs(t, fit(t, data, c), data)
		for _, unit := range []float64{1e-4, 1e4} {
			other := *data
			other.X = slices.Clone(data.X)
			for i := range other.X {
				other.X[i] *= unit
			}
			got := centredOutputs(t, fit(t, &other, c), &other)
			got.Scale(mat.Norm(want, 2)/mat.Norm(got, 2), got) // those of a linear map have the unit of the rows
			if e := apart(want, got); !(e < 1e-4) || math.IsNaN(e) {
				t.Errorf("%s: outputs of rows times %g are %.2g apart", method, unit, e)
			}
		}
	}
}
