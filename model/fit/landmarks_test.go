package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/choose"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/preprocess"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/score"
)

// The model of a linear method with landmarks has the outputs of the method's model on the features of the landmarks,
// except for a constant. So tests of the methods apply to landmarks too.
func TestLandmarkModel(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	data = data.Subset(every(data.N, 2))
	for _, of := range append(linearMethods(), &choose.Method) {
		method := of.Name
		c := Config{Method: method, Dim: 2, Landmarks: 40, Seed: 3}
		m := fit(t, data, c)
		p, err := frame.Prepare(t.Context(), data, of.Supervised || of == &choose.Method, false, &model.Report{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := preprocess.DrawLandmarks(t.Context(), p, c.kernels(), c.Seed)
		if err != nil {
			t.Fatal(err)
		}
		phi, err := s.Data(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		alone := Config{Method: method, Dim: 2, Scale: model.ScaleNone, Seed: 3}
		if method == Auto { // which has separate landmarks in each fold
			alone = alone.WithChoice(m.Report().Choice)
		}
		behind := fit(t, phi, alone)
		got, want := centredOutputs(t, m, data), centredOutputs(t, behind, phi)
		if e := apartEmbedded(want, got); !(e <= 1e-4) {
			t.Errorf("%s: outputs and those of the landmarks' features are %.2g apart", method, e)
		}
		if again := fit(t, data, c); again.Digest() != m.Digest() {
			t.Errorf("%s: the same rows and seed give another model", method)
		}
		c.Seed = 4
		if other := fit(t, data, c); other.Digest() == m.Digest() {
			t.Errorf("%s: another seed draws the same landmarks", method)
		}
	}
}

// With landmarks a method depends no more on the order of the rows and the names of the classes than without.
func TestLandmarksFollowTheirRows(t *testing.T) {
	data := synthetic(3, 90, 6, 4)
	for i := range 3 { // equal rows, too
		copy(data.X[(4*i+8)*data.M:(4*i+9)*data.M], data.X[:data.M])
	}
	renamed := *data
	renamed.Classes, renamed.Y = slices.Clone(data.Classes), slices.Clone(data.Y)
	slices.Reverse(renamed.Classes)
	for i, c := range renamed.Y {
		renamed.Y[i] = len(data.Classes) - 1 - c
	}
	mixed := data.Subset(rand.New(rand.NewPCG(1, 2)).Perm(data.N))
	for _, method := range linearMethods() {
		c := Config{Method: method.Name, Params: fixed(method), Dim: 2, Landmarks: 12, Seed: 3}
		want := centredOutputs(t, fit(t, data, c), data)
		for name, other := range map[string]*model.Data{"in another order": mixed, "of classes with other names": &renamed} {
			// Outputs are float32, and ltsimr's gamma of 1e9 takes as many digits from the rest of it.
			if e := apart(want, centredOutputs(t, fit(t, other, c), data)); !(e <= 1e-5) {
				t.Errorf("%s: outputs of rows %s are %.2g apart", method.Name, name, e)
			}
		}
	}
}

// The landmarks that a model stores give the same features, to the bit, and a fit from moments of mapped rows is the
// fit from the rows.
func TestLandmarksAreKept(t *testing.T) {
	data := fixture.Dataset(t, "wine")
	first := data.Subset(every(data.N, 2))
	for _, c := range []Config{{Method: "lda", Dim: 2, Landmarks: 40}, {Method: "pairacc", Dim: 3, Landmarks: 40, Width: 2,
		Scale: model.ScaleMinMax}, {Method: "pca", Dim: 2, Landmarks: 500, Scale: model.ScaleUnit}} {
		c.Params = map[string]string{"ridge": "0.1"}
		if c.Method == "pca" {
			c.Params = nil
		}
		drawn, err := DrawLandmarks(t.Context(), first, c)
		if err != nil {
			t.Fatal(err)
		}
		m, err := drawn.Fit(t.Context(), first, c)
		if err != nil {
			t.Fatal(err)
		}
		if whole := fit(t, first, c); whole.Digest() != m.Digest() {
			t.Errorf("%s: a fit in one step gives another model", c.Method)
		}
		kept, err := LandmarksOf(t.Context(), m, c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := kept.Fit(t.Context(), data, c)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := drawn.Fit(t.Context(), data, c); err != nil || again.Digest() != want.Digest() {
			t.Errorf("%s: landmarks that were read back make other features: %v", c.Method, err)
		}
		s := moments.New(kept.Dim(), false)
		for from := 0; from < data.N; from += 50 {
			var rows [][]float64
			for i := from; i < min(from+50, data.N); i++ {
				rows = append(rows, data.X[i*data.M:(i+1)*data.M])
			}
			phi := make([]float64, len(rows)*kept.Dim())
			if err := kept.Map(t.Context(), phi, rows); err != nil {
				t.Fatal(err)
			}
			if err := s.Add(t.Context(), phi, data.Y[from:from+len(rows)]); err != nil {
				t.Fatal(err)
			}
		}
		byMoments, err := kept.FitMoments(t.Context(), s, data.Features, data.Classes, c)
		if err != nil {
			t.Fatal(err)
		}
		x := mat.NewDense(data.N, data.M, data.X)
		got, want := outputsAt(t, byMoments, x), outputsAt(t, again, x)
		var off mat.Dense
		if off.Sub(got, want); !(mat.Norm(&off, 2) <= 1e-6*mat.Norm(want, 2)) {
			t.Errorf("%s: from moments %v, from rows %v", c.Method, got.RawRowView(0), want.RawRowView(0))
		}
		for _, other := range []Config{{Landmarks: 41}, {Landmarks: c.Landmarks, Width: 3, Scale: c.Scale},
			{Landmarks: c.Landmarks, Width: c.Width, Scale: model.ScaleNone}} {
			if _, err := LandmarksOf(t.Context(), m, other); err == nil ||
				!strings.Contains(err.Error(), "was not fitted with") {
				t.Errorf("%s: landmarks as of %+v: %v", c.Method, other, err)
			}
		}
		for _, change := range []func(*mapping.KernelMap){
			func(k *mapping.KernelMap) { k.K = mapping.Kernel{Name: "linear"} },
			func(k *mapping.KernelMap) {
				for range 500 {
					k.Rows = append(slices.Clone(k.Rows), k.Rows[:data.M]...)
					k.Coefficients = append(slices.Clone(k.Coefficients), k.Coefficients[:k.D]...)
				}
			},
		} {
			content := m.Content()
			k := *content.Map.(*mapping.KernelMap)
			k.Tables = nil
			change(&k)
			content.Map = &k
			hostile, err := model.New(content)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := LandmarksOf(t.Context(), hostile, c); err == nil {
				t.Errorf("%s: %d landmarks of kernel %s were read", c.Method, len(k.Rows)/data.M, k.K.Name)
			}
		}
		linear := c
		linear.Landmarks = 0
		if _, err := LandmarksOf(t.Context(), fit(t, data, linear), c); err == nil {
			t.Errorf("%s: a linear model has landmarks", c.Method)
		}
	}
}

// Two rings, one inside the other: no straight line separates them, and lda with landmarks does.
func TestLandmarksPartRings(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	d := &model.Data{N: 400, M: 2, Classes: []string{"in", "out"}}
	for i := range d.N {
		a, radius := 2*math.Pi*r.Float64(), 1+float64(i%2)+0.1*r.NormFloat64()
		d.X = append(d.X, radius*math.Cos(a), radius*math.Sin(a))
		d.Y = append(d.Y, i%2)
	}
	train, test := d.Subset(linalg.Range(200)), d.Subset(linalg.Range(400)[200:])
	right := func(landmarks int) int {
		m := fit(t, train, Config{Method: "lda", Dim: 1, Landmarks: landmarks, Seed: 1})
		n, err := score.Correct(t.Context(), m, train, test, 1)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if straight, curved := right(0), right(30); straight > 160 || curved < 195 {
		t.Errorf("of 200 rows lda has %d right, behind 30 landmarks %d", straight, curved)
	}
}

// TestLandmarksOfOtherRows: rows of other features than those of the landmarks, and too little room, are errors.
func TestLandmarksOfOtherRows(t *testing.T) {
	l, err := DrawLandmarks(t.Context(), synthetic(7, 40, 4, 2), Config{Landmarks: 8})
	if err != nil {
		t.Fatal(err)
	}
	room := make([]float64, 3*l.Dim())
	for want, err := range map[string]error{
		"landmarks: row 1 has 3 features, the landmarks have 4": l.Map(t.Context(), room,
			[][]float64{{1, 2, 3, 4}, {1, 2, 3}}),
		"landmarks: row 0 has 5 features, the landmarks have 4": l.Map(t.Context(), room, [][]float64{{1, 2, 3, 4, 5}}),
		"landmarks: room for 0 numbers; 1 rows of 8 features need 8": l.Map(t.Context(), nil,
			[][]float64{{1, 2, 3, 4}}),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := l.Fit(t.Context(), synthetic(8, 40, 5, 2), Config{Method: "lda"}); err == nil ||
		err.Error() != "landmarks: row 0 has 5 features, the landmarks have 4" {
		t.Errorf("a fit of rows of five features: %v", err)
	}
}

func TestLandmarksOfWhatThereIs(t *testing.T) {
	_, err := new(Landmarks).FitMoments(t.Context(), moments.New(2, false), nil, nil, Config{Method: "pca"})
	if err == nil {
		t.Error("no landmarks: no error")
	}
	iris := fixture.Dataset(t, "iris")
	few := fit(t, iris, Config{Method: "lda", Dim: 1, Landmarks: 1000})
	if notes := strings.Join(few.Report().Notes, "; "); !strings.Contains(notes, "150 landmarks instead of 1000") ||
		!strings.Contains(notes, "has rank") {
		t.Errorf("more landmarks than rows, of which some are equal: %q", notes)
	}
	for _, c := range []Config{{Landmarks: -1}, {Landmarks: 3, Width: -1}, {Landmarks: 3, Width: math.NaN()},
		{Landmarks: 3, Width: math.Inf(1)}} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "landmarks is") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := Fit(t.Context(), iris, Config{Method: "isomap", Landmarks: 20}); err == nil ||
		!strings.Contains(err.Error(), "is not linear") {
		t.Errorf("isomap behind landmarks: %v", err)
	}
	if _, err := Fit(t.Context(), iris, Config{Method: "lda", Dim: 9, Landmarks: 20}); err == nil ||
		!strings.Contains(err.Error(), "on the features of 20 landmarks") {
		t.Errorf("too many outputs: %v", err)
	}
	constant := &model.Data{N: 3, M: 1, X: []float64{1, 1, 1}, Y: []int{0, 1, 0}, Classes: []string{"a", "b"}}
	if _, err := Fit(t.Context(), constant, Config{Method: "lda", Landmarks: 2}); err == nil ||
		!strings.Contains(err.Error(), "no feature varies") {
		t.Errorf("rows that are all the same: %v", err)
	}
}
