package fit

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/score"
)

// The outputs of a blend are the principal components of its members' outputs, each member divided by the root of its
// total variance, and by the root of the number of members of its method.
func TestBlendIsPrincipalComponentsOfItsMembers(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	of := []model.Member{{Method: "mfa", Scale: model.ScaleMinMax, Dim: 4, Params: map[string]string{"ridge": "0.1"}},
		{Method: "pca", Scale: model.ScaleNone, Dim: 3}, {Method: "lda", Scale: model.ScaleStandard, Dim: 2,
			Params: map[string]string{"ridge": "oas"}}, {Method: "pca", Scale: model.ScaleStandard, Dim: 4},
		{Method: "pca", Scale: model.ScaleNone, Dim: 3}} // again
	const d = 5
	m := fit(t, data, Config{Method: Blend, Dim: d, Params: blend.Params(of)})
	side := mat.NewDense(data.N, 16, nil)
	at := 0
	for _, one := range of {
		y := centredOutputs(t, fit(t, data, Config{Method: one.Method, Dim: one.Dim, Scale: one.Scale,
			Params: one.Params}), data)
		total := 0.0
		for _, v := range y.RawMatrix().Data {
			total += v * v / float64(data.N)
		}
		if one.Method == "pca" {
			total *= 3
		}
		for c := range one.Dim {
			for i := range data.N {
				side.Set(i, at, y.At(i, c)/math.Sqrt(total))
			}
			at++
		}
	}
	isPrincipalComponentsOf(t, m, data, side, d)
	if m.Map() != "linear" {
		t.Errorf("a blend of linear methods is %s", m.Map())
	}
}

func outputsOf(t *testing.T, m *model.Model, data *model.Data) []float64 {
	t.Helper()
	y, err := score.Outputs(t.Context(), m, data)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// centredOutputs are the outputs of all rows about their mean.
func centredOutputs(t *testing.T, m *model.Model, data *model.Data) *mat.Dense {
	t.Helper()
	out := mat.NewDense(data.N, m.Dim(), outputsOf(t, m, data))
	for c := range m.Dim() {
		mean := mat.Sum(out.ColView(c)) / float64(data.N)
		for i := range data.N {
			out.Set(i, c, out.At(i, c)-mean)
		}
	}
	return out
}

// The blend of auto fits other rows in the same way, and the same rows to the same model.
func TestAutoBlends(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	data = data.Subset(every(data.N, 2))
	m := fit(t, data, Config{Dim: AutoDim})
	choice := m.Report().Choice
	if m.Method() != Blend || choice.Method != Blend || len(choice.Members) < 2 || choice.Dim != m.Dim() {
		t.Fatalf("%s at %d of %+v", m.Method(), m.Dim(), choice.Members)
	}
	if m.Map() != "linear" { // one matrix, whatever its members: a projection costs as much as that of any linear model
		t.Errorf("a blend of linear members is %s", m.Map())
	}
	seen := map[string]bool{}
	for _, one := range choice.Members {
		family := one.Method + " " + string(one.Scale)
		if seen[family] {
			t.Errorf("%s is in the blend twice", family)
		}
		seen[family] = true
	}
	settled := Config{Dim: AutoDim}.WithChoice(choice)
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

// The scores of a blend are those of fits on the folds, and its members are those that the best one does not beat by
// three standard errors, on the same rows.
func TestBlendScoresAreCrossValidation(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	data = data.Subset(every(data.N, 2))
	m := fit(t, data, Config{Dim: AutoDim})
	choice := m.Report().Choice
	p, err := frame.Prepare(t.Context(), data, true, false, &model.Report{})
	if err != nil {
		t.Fatal(err)
	}
	// How often each row is correct for each candidate alone.
	rightOf := func(s model.Score) []int {
		right := make([]int, data.N)
		for f := range 3 * rounds {
			pick, fold := frame.Folds(p, frame.MaxValidated, 3, f/3)
			train, test := frame.HeldOut(pick, fold, f%3)
			in, held := data.Subset(train), data.Subset(test)
			m := fit(t, in, Config{Method: s.Method, Scale: s.Scale, Dim: s.Dim, Params: s.Params})
			nearest, err := score.Nearest(t.Context(), outputsOf(t, m, in), in.N, outputsOf(t, m, held), held.N, s.Dim)
			if err != nil {
				t.Fatal(err)
			}
			for i, j := range nearest {
				if in.Y[j] == held.Y[i] {
					right[test[i]]++
				}
			}
		}
		return right
	}
	member := func(s model.Score) bool {
		return slices.ContainsFunc(choice.Members, func(m model.Member) bool {
			return s.Method == m.Method && s.Scale == m.Scale && s.Dim == m.Dim && maps.Equal(s.Params, m.Params)
		})
	}
	seen := map[[2]string]bool{} // of each method and scale the best counts
	var top []int
	for _, s := range choice.Scores {
		if family := [2]string{s.Method, string(s.Scale)}; s.Method != Blend && !seen[family] && s.Method != "ksmpa" {
			seen[family] = true
			right := rightOf(s)
			if top == nil {
				top = right
			}
			if behind, deviation := paired(top, right); !(math.Abs(behind-3*deviation) <= 1) &&
				member(s) == (behind > 3*deviation) {
				t.Errorf("%+v is %g +- %g rows behind the best; a member: %v", s, behind, deviation, member(s))
			}
		}
	}
	for _, s := range choice.Scores {
		if s.Method != Blend || s.Dim != 2 && s.Dim != 10 {
			continue
		}
		correct := 0
		for f := range 3 * rounds {
			pick, fold := frame.Folds(p, frame.MaxValidated, 3, f/3)
			train, test := frame.HeldOut(pick, fold, f%3)
			in, held := data.Subset(train), data.Subset(test)
			right, err := score.Correct(t.Context(), fit(t, in, Config{Method: Blend, Dim: s.Dim,
				Params: map[string]string{"members": m.Params()["members"]}}), in, held, 1)
			if err != nil {
				t.Fatal(err)
			}
			correct += right
		}
		if s.Scored != data.N || !(math.Abs(rounds*s.Correct-float64(correct)) <= 1) { // rows may be as near as another
			t.Errorf("blend at %d: %g of %d right, by hand %g of %d", s.Dim, s.Correct, s.Scored,
				float64(correct)/rounds, data.N)
		}
	}
}

// A kernel is no member of a blend, so it competes with it if rows are few and there are two classes: here around each
// other, which neighbours separate and no line does.
func TestKernelBeatsTheBlend(t *testing.T) {
	data := rings(120)
	var inner []int // two of the three
	for i, y := range data.Y {
		if y < 2 {
			inner = append(inner, i)
		}
	}
	data = data.Subset(inner)
	data.Classes = data.Classes[:2]
	m := fit(t, data, Config{Dim: AutoDim})
	choice := m.Report().Choice
	if m.Method() != "ksmpa" || len(choice.Members) > 0 || choice.Scores[0].Method != "ksmpa" {
		t.Fatalf("%s at %d of %+v", m.Method(), m.Dim(), choice.Members)
	}
	given := Config{Params: map[string]string{"ridge": "1"}}.WithChoice(&model.Choice{Method: "ksmpa"}).Params
	if m.Params()["kernel"] != "gauss" || !maps.Equal(given, map[string]string{"kernel": "gauss", "ridge": "1"}) {
		t.Errorf("the kernel is %s, and with a given ridge the parameters are %v", m.Params()["kernel"], given)
	}
	if m := fit(t, data, Config{Dim: AutoDim, Blend: 3}); m.Method() != Blend {
		t.Errorf("a blend of 3 is asked for, and this is %s", m.Method())
	}
	if m := fit(t, fixture.Dataset(t, "wine"), Config{Dim: AutoDim}); m.Method() != Blend {
		t.Errorf("lines separate the wines, and this is %s", m.Method())
	}
}

// If every column would be kept, the blend has the smallest dimension that loses less than half a standard error.
func TestBlendReduces(t *testing.T) {
	data := synthetic(70, 90, 6, 3)
	m := fit(t, data, Config{Dim: AutoDim})
	if choice := m.Report().Choice; m.Method() != Blend || m.Dim() >= data.M || choice.Note != "" {
		t.Errorf("%s at %d of %d columns, %q", m.Method(), m.Dim(), data.M, choice.Note)
	}
	if most := fit(t, data, Config{Dim: AutoDim, MaxDim: 3}); most.Dim() != 3 {
		t.Errorf("%d outputs, at most 3 were asked for", most.Dim())
	}
	for _, c := range []struct {
		x, y            []int
		more, deviation float64
	}{
		{[]int{4, 4, 0, 2}, []int{4, 4, 0, 2}, 0, 0},
		{[]int{1, 1, 1, 0}, []int{0, 1, 1, 1}, 0, math.Sqrt2},
		{[]int{4, 0}, []int{0, 0}, 4, math.Sqrt(8)},
	} {
		if more, deviation := paired(c.x, c.y); more != c.more || !(math.Abs(deviation-c.deviation) <= 1e-12) {
			t.Errorf("%v is %g +- %g more than %v, want %g +- %g", c.x, more, deviation, c.y, c.more, c.deviation)
		}
	}
}

// A member that these rows do not allow is left out and named once; the others are blended.
func TestBlendWithoutAMember(t *testing.T) {
	data := degenerate()["single rows"]
	m := fit(t, data, Config{Method: Blend, Dim: 1,
		Params: map[string]string{"members": "mfa/standard/1/ridge=oas,pca/none/1,mfa/standard/1/ridge=oas"}})
	notes := strings.Join(m.Report().Notes, "; ")
	if strings.Count(notes, "mfa at scale standard is not in the blend") != 1 {
		t.Errorf("the report says %q", notes)
	}
}

// A member whose search did not converge is named, one that did is not.
func TestBlendNamesMembersThatDoNotConverge(t *testing.T) {
	data := fixture.Dataset(t, "iris")
	for iters, want := range map[string]bool{"1": true, "2000": false} {
		m := fit(t, data, Config{Method: Blend, Dim: 2,
			Params: map[string]string{"members": "tnca/standard/2/ridge=1/iters=" + iters + ",pca/standard/2"}})
		notes := strings.Join(m.Report().Notes, "; ")
		if got := strings.Contains(notes, "the search of tnca at scale standard stopped before it converged"); got != want ||
			strings.Contains(notes, "pca") {
			t.Errorf("with %s steps the report says %q", iters, notes)
		}
	}
}

func TestBadBlends(t *testing.T) {
	data := fixture.Dataset(t, "iris")
	for members, want := range map[string]string{
		"":                                   "give method/scale/dim",
		"lda/standard":                       "give method/scale/dim",
		"lda/standard/none":                  `dim "none"`,
		"lda/standard/0":                     `dim "0"`,
		"lda/big/1":                          `unknown scale "big"`,
		"ldb/standard/1":                     `unknown method "ldb"`,
		"auto/standard/1":                    `unknown method "auto"`,
		"blend/standard/1":                   `unknown method "blend"`,
		"ksmpa/standard/1":                   "ksmpa is not linear",
		"lda/standard/1/ridge":               `parameter "ridge"; give name=value`,
		"lda/standard/1/wide=2":              `method lda has no parameter "wide"`,
		"lda/standard/1/width=2":             "give landmarks too",
		"lda/standard/1/landmarks=9/width=0": `width "0"`,
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

// isPrincipalComponentsOf checks that the outputs of a model are the d principal components of the outputs of its
// members, except for signs.
func isPrincipalComponentsOf(t *testing.T, m *model.Model, data *model.Data, side *mat.Dense, d int) {
	t.Helper()
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
			if want := sign * s * u.At(i, c); !(math.Abs(y.At(i, c)-want) <= 1e-4*s) {
				t.Fatalf("row %d, output %d is %g, by hand %g", i, c, y.At(i, c), want)
			}
		}
	}
}

// A blend whose members are fitted from moments is too: it is the model of the same rows.
func TestBlendOfMoments(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	sums := moments.New(data.M, false)
	if err := sums.Add(t.Context(), data.X, data.Y); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		members string
		dim     int
		scale   model.Scale
	}{
		{"pca/standard/4,lda/standard/2/ridge=oas", 5, model.ScaleStandard},
		{"pca/standard/4,lda/standard/2/ridge=oas,pca/none/3", 0, model.ScaleStandard},
		{"pairacc/none/3,srda/standard/2/ridge=oas,sle/none/2,pca/standard/6,pca/none/2", 6, model.ScaleNone},
	} {
		config := Config{Method: Blend, Dim: c.dim, Scale: c.scale, Params: map[string]string{"members": c.members}}
		if about, err := config.Describe(); err != nil || about.Streaming != "moments" {
			t.Errorf("%s: learns from %q, %v", c.members, about.Streaming, err)
		}
		want := fit(t, data, config)
		got, err := FitMoments(t.Context(), sums, data.Features, data.Classes, config)
		if err != nil {
			t.Errorf("%s: %v", c.members, err)
			continue
		}
		if e := apart(matrixOf(want), matrixOf(got)); !(e <= 1e-9) || got.Method() != Blend || got.Rows() != want.Rows() ||
			got.Params()["members"] != c.members {
			t.Errorf("%s: %s of %d rows, %v, %.2g apart from that of rows", c.members, got.Method(), got.Rows(), got.Params(), e)
		}
	}
	for members, want := range map[string]string{
		"pca/standard/2,mfa/standard/2":                "member mfa/standard/2 needs the rows",
		"lda/minmax/2,pca/standard/2":                  "member lda/minmax/2 needs the rows",
		"pca/standard/2,lda/standard/2/landmarks=9":    "member lda/standard/2/landmarks=9/width=1 needs the rows",
		"pca/standard/2,lfda/rank/2,lda/standard/2":    "member lfda/rank/2 needs the rows",
		"pca/standard/2,lda/standard/2/ridge=a little": `member "lda/standard/2/ridge=a little"`,
	} {
		c := Config{Method: Blend, Params: map[string]string{"members": members}}
		if about, err := c.Describe(); err != nil || about.Streaming != "window" {
			t.Errorf("%s: learns from %q, %v", members, about.Streaming, err)
		}
		_, err := FitMoments(t.Context(), sums, data.Features, data.Classes, c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", members, err, want)
		}
	}
	err := Config{Method: Blend}.Validate()
	if err == nil || !strings.Contains(err.Error(), "needs the parameter members") {
		t.Errorf("a blend of nothing: %v", err)
	}
}

// Features in very different units leave fewer directions than the correlations of outputs show. auto uses those, and
// if a blend cannot be computed the best candidate is used.
func TestBlendOfUnitsFarApart(t *testing.T) {
	data := scaledFeature(fixture.Dataset(t, "wine"), 0, 1e9)
	m := fit(t, data, Config{Dim: AutoDim, Scale: model.ScaleNone})
	if choice := m.Report().Choice; choice.Rule != "cv" || !slices.ContainsFunc(choice.Scores, isBlend) {
		t.Errorf("rule %q, scores %+v, left out %v", choice.Rule, choice.Scores, choice.LeftOut)
	}
}

// paired is the difference of the sums of x and y and its standard error, from differences row by row.
func paired(x, y []int) (more, deviation float64) {
	for i := range x {
		more += float64(x[i] - y[i])
	}
	for i := range x {
		v := float64(x[i]-y[i]) - more/float64(len(x))
		deviation += v * v
	}
	return more, math.Sqrt(deviation)
}

func isBlend(s model.Score) bool { return s.Method == Blend }

// scaledFeature is the data with a feature in another unit.
func scaledFeature(d *model.Data, feature int, by float64) *model.Data {
	out := *d
	out.X = slices.Clone(d.X)
	for i := feature; i < len(out.X); i += d.M {
		out.X[i] *= by
	}
	return &out
}

// A blend with fewer outputs than the compared dimensions has those. If more were requested, the best candidate is
// used, and the report says why.
func TestBlendOfFewerOutputsThanChosen(t *testing.T) {
	data := synthetic(2, 90, 25, 3)
	chosen := func(dim int) *model.Model {
		t.Helper()
		c := Config{Method: Auto, Dim: dim, Blend: 2, Scale: model.ScaleAuto}
		r := &choose.Result{
			Blend: &model.Choice{Chosen: "method and dim", Method: Blend, Dim: 20, Members: []model.Member{
				{Method: "lda", Scale: model.ScaleStandard, Dim: 2}, {Method: "pca", Scale: model.ScaleStandard, Dim: 2}}},
			Candidates: slices.Values([]*model.Choice{{Method: "pca", Scale: model.ScaleStandard, Dim: 20}}),
		}
		m, err := fitBest(t.Context(), data, c, r)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := chosen(AutoDim)
	choice := m.Report().Choice
	if m.Method() != Blend || m.Dim() != 4 || choice.Dim != 4 ||
		!strings.HasPrefix(choice.Note, "4 outputs: blend: dim 20 exceeds") {
		t.Errorf("%s at %d, the choice is %d: %q", m.Method(), m.Dim(), choice.Dim, choice.Note)
	}
	if again := fit(t, data, Config{Dim: AutoDim}.WithChoice(choice)); again.Digest() != m.Digest() {
		t.Error("fitted again it is another model")
	}
	m = chosen(20)
	if choice := m.Report().Choice; m.Method() != "pca" || !strings.HasPrefix(choice.Note,
		"no blend: dim 20 exceeds rank 4") {
		t.Errorf("%s at %d: %q", m.Method(), m.Dim(), choice.Note)
	}
}

// A row has one set of kernels, so members have the same number of landmarks and width.
func TestBlendRefusesTwoKindsOfLandmarks(t *testing.T) {
	for members, ok := range map[string]bool{
		"lda/standard/2/landmarks=40,mfa/standard/2/landmarks=40/width=1,pca/none/2": true,
		"lda/standard/2/landmarks=40/width=1,mfa/standard/2/landmarks=40/width=4":    false,
		"lda/standard/2/landmarks=40,mfa/standard/2/landmarks=20":                    false,
	} {
		err := Config{Method: Blend, Params: map[string]string{"members": members}}.Validate()
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "give all members the same landmarks and width") {
			t.Errorf("%s: %v", members, err)
		}
	}
}

// TestMembersOfScaleUnit: rows are divided by their norm for all members of a blend, or for none.
func TestMembersOfScaleUnit(t *testing.T) {
	params := map[string]string{"members": "lda/unit/1,pca/standard/2"}
	for scale, want := range map[model.Scale]string{"": "blend standard", model.ScaleNone: "blend none",
		model.ScaleUnit: ""} {
		err := Config{Method: Blend, Scale: scale, Params: params}.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("scale %q: %v", scale, err)
		}
	}
	data := fixture.Dataset(t, "wine")
	m := fit(t, data, Config{Method: Blend, Dim: 2, Scale: model.ScaleUnit, Params: params})
	if !m.Unit() {
		t.Error("rows are not divided by their norm")
	}
}
