package fit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/internal/fail"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/method/manifold"
	"github.com/embedd/embedd/model/score"
)

// rolledPlane is n rows of a plane rolled up in three dimensions.
func rolledPlane(seed uint64, n int) *model.Data {
	r := rand.New(rand.NewPCG(seed, 3))
	d := &model.Data{N: n, M: 3}
	for range n {
		a := 1.5 * math.Pi * (1 + 2*r.Float64())
		d.X = append(d.X, a*math.Cos(a), 21*r.Float64(), a*math.Sin(a))
	}
	return d
}

var manifoldMethods = []string{"le", "lle", "isomap"}

// embeddingOf returns the embedding of the rows of the fit, n x d in float64.
func embeddingOf(m *model.Model) *mat.Dense {
	e := trainingOf(m.Content().Map)
	return mat.NewDense(e.Len(), e.D, e.Embedding)
}

// denseWeights are the union of heat weights by looking at all pairs; t = 0
// is the mean squared distance to the nearest row.
func denseWeights(x []float64, n, m, k int, t float64) *mat.Dense {
	d2 := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			d2.Set(i, j, linalg.SquaredDistance(x[i*m:(i+1)*m], x[j*m:(j+1)*m]))
		}
	}
	order := make([][]int, n)
	mean := 0.0
	for i := range n {
		row := d2.RawRowView(i)
		order[i] = linalg.Range(n)
		slices.SortFunc(order[i], func(a, b int) int {
			if row[a] < row[b] || row[a] == row[b] && a < b {
				return -1
			}
			return 1
		})
		order[i] = slices.DeleteFunc(order[i], func(j int) bool { return j == i })[:k]
		mean += row[order[i][0]] / float64(n)
	}
	if t == 0 {
		t = mean
	}
	w := mat.NewDense(n, n, nil)
	for i := range n {
		for _, j := range order[i] {
			v := math.Exp(-d2.At(i, j) / t)
			w.Set(i, j, v)
			w.Set(j, i, v)
		}
	}
	return w
}

// worse is the least trace of a over 100 random Y with Y'Y = I, Y orthogonal to q.
func worse(rng *rand.Rand, a mat.Matrix, q *mat.VecDense, cols int) float64 {
	n, _ := a.Dims()
	least := math.Inf(1)
	for range 100 {
		y := mat.NewDense(n, cols+1, nil)
		y.SetCol(0, mat.Col(nil, 0, q))
		for i := range n {
			for j := range cols {
				y.Set(i, j+1, rng.NormFloat64())
			}
		}
		var qr mat.QR
		qr.Factorize(y)
		var full mat.Dense
		qr.QTo(&full)
		least = min(least, mat.Trace(form(a, mat.DenseCopyOf(full.Slice(0, n, 1, cols+1)))))
	}
	return least
}

// lowest are the eigenvalues of a, ascending, by the full decomposition.
func lowest(t *testing.T, a *mat.SymDense) []float64 {
	var eig mat.EigenSym
	if !eig.Factorize(a, false) {
		t.Fatal("eigenvalues")
	}
	return eig.Values(nil)
}

func TestLEMeetsItsPencil(t *testing.T) {
	for name, data := range map[string]*model.Data{"wine": fixture.Dataset(t, "wine"), "roll": rolledPlane(1, 250)} {
		m := fit(t, data, Config{Method: "le", Dim: 3, Params: map[string]string{"t": "2"}})
		w := denseWeights(trainingOf(m.Content().Map).Rows, data.N, data.M, 10, 2)
		n, d := data.N, mat.NewVecDense(data.N, nil)
		for i := range n {
			d.SetVec(i, mat.Sum(w.RowView(i)))
		}
		degree, lap, normal := mat.NewSymDense(n, nil), mat.NewSymDense(n, nil), mat.NewSymDense(n, nil)
		root := mat.NewVecDense(n, nil)
		for i := range n {
			degree.SetSym(i, i, d.AtVec(i))
			root.SetVec(i, math.Sqrt(d.AtVec(i)))
			for j := i; j < n; j++ {
				v := -w.At(i, j)
				if i == j {
					v += d.AtVec(i)
				}
				lap.SetSym(i, j, v)
				normal.SetSym(i, j, v/math.Sqrt(d.AtVec(i)*d.AtVec(j)))
			}
		}
		y := embeddingOf(m)
		if e := notIdentity(form(degree, y)); !(e <= 1e-9) {
			t.Errorf("%s: v'Dv differs from I by %g", name, e)
		}
		var constant mat.Dense
		constant.Mul(d.T(), y)
		if e := mat.Norm(&constant, 2); !(e <= 1e-9) {
			t.Errorf("%s: the constant has a part of %g", name, e)
		}
		if e := equation(lap, degree, y, m.Eigenvalues()); !(e <= 1e-7) {
			t.Errorf("%s: residual %g", name, e)
		}
		for c, l := range m.Eigenvalues() {
			if want := lowest(t, normal)[c+1]; !(math.Abs(l-want) <= 1e-9) {
				t.Errorf("%s: eigenvalue %d is %g, want %g", name, c, l, want)
			}
		}
		// The out-of-sample extension returns the rows of the fit from their own weights.
		for i := range n {
			for c, l := range m.Eigenvalues() {
				got := mat.Dot(w.RowView(i), y.ColView(c)) / d.AtVec(i) / (1 - l)
				if !(math.Abs(got-y.At(i, c)) <= 1e-9) {
					t.Fatalf("%s: row %d goes to %g, not %g", name, i, got, y.At(i, c))
				}
			}
		}
		if other := worse(rand.New(rand.NewPCG(1, 1)), normal, root, 3); !(other >= sumOf(m.Eigenvalues())) {
			t.Errorf("%s: a random embedding has %g, le %g", name, other, sumOf(m.Eigenvalues()))
		}
	}
}

func sumOf(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

func TestLLEMeetsItsProblem(t *testing.T) {
	for name, data := range map[string]*model.Data{"wine": fixture.Dataset(t, "wine"), "roll": rolledPlane(2, 250)} {
		const d = 3
		m := fit(t, data, Config{Method: "lle", Dim: d})
		n := data.N
		x := mat.NewDense(n, data.M, trainingOf(m.Content().Map).Rows)
		lists, err := graph.Nearest(t.Context(), x, 10)
		if err != nil {
			t.Fatal(err)
		}
		residual, a := mat.NewDense(n, n, nil), mat.NewSymDense(n, nil)
		for i := range n {
			// Weights by solving the whole local system.
			index, _ := lists.Row(i)
			g, ones := mat.NewSymDense(len(index), nil), mat.NewVecDense(len(index), nil)
			for p, j := range index {
				ones.SetVec(p, 1)
				for q, l := range index {
					var dj, dl mat.VecDense
					dj.SubVec(x.RowView(i), x.RowView(j))
					dl.SubVec(x.RowView(i), x.RowView(l))
					g.SetSym(p, q, mat.Dot(&dj, &dl))
				}
			}
			var w mat.VecDense
			if err := w.SolveVec(ridged(g, 1e-3*mat.Trace(g)), ones); err != nil {
				t.Fatal(err)
			}
			w.ScaleVec(-1/mat.Sum(&w), &w)
			residual.Set(i, i, 1)
			for p, j := range index {
				residual.Set(i, j, w.AtVec(p))
			}
		}
		a.SymOuterK(1, residual.T())
		y := embeddingOf(m)
		y.Scale(1/math.Sqrt(float64(n)), y)
		if e := notIdentity(form(ridged(mat.NewSymDense(n, nil), 1), y)); !(e <= 1e-9) {
			t.Errorf("%s: Y'Y/n differs from I by %g", name, e)
		}
		ones := mat.NewVecDense(n, nil)
		for i := range n {
			ones.SetVec(i, 1)
		}
		var constant, ay mat.Dense
		constant.Mul(ones.T(), y)
		if e := mat.Norm(&constant, 2); !(e <= 1e-8) {
			t.Errorf("%s: the constant has a part of %g", name, e)
		}
		values := lowest(t, a)
		ay.Mul(a, y)
		for c, l := range m.Eigenvalues() {
			if !(math.Abs(l-values[c+1]) <= 1e-9*values[n-1]) {
				t.Errorf("%s: eigenvalue %d is %g, want %g", name, c, l, values[c+1])
			}
			var r mat.VecDense
			r.AddScaledVec(ay.ColView(c), -l, y.ColView(c))
			if e := mat.Norm(&r, 2); !(e <= 1e-3*(values[c+2]-values[c+1])) {
				t.Errorf("%s: residual %g of column %d, the next eigenvalue is %g away", name, e, c,
					values[c+2]-values[c+1])
			}
		}
		if other := worse(rand.New(rand.NewPCG(2, 1)), a, ones, d); !(other >= sumOf(m.Eigenvalues())) {
			t.Errorf("%s: a random embedding has %g, lle %g", name, other, sumOf(m.Eigenvalues()))
		}
	}
}

// With every row a neighbour, geodesics are distances and ISOMAP is classical
// scaling: the scores of PCA, and distances in all dimensions.
func TestIsomapOfAllNeighboursIsPCA(t *testing.T) {
	data := synthetic(5, 60, 4, 3)
	all := map[string]string{"k": "59"}
	m := fit(t, data, Config{Method: "isomap", Dim: 4, Params: all})
	p := fit(t, data, Config{Method: "pca", Dim: 4})
	scores := mat.NewDense(60, 4, exact(p, data.X))
	y := embeddingOf(m)
	for c := range 4 {
		a, b := y.ColView(c), scores.ColView(c)
		sign := math.Copysign(1, mat.Dot(a, b))
		var diff mat.VecDense
		diff.AddScaledVec(a, -sign, b)
		if e := mat.Norm(&diff, 2) / mat.Norm(b, 2); !(e <= 1e-8) {
			t.Errorf("column %d is %g off the scores", c, e)
		}
		if l := m.Eigenvalues()[c]; !(math.Abs(l/60/p.Eigenvalues()[c]-1) <= 1e-9) {
			t.Errorf("eigenvalue %d is %g, n times %g", c, l, p.Eigenvalues()[c])
		}
	}
	var dim *model.DimError
	if _, err := Fit(t.Context(), data, Config{Method: "isomap", Dim: 5, Params: all}); !errors.As(err, &dim) ||
		dim.Max != 4 {
		t.Errorf("five dimensions of four: %v", err)
	}
	// New rows by the rule are the scores too.
	x := synthetic(6, 20, 4, 3).X
	want := exact(p, x)
	got := project(t, m, model.DenseRows(x, 20, 4))
	for i, v := range got {
		c := i % 4
		sign := math.Copysign(1, y.At(0, c)*scores.At(0, c))
		if !(math.Abs(float64(v)*sign-want[i]) <= 0.2*(1+math.Abs(want[i]))) {
			t.Errorf("new row %d, output %d is %g, the score is %g", i/4, c, v, want[i])
		}
	}
}

func TestIsomapMeetsItsProblem(t *testing.T) {
	data := rolledPlane(3, 250)
	m := fit(t, data, Config{Method: "isomap", Dim: 3})
	n := data.N
	x := mat.NewDense(n, data.M, trainingOf(m.Content().Map).Rows)
	lists, err := graph.Nearest(t.Context(), x, 10)
	if err != nil {
		t.Fatal(err)
	}
	lengths, err := lists.Weights(graph.Union, graph.Length)
	if err != nil {
		t.Fatal(err)
	}
	g, err := graph.Geodesics(t.Context(), lengths)
	if err != nil {
		t.Fatal(err)
	}
	b, mean, total := mat.NewSymDense(n, nil), make([]float64, n), 0.0
	for i := range n {
		for j := range n {
			mean[i] += g.At(i, j) * g.At(i, j) / float64(n)
		}
		total += mean[i] / float64(n)
	}
	for i := range n {
		for j := i; j < n; j++ {
			b.SetSym(i, j, -(g.At(i, j)*g.At(i, j)-mean[i]-mean[j]+total)/2)
		}
	}
	y := embeddingOf(m)
	yy := form(ridged(mat.NewSymDense(n, nil), 1), y)
	values := lowest(t, b)
	for c, l := range m.Eigenvalues() {
		if !(math.Abs(l-values[n-1-c]) <= 1e-9*values[n-1]) || !(math.Abs(yy.At(c, c)-l) <= 1e-9*l) {
			t.Errorf("eigenvalue %d is %g and y'y %g, want %g", c, l, yy.At(c, c), values[n-1-c])
		}
	}
	if e := equation(b, ridged(mat.NewSymDense(n, nil), 1), y, m.Eigenvalues()); !(e <= 1e-9) {
		t.Errorf("residual %g", e)
	}
	ones := mat.NewVecDense(n, nil)
	for i := range n {
		ones.SetVec(i, 1)
	}
	negative := mat.NewSymDense(n, nil)
	negative.ScaleSym(-1, b)
	if other := -worse(rand.New(rand.NewPCG(3, 1)), negative, ones, 3); !(other <= sumOf(m.Eigenvalues())) {
		t.Errorf("a random embedding has %g, isomap %g", other, sumOf(m.Eigenvalues()))
	}
	// The roll is curved: some eigenvalues are negative, and the report says so.
	if notes := strings.Join(m.Report().Notes, "\n"); !(values[0] <= -1e-6*values[n-1]) ||
		!strings.Contains(notes, "not Euclidean") {
		t.Errorf("least eigenvalue %g, notes %q", values[0], notes)
	}
	line := &model.Data{N: 30, M: 2}
	for i := range 30 {
		line.X = append(line.X, float64(i), 2*float64(i))
	}
	straight := fit(t, line, Config{Method: "isomap", Dim: 1, Params: map[string]string{"k": "4"}})
	if notes := strings.Join(straight.Report().Notes, "\n"); strings.Contains(notes, "not Euclidean") {
		t.Errorf("rows of a line: %q", notes)
	}
	// The rule is exact on the rows of the fit, and continuous there.
	e := m.Content().Map.(*mapping.Geodesic)
	p := fail.Must(e.Extension(3))
	w, z, out := p.Workspace(), make([]float64, 3), make([]float64, 3)
	for i := range n {
		copy(z, e.Rows[3*i:3*i+3])
		z[0] += 1e-10
		if _, err := p.Project(out, z, 1, w); err != nil {
			t.Fatal(err)
		}
		for c, v := range out {
			if !(math.Abs(v-y.At(i, c)) <= 1e-8) {
				t.Fatalf("row %d goes to %g, not %g", i, v, y.At(i, c))
			}
		}
	}
}

// The first coordinate of a rolled plane is the arc length along the roll, about half the square of the angle.
func TestIsomapUnrolls(t *testing.T) {
	data := rolledPlane(10, 600)
	m := fit(t, data, Config{Method: "isomap", Scale: model.ScaleNone, Params: map[string]string{"k": "5"}})
	along := mat.NewDense(data.N, 1, nil)
	for i := range data.N {
		angle := math.Hypot(data.X[3*i], data.X[3*i+2])
		along.Set(i, 0, angle*angle/2)
	}
	if c := math.Abs(stat.Correlation(mat.Col(nil, 0, embeddingOf(m)), along.RawMatrix().Data, nil)); !(c >= 0.99) {
		t.Errorf("correlation %.3f with the place along the roll", c)
	}
}

// apartEmbedded is the largest difference of two embeddings, columns up to sign.
func apartEmbedded(a, b *mat.Dense) float64 {
	n, d := a.Dims()
	c := mat.DenseCopyOf(b)
	for j := range d {
		if mat.Dot(a.ColView(j), b.ColView(j)) < 0 {
			for i := range n {
				c.Set(i, j, -c.At(i, j))
			}
		}
	}
	return apart(a, c)
}

// The embedding does not depend on the order of the rows, their origin, a rotation, or the number of cores.
func TestManifoldInvariances(t *testing.T) {
	data := rolledPlane(4, 200)
	r := rand.New(rand.NewPCG(8, 8))
	order := r.Perm(data.N)
	q := rotation(3, 3)
	for _, method := range manifoldMethods {
		c := Config{Method: method, Dim: 2, Scale: model.ScaleNone}
		m := fit(t, data, c)
		want := embeddingOf(m)
		mixed, turned := &model.Data{N: data.N, M: 3}, mat.NewDense(data.N, 3, nil)
		shuffled := mat.NewDense(data.N, 2, nil)
		for to, from := range order {
			mixed.X = append(mixed.X, data.X[3*from:3*from+3]...)
			shuffled.SetRow(to, want.RawRowView(from))
		}
		if e := apartEmbedded(shuffled, embeddingOf(fit(t, mixed, c))); !(e <= 1e-6) {
			t.Errorf("%s: rows in another order are %.2g apart", method, e)
		}
		turned.Mul(mat.NewDense(data.N, 3, data.X), q)
		for i := range data.N {
			turned.Set(i, 0, turned.At(i, 0)+100)
		}
		if e := apartEmbedded(want, embeddingOf(fit(t, &model.Data{X: turned.RawMatrix().Data, N: data.N, M: 3},
			c))); !(e <= 1e-6) {
			t.Errorf("%s: turned and moved rows are %.2g apart", method, e)
		}
		cores := runtime.GOMAXPROCS(1)
		one := fit(t, data, c)
		runtime.GOMAXPROCS(4)
		four := fit(t, data, c)
		runtime.GOMAXPROCS(cores)
		if one.Digest() != m.Digest() || four.Digest() != m.Digest() {
			t.Errorf("%s: the digest depends on the number of cores", method)
		}
	}
}

// Rows of the fit are mapped to their embedding, to the last bit of float32, and rows near them nearby: within a
// quarter of the spread for le, whose rule counts the row itself, much closer for the others.
func TestManifoldOutOfSample(t *testing.T) {
	for _, method := range manifoldMethods {
		for name, data := range map[string]*model.Data{"roll": rolledPlane(5, 300), "wine": fixture.Dataset(t, "wine"),
			"wide": synthetic(3, 30, 50, 3)} {
			m := fit(t, data, Config{Method: method})
			y := embeddingOf(m)
			got := project(t, m, model.DenseRows(data.X, data.N, data.M))
			for i, v := range got {
				if v != float32(y.At(i/2, i%2)) {
					t.Fatalf("%s, %s: row %d comes back at %g, not %g", method, name, i/2, v, y.At(i/2, i%2))
				}
			}
			moved := slices.Clone(data.X)
			for i := range moved {
				moved[i] += 1e-7 * m.Content().Scale[i%data.M]
			}
			near := project(t, m, model.DenseRows(moved, data.N, data.M))
			off, spread := 0.0, mat.Norm(centred(y), 2)
			for i, v := range near {
				off += (float64(v) - y.At(i/2, i%2)) * (float64(v) - y.At(i/2, i%2))
			}
			t.Logf("%s, %s: rows nearby are off by %.2g of the spread", method, name, math.Sqrt(off)/spread)
			if bound := map[string]float64{"le": 0.25, "lle": 0.01,
				"isomap": 1e-5}[method]; !(math.Sqrt(off) <= bound*spread) {
				t.Errorf("%s, %s: rows nearby are off by %.2g of the spread", method, name, math.Sqrt(off)/spread)
			}
		}
	}
}

// Missing values are replaced by the mean, in the fit as in the projection, so such a row is mapped to its embedding
// too.
func TestManifoldMissing(t *testing.T) {
	data := rolledPlane(6, 60)
	data.X[10], data.X[100] = math.NaN(), math.NaN()
	for _, scale := range []model.Scale{model.ScaleStandard, model.ScaleUnit, model.ScaleMinMax} {
		m := fit(t, data, Config{Method: "isomap", Scale: scale})
		y := embeddingOf(m)
		for i, v := range project(t, m, model.DenseRows(data.X, data.N, data.M)) {
			if v != float32(y.At(i/2, i%2)) {
				t.Fatalf("%s: row %d comes back at %g, not %g", scale, i/2, v, y.At(i/2, i%2))
			}
		}
	}
}

// Distant groups are connected, and the report says how; or they are an error that names their sizes.
func TestManifoldDisconnected(t *testing.T) {
	data := synthetic(7, 60, 4, 1)
	for i := range data.N {
		data.X[4*i] += float64(i % 3 * 1000)
	}
	for _, method := range manifoldMethods {
		m := fit(t, data, Config{Method: method, Scale: model.ScaleNone, Params: map[string]string{"k": "5"}})
		if notes := strings.Join(m.Report().Notes, "\n"); !strings.Contains(notes, "had 3 components") {
			t.Errorf("%s: notes %q", method, notes)
		}
		y := embeddingOf(m)
		// Rows keep to their group: the nearest row in the embedding is of it.
		flat := slices.Clone(y.RawMatrix().Data)
		for i, j := range fail.Must(score.Neighbors(t.Context(), flat, 60, flat, 60, 2, 2)) {
			if j%3 != i/2%3 {
				t.Errorf("%s: row %d is next to row %d of another group", method, i/2, j)
			}
		}
		_, err := Fit(t.Context(), data, Config{Method: method, Scale: model.ScaleNone,
			Params: map[string]string{"k": "5", "components": "error"}})
		var apart *graph.DisconnectedError
		if !errors.As(err, &apart) || !slices.Equal(apart.Sizes, []int{20, 20, 20}) {
			t.Errorf("%s: error %v, want three components of 20", method, err)
		}
	}
}

// Duplicates are valid rows; the embedding is that of the first.
func TestManifoldDuplicates(t *testing.T) {
	data := rolledPlane(8, 80)
	data.X = append(data.X, data.X[:3*40]...)
	data.N = 120
	for _, method := range manifoldMethods {
		m := fit(t, data, Config{Method: method})
		y := embeddingOf(m)
		for i, v := range project(t, m, model.DenseRows(data.X, data.N, 3)) {
			if first := i / 2 % 80; v != float32(y.At(first, i%2)) || !linalg.IsFinite(float64(v)) {
				t.Fatalf("%s: row %d is at %g, its first copy at %g", method, i/2, v, y.At(first, i%2))
			}
		}
	}
}

// The coordinates of classical scaling are in the units of the features.
func TestIsomapFollowsTheUnit(t *testing.T) {
	data := rolledPlane(9, 60)
	at := func(unit float64) (*model.Model, error) {
		other := *data
		other.X = slices.Clone(data.X)
		floats.Scale(unit, other.X)
		return Fit(context.Background(), &other, Config{Method: "isomap", Scale: model.ScaleNone})
	}
	want, err := at(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range []float64{0x1p-90, 0x1p90} {
		got, err := at(unit)
		if err != nil {
			t.Fatal(err)
		}
		for c, l := range got.Eigenvalues() {
			if e := math.Abs(l/unit/unit/want.Eigenvalues()[c] - 1); !(e < 1e-9) {
				t.Errorf("unit %g: eigenvalue %d is off by %g", unit, c, e)
			}
		}
	}
	// Squared distances of 1e-240: an error about the outputs, and no panic.
	if _, err := at(0x1p-400); err == nil {
		t.Error("outputs of size 1e-120 are no error")
	}
}

// Weights of 1 between nearly all rows show nothing, so with k above half of the rows le has heat weights.
func TestEqualWeightsNeedRows(t *testing.T) {
	for n, replaced := range map[int]bool{3: true, 12: true, 19: true, 20: false} {
		data := synthetic(96, n, 4, 1)
		equal := fit(t, data, Config{Method: "le", Dim: 1, Params: map[string]string{"t": "inf"}})
		heat := fit(t, data, Config{Method: "le", Dim: 1, Params: map[string]string{"t": "auto"}})
		rows := model.DenseRows(data.X, n, data.M)
		if slices.Equal(project(t, equal, rows), project(t, heat, rows)) != replaced {
			t.Errorf("%d rows: the outputs of heat weights: %v, want %v", n, !replaced, replaced)
		}
		if notes := strings.Join(equal.Report().Notes, "\n"); strings.Contains(notes, "in place of 1") != replaced {
			t.Errorf("%d rows: notes %q", n, notes)
		}
	}
}

// Few rows bound the dimension; fewer neighbours than asked for are noted.
func TestManifoldFewRows(t *testing.T) {
	data := rolledPlane(9, 4)
	for _, method := range manifoldMethods {
		m := fit(t, data, Config{Method: method, Dim: 1})
		if notes := strings.Join(m.Report().Notes, "\n"); m.Dim() != 1 ||
			!strings.Contains(notes, "k=10 was clamped to 3") {
			t.Errorf("%s: dim %d, notes %q", method, m.Dim(), notes)
		}
		var dim *model.DimError
		if _, err := Fit(t.Context(), data, Config{Method: method, Dim: 4}); !errors.As(err, &dim) || dim.Max != 3 {
			t.Errorf("%s: four dimensions of four rows: %v", method, err)
		}
		if _, err := Fit(t.Context(), &model.Data{X: []float64{1, 2, 3}, N: 1, M: 3},
			Config{Method: method}); err == nil || !strings.Contains(err.Error(), "at least 2") {
			t.Errorf("%s: one row: %v", method, err)
		}
	}
}

// TestIsomapBesideAnOutlier: a row a million times farther away than the distances of the others leaves their
// coordinates near rounding; they are as accurate as float64 allows.
func TestIsomapBesideAnOutlier(t *testing.T) {
	for seed := range uint64(30) {
		d := synthetic(seed, 40, 5, 2)
		d.X[0] = 1e7
		for _, scale := range []model.Scale{model.ScaleStandard, model.ScaleNone} {
			if _, err := Fit(context.Background(), d, Config{Method: "isomap", Dim: 2, Scale: scale}); err != nil {
				t.Errorf("seed %d, scale %s: %v", seed, scale, err)
			}
		}
	}
}

// Products with half of the squared distances are those of the centred matrix, whatever the number of cores.
func TestScalingIsTheMatrix(t *testing.T) {
	const n = 1190 // more than a span of columns, and no multiple of anything
	r := rand.New(rand.NewPCG(31, 1))
	d := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i + 1; j < n; j++ {
			d.SetSym(i, j, r.Float64())
		}
	}
	x := mat.NewDense(n, 9, nil)
	x.Apply(func(int, int, float64) float64 { return r.NormFloat64() }, x)
	centre := mat.NewDense(n, n, slices.Repeat([]float64{-1.0 / n}, n*n))
	squared := mat.NewDense(n, n, nil)
	for i := range n {
		centre.Set(i, i, centre.At(i, i)+1)
		for j := range n {
			squared.Set(i, j, d.At(i, j)*d.At(i, j))
		}
	}
	var want mat.Dense
	want.Mul(centre, x)
	want.Mul(squared, mat.DenseCopyOf(&want))
	want.Mul(centre, mat.DenseCopyOf(&want))
	want.Scale(-0.5, &want)
	s := manifold.NewScaling(t.Context(), d)
	got, again := mat.NewDense(n, 9, nil), mat.NewDense(n, 1, nil)
	s.Apply(t.Context(), got, x)
	if !mat.EqualApprox(got, &want, 1e-10) {
		t.Error("the products are off")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s.Apply(t.Context(), again, mat.DenseCopyOf(x.Slice(0, n, 8, 9)))
	if !mat.Equal(again, got.Slice(0, n, 8, 9)) {
		t.Error("other bits on one core, or for one vector")
	}
}

// TestIsomapRefusesManyRows: their geodesics are refused with the memory they would need, before they are computed.
func TestIsomapRefusesManyRows(t *testing.T) {
	many := &model.Data{N: 20_001, M: 1, X: make([]float64, 20_001)}
	for i := range many.X {
		many.X[i] = float64(i)
	}
	ctx, stop := context.WithCancel(t.Context())
	_, err := Fit(ctx, many, Config{Method: "isomap", Dim: 1, Progress: func(phase string, _ float64) {
		if phase == "neighbours" {
			stop()
		}
	}})
	if want := "20001 rows need 3 GB"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
