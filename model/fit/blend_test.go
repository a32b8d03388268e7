package fit

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/score"
)

// The outputs of a blend are the principal components of its members' outputs, each member by itself divided by the
// root of its total variance.
func TestBlendIsPrincipalComponentsOfItsMembers(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	of := []model.Member{{Method: "mfa", Scale: model.ScaleMinMax, Dim: 4, Params: map[string]string{"ridge": "0.1"}},
		{Method: "pca", Scale: model.ScaleNone, Dim: 3}, {Method: "lda", Scale: model.ScaleStandard, Dim: 2,
			Params: map[string]string{"ridge": "oas"}}}
	const d = 5
	m := fit(t, data, Config{Method: Blend, Dim: d, Params: map[string]string{"members": membersText(of)}})
	side := mat.NewDense(data.N, 9, nil)
	at := 0
	for _, one := range of {
		y := centredOutputs(t, fit(t, data, Config{Method: one.Method, Dim: one.Dim, Scale: one.Scale,
			Params: one.Params}), data)
		total := 0.0
		for _, v := range y.RawMatrix().Data {
			total += v * v / float64(data.N)
		}
		for c := range one.Dim {
			for i := range data.N {
				side.Set(i, at, y.At(i, c)/math.Sqrt(total))
			}
			at++
		}
	}
	var svd mat.SVD
	if !svd.Factorize(side, mat.SVDThin) {
		t.Fatal("no decomposition")
	}
	var u mat.Dense
	svd.UTo(&u)
	y := centredOutputs(t, m, data)
	for c := range d {
		s := svd.Values(nil)[c]
		sign := math.Copysign(1, mat.Dot(u.ColView(c), y.ColView(c)))
		for i := range data.N {
			if want := sign * s * u.At(i, c); math.Abs(y.At(i, c)-want) > 1e-4*s {
				t.Fatalf("row %d, output %d is %g, by hand %g", i, c, y.At(i, c), want)
			}
		}
	}
	if m.Map() != "linear" {
		t.Errorf("a blend of linear methods is %s", m.Map())
	}
}

// centredOutputs are the outputs of all rows about their mean.
func centredOutputs(t *testing.T, m *model.Model, data *model.Data) *mat.Dense {
	t.Helper()
	y, err := score.Outputs(t.Context(), m, data)
	if err != nil {
		t.Fatal(err)
	}
	out := mat.NewDense(data.N, m.Dim(), y)
	for c := range m.Dim() {
		mean := mat.Sum(out.ColView(c)) / float64(data.N)
		for i := range data.N {
			out.Set(i, c, out.At(i, c)-mean)
		}
	}
	return out
}

// What auto blended fits other rows in the same way, and the same rows to the same model.
func TestAutoBlends(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	m := fit(t, data, Config{Dim: AutoDim})
	choice := m.Report().Choice
	if m.Method() != Blend || choice.Method != Blend || len(choice.Members) != defaultBlend || choice.Dim != m.Dim() {
		t.Fatalf("%s at %d of %+v", m.Method(), m.Dim(), choice.Members)
	}
	seen := map[string]bool{}
	for _, one := range choice.Members {
		family := one.Method + " " + string(one.Scale)
		if seen[family] {
			t.Errorf("%s is in the blend twice", family)
		}
		seen[family] = true
	}
	settled := Config{Dim: AutoDim}.Settled(choice)
	if again := fit(t, data, settled); again.Digest() != m.Digest() {
		t.Errorf("fitted again as %+v it is another model", settled)
	}
	few := fit(t, data.Subset(every(data.N, 2)), settled)
	if few.Dim() != m.Dim() || few.Params()["members"] != m.Params()["members"] {
		t.Errorf("half of the rows give %d outputs of %s", few.Dim(), few.Params()["members"])
	}
	best := fit(t, data, Config{Dim: AutoDim, Blend: 1})
	if best.Method() == Blend || len(best.Report().Choice.Members) > 0 {
		t.Errorf("blend 1 is %s", best.Method())
	}
	if two := fit(t, data, Config{Dim: 2, Blend: 3}); two.Dim() != 2 || len(two.Report().Choice.Members) != 3 {
		t.Errorf("%d outputs of %+v", two.Dim(), two.Report().Choice.Members)
	}
	for _, s := range fit(t, data, Config{Scale: model.ScaleNone, Dim: 2}).Report().Choice.Scores {
		if s.Method != Blend && s.Scale != model.ScaleNone {
			t.Fatalf("a scale that was given is compared: %+v", s)
		}
	}
}

func every(n, step int) (out []int) {
	for i := 0; i < n; i += step {
		out = append(out, i)
	}
	return out
}

// A member that these rows do not allow is left out and named; the others blend.
func TestBlendWithoutAMember(t *testing.T) {
	data := fixture.Degenerate()["single rows"]
	m := fit(t, data, Config{Method: Blend, Dim: 1,
		Params: map[string]string{"members": "mfa/standard/1/ridge=oas,pca/none/1"}})
	notes := strings.Join(m.Report().Notes, "; ")
	if !strings.Contains(notes, "mfa at scale standard is not in the blend") {
		t.Errorf("the report says %q", notes)
	}
}

func TestBadBlends(t *testing.T) {
	data := fixture.Dataset(t, "iris")
	for members, want := range map[string]string{
		"":                       "give method/scale/dim",
		"lda/standard":           "give method/scale/dim",
		"lda/standard/none":      `dim "none"`,
		"lda/standard/0":         `dim "0"`,
		"lda/big/1":              `unknown scale "big"`,
		"ldb/standard/1":         `unknown method "ldb"`,
		"auto/standard/1":        `unknown method "auto"`,
		"blend/standard/1":       `unknown method "blend"`,
		"ksmpa/standard/1":       "ksmpa is not linear",
		"lda/standard/1/ridge":   `parameter "ridge"; give name=value`,
		"lda/standard/1/width=2": `method lda has no parameter "width"`,
	} {
		_, err := Fit(t.Context(), data, Config{Method: Blend, Params: map[string]string{"members": members}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("members %q: %v, want %q", members, err, want)
		}
	}
	if err := (Config{Blend: -1}).Validate(); err == nil || !strings.Contains(err.Error(), "blend is -1") {
		t.Errorf("blend -1: %v", err)
	}
	if _, err := Fit(t.Context(), data, Config{Method: Blend}); err == nil || !strings.Contains(err.Error(), "member") {
		t.Errorf("a blend of nothing: %v", err)
	}
}
