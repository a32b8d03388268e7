package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// randomTraining is n rows of m features about 0 with an embedding of d.
func randomTraining(r *rand.Rand, n, m, d int) mapping.Training {
	return mapping.Training{D: d, Rows: normals(r, n*m), Embedding: normals(r, n*d)}
}

// ring joins n rows in a ring, with some more edges.
func ring(r *rand.Rand, n int) (edge, length []float64) {
	for i := range n {
		edge, length = append(edge, float64(i), float64((i+1)%n)), append(length, 1+r.Float64())
		if i%3 == 0 {
			edge, length = append(edge, float64(i), float64(r.IntN(n))), append(length, r.Float64())
		}
	}
	return edge, length
}

// rowMappings has one mapping of every kind that stores rows, with n rows of m.
func rowMappings(n, m int) map[string]mapping.Map {
	const d = 2
	r := rand.New(rand.NewPCG(uint64(n), uint64(m)))
	lambda := []float64{0.1, 0.3}
	k := min(4, n)
	out := map[string]mapping.Map{}
	t := randomTraining(r, n, m, d)
	reach := make([]float64, n)
	for i := range reach {
		reach[i] = float64(m) * r.Float64()
	}
	out["nystrom"] = &mapping.Nystrom{Training: t, Lambda: lambda, Reach: reach, K: k, Rate: 1 / float64(m)}
	out["barycentric"] = &mapping.Barycentric{Training: t, K: k, Regular: 1e-3}
	edge, length := ring(r, n)
	out["geodesic"] = &mapping.Geodesic{Training: t, Lambda: []float64{2, 1}, Square: normals(r, n), Edge: edge,
		Length: length, K: k}
	patch := make([]float64, n)
	for i := range patch {
		patch[i] = float64(i % 3)
	}
	out["tangent"] = &mapping.Tangent{Training: t, Patch: patch, Slope: normals(r, 3*m*d), Count: 3}
	positive := slices.Clone(t.Rows)
	for i := range positive {
		positive[i] = math.Abs(positive[i])
	}
	for _, name := range mapping.KernelNames {
		kf, err := mapping.NewKernel(context.Background(), name, t.Rows, m, nil)
		if name == "chi2" {
			origin := make([]float64, m)
			for j := range origin {
				origin[j] = 0.5
			}
			for i := range positive {
				positive[i] -= 0.5
			}
			kf, err = mapping.NewKernel(context.Background(), name, positive, m, origin)
		}
		if err != nil {
			panic(err)
		}
		km := &mapping.KernelMap{D: d, Rows: t.Rows, Coefficients: normals(r, n*d), K: kf}
		if name == "gauss" {
			km.Offset = []float64{3, -2, 1, 5}[:d:d]
		}
		out["kernel "+name] = km
		if name == "linear" || name == "gauss" {
			out["similarity "+name] = &mapping.SimilarityMap{Training: t, Lambda: lambda, Alpha: 1, Beta: 0.1,
				Rate: 1 / float64(m), K: kf}
		}
	}
	return out
}

// withMapping is a model of the mapping, with means and scales that leave rows as they are.
func withMapping(t testing.TB, m int, mp mapping.Map) *Model {
	t.Helper()
	mo := &Model{fitted: Content{Method: "test", Rows: 5, Features: names("f", m), Mean: make([]float64,
		m), Scale: make([]float64, m)},
		mapping: mp}
	for j := range m {
		mo.fitted.Scale[j] = 1
	}
	return seal(t, mo)
}

// A row's bits depend only on the row and the model; rows of the fit are mapped to their embedding; nothing is
// allocated.
func TestPlaceRowAlone(t *testing.T) {
	for _, shape := range [][2]int{{30, 3}, {80, 29}} {
		n, m := shape[0], shape[1]
		for name, mp := range rowMappings(n, m) {
			mo := withMapping(t, m, mp)
			x32, x := rowsOf(mo, 80)
			whole := project(t, mo, rowMajor(x32, 80, m))
			for from := 0; from < 80; from += 19 {
				if one := project(t, mo, rowMajor(x32[from*m:], 1, m)); !sameBits(one, whole[from*2:from*2+2]) {
					t.Fatalf("%s: row %d differs alone", name, from)
				}
			}
			columns := Rows{N: 80}
			for j := range m {
				col := make([]float64, 80)
				for i := range col {
					col[i] = x[i*m+j]
				}
				columns.Blocks = append(columns.Blocks, Block{F64: col, Cols: 1, RowStride: 1, ColStride: 1})
			}
			if !sameBits(project(t, mo, columns), whole) {
				t.Errorf("%s: columns of float64 differ from rows of float32", name)
			}
			y := make([]float32, 16)
			rows := rowMajor(x32, 8, m)
			if allocs := testing.AllocsPerRun(20, func() { _ = mo.Project(y, rows) }); !(allocs < 1) && !raceEnabled {
				t.Errorf("%s: %g allocations a call", name, allocs)
			}
			tr := trainingOf(mp)
			if tr == nil {
				continue
			}
			back := project(t, mo, DenseRows(tr.Rows, n, m))
			for i, v := range back {
				if v != float32(tr.Embedding[i]) {
					t.Fatalf("%s: row %d of the fit comes back at %g, not %g", name, i/2, v, tr.Embedding[i])
				}
			}
		}
	}
}

func trainingOf(mp mapping.Map) *mapping.Training {
	switch e := mp.(type) {
	case *mapping.Nystrom:
		return &e.Training
	case *mapping.Barycentric:
		return &e.Training
	case *mapping.Geodesic:
		return &e.Training
	case *mapping.Tangent:
		return &e.Training
	case *mapping.SimilarityMap:
		return &e.Training
	}
	return nil
}

// Each rule compared with a plain form of its formula.
func TestRulesEqualTheirFormulas(t *testing.T) {
	const n, m, d = 60, 14, 2
	r := rand.New(rand.NewPCG(4, 4))
	for name, mp := range rowMappings(n, m) {
		p := must(mp.(mapping.RowMap).Extension(m))
		w := p.Workspace()
		for range 20 {
			z, got, want := normals(r, m), make([]float64, d), make([]float64, d)
			if _, err := p.Project(got, z, 1, w); err != nil {
				t.Fatal(err)
			}
			plainPlace(t, want, z, mp, m, w)
			for c := range d {
				if !(math.Abs(got[c]-want[c]) <= 1e-6*(math.Abs(want[c])+1e-3)) {
					t.Errorf("%s: output %d is %.12g, want %.12g", name, c, got[c], want[c])
				}
			}
		}
	}
}

// A row's similarities are at their minimum if alpha adds no curvature, and it is an error if they cannot be found.
func TestSimilaritiesOfARowAreFoundOrRefused(t *testing.T) {
	const n, m, d = 50, 6, 2
	r := rand.New(rand.NewPCG(6, 4))
	k := mapping.Kernel{Name: "polynomial", Param: []float64{m}}
	far := randomTraining(r, n, m, d)
	for i := range far.Rows {
		far.Rows[i] *= math.Pow(30, float64(i%m-2))
	}
	for _, alpha := range []float64{1, 1e-6, 0} {
		p := must((&mapping.SimilarityMap{Training: far, Lambda: []float64{0.1, 0.3}, Alpha: alpha, Beta: 0.1,
			Rate: 1 / float64(m), K: k}).Extension(m)).(*mapping.SimilarityExtension)
		w, y := p.Workspace(), make([]float64, d)
		for i := range 20 {
			z := slices.Clone(far.Rows[i*m : (i+1)*m])
			z[0] += 0.1
			if _, err := p.Project(y, z, 1, w); err != nil {
				t.Fatalf("alpha %g: %v", alpha, err)
			}
			var q mapping.SimilarityProblem
			q.Over(w.Row[m:], n, n)
			if off := p.Slope(&q); !(off <= 1e-6) {
				t.Errorf("alpha %g: slope %g", alpha, off)
			}
			q.Weight[i] += 0.1
			p.Multiply(q.Product, q.Weight)
			if off := p.Slope(&q); !(off > 1e-6) {
				t.Errorf("alpha %g: slope %g of weights that are not at the minimum", alpha, off)
			}
		}
		var q mapping.SimilarityProblem // without a minimum
		q.Over(w.Row[m:], n, n)
		q.Target[3] = math.NaN()
		if err := p.Descend(&q); err == nil || !strings.Contains(err.Error(), "slope is NaN") {
			t.Errorf("alpha %g: error %v", alpha, err)
		}
	}
}

func plainPlace(t *testing.T, dst, z []float64, mp mapping.Map, m int, w *mapping.Workspace) {
	tr := trainingOf(mp)
	var rows, query *mat.Dense
	var all *graph.Neighbors
	if tr != nil {
		rows, query = mat.NewDense(tr.Len(), m, tr.Rows), mat.NewDense(1, m, z)
		var err error
		if all, err = graph.NearestTo(t.Context(), rows, query, tr.Len()); err != nil {
			t.Fatal(err)
		}
	}
	// mean is the weighted mean of the embedding.
	mean := func(weight func(i int) float64) {
		sum := 0.0
		clear(dst)
		for i := range tr.Len() {
			v := weight(i)
			sum += v
			for c := range dst {
				dst[c] += v * tr.Embedding[i*tr.D+c]
			}
		}
		for c := range dst {
			dst[c] /= sum
		}
	}
	distance := func(i int) float64 { return linalg.SquaredDistance(z, tr.Rows[i*m:(i+1)*m]) }
	switch e := mp.(type) {
	case *mapping.Nystrom:
		index, _ := all.Row(0)
		mean(func(i int) float64 {
			if distance(i) < e.Reach[i] || slices.Contains(index[:e.K], i) {
				return math.Exp(-e.Rate * distance(i))
			}
			return 0
		})
		for c, l := range e.Lambda {
			dst[c] /= 1 - l
		}
	case *mapping.Barycentric:
		few, err := graph.NearestTo(t.Context(), rows, query, e.K)
		if err != nil {
			t.Fatal(err)
		}
		w, err := graph.Barycentric(t.Context(), rows, query, few, e.Regular)
		if err != nil {
			t.Fatal(err)
		}
		mean(func(i int) float64 { return w.At(0, i) })
	case *mapping.Geodesic:
		n := e.Len()
		g := make([]float64, n*n)
		for i := range g {
			if g[i] = math.Inf(1); i%(n+1) == 0 {
				g[i] = 0
			}
		}
		for k, l := range e.Length {
			i, j := int(e.Edge[2*k]), int(e.Edge[2*k+1])
			g[i*n+j], g[j*n+i] = min(g[i*n+j], l), min(g[j*n+i], l)
		}
		for k := range n { // Floyd and Warshall
			for i := range n {
				for j := range n {
					g[i*n+j] = min(g[i*n+j], g[i*n+k]+g[k*n+j])
				}
			}
		}
		index, _ := all.Row(0)
		for c, l := range e.Lambda {
			for i := range n {
				path := math.Inf(1)
				for _, j := range index[:e.K] {
					path = min(path, math.Sqrt(distance(j))+g[j*n+i])
				}
				v := e.Embedding[i*e.D+c] / math.Sqrt(l)
				dst[c] += v * (e.Square[i] - path*path) / (2 * math.Sqrt(l))
			}
		}
	case *mapping.Tangent:
		index, _ := all.Row(0)
		j := index[0]
		for c := range dst {
			dst[c] = e.Embedding[j*e.D+c]
			for f := range m {
				dst[c] += e.Slope[(int(e.Patch[j])*m+f)*e.D+c] * (z[f] - e.Rows[j*m+f])
			}
		}
	case *mapping.SimilarityMap:
		// The weights in the workspace meet the conditions of the minimum: gradient 0 where positive, not negative where 0.
		n := e.Len()
		g := must(e.K.Gram(t.Context(), e.Rows, m))
		ready := e.K.Ready(e.Rows, m)
		x := make([]float64, m)
		norm := ready.Take(x, z)
		weight := w.Row[m+n : m+2*n]
		for i := range n {
			slope := e.Alpha*(weight[i]-math.Exp(-e.Rate*distance(i))) + e.Beta/2 - ready.At(x, norm, i)
			for j, v := range weight {
				slope += g.At(i, j) * v
			}
			if !(slope >= -1e-6) || (!(weight[i] <= 0) && !(slope <= 1e-6)) {
				t.Errorf("weight %d is %g at a slope of %g", i, weight[i], slope)
			}
		}
		mean(func(i int) float64 { return weight[i] })
		for c, l := range e.Lambda {
			dst[c] /= 1 - l
		}
	case *mapping.KernelMap:
		copy(dst, e.Offset)
		for i := range len(e.Rows) / m {
			var xz, zz, xx, dd, chi float64
			for j, v := range z {
				a, b := v, e.Rows[i*m+j]
				xz, zz, xx, dd = xz+a*b, zz+a*a, xx+b*b, dd+(a-b)*(a-b)
				if e.K.Name == "chi2" {
					a, b = max(a+e.K.Origin[j], 0), max(b+e.K.Origin[j], 0)
					if a+b > 0 {
						chi += (a - b) * (a - b) / (a + b)
					}
				}
			}
			v := map[string]float64{"linear": xz, "cosine": xz / math.Sqrt(xx*zz)}[e.K.Name]
			switch e.K.Name {
			case "gauss":
				v = math.Exp(-dd / e.K.Param[0])
			case "polynomial":
				v = math.Pow(xz/float64(m)+1, 2)
			case "chi2":
				v = math.Exp(-chi / e.K.Param[0])
			}
			for c := range dst {
				dst[c] += v * e.Coefficients[i*e.D+c]
			}
		}
	}
}

// The width of a kernel is that of the pairs: the median squared distance for
// gauss, the mean of s for chi2.
func TestKernelWidths(t *testing.T) {
	rows := []float64{0, 1, 3, 7} // distances 1 9 49 4 36 16
	k, err := mapping.NewKernel(t.Context(), "gauss", rows, 1, nil)
	if err != nil || k.Param[0] != 12.5 {
		t.Errorf("gauss %v, %v; want 12.5", k.Param, err)
	}
	k, err = mapping.NewKernel(t.Context(), "chi2", rows, 1, []float64{0})
	if want := (1 + 3 + 7 + 4./4 + 36./8 + 16./10) / 6; err != nil || !(math.Abs(k.Param[0]-want) <= 1e-12) {
		t.Errorf("chi2 %v, %v; want %g", k.Param, err, want)
	}
	if _, err = mapping.NewKernel(t.Context(), "chi2", rows, 1, []float64{-1}); err == nil ||
		!strings.Contains(err.Error(), "minmax") {
		t.Errorf("negative values: %v", err)
	}
	if k, err = mapping.NewKernel(t.Context(), "gauss", []float64{1, 1, 1, 2}, 1, nil); err != nil || k.Param[0] != 1 {
		t.Errorf("duplicates: width %v, %v", k.Param, err)
	}
}

// A row too far away for float64 is an error that names it; if weights vanish a row gets the embedding of its nearest
// one.
func TestPlaceFarRows(t *testing.T) {
	const n, m = 30, 14
	for name, mp := range rowMappings(n, m) {
		mo := withMapping(t, m, mp)
		x := make([]float64, 300*m)
		x[200*m], x[250*m+3] = 1e200, -1e200
		var row *RowError
		err := mo.Project(make([]float32, 600), DenseRows(x, 300, m))
		switch {
		case strings.HasPrefix(name, "kernel "):
			if err != nil && (!errors.As(err, &row) || row.Row != 200) {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.As(err, &row) || row.Row != 200:
			t.Errorf("%s: error %v, want one of row 200", name, err)
		}
	}
	e := rowMappings(n, m)["nystrom"].(*mapping.Nystrom)
	mo := withMapping(t, m, e)
	x := make([]float64, m)
	x[0] = 1e6
	y := project(t, mo, DenseRows(x, 1, m))
	nearest := 0
	for i := range n {
		if linalg.SquaredDistance(x, e.Rows[i*m:(i+1)*m]) < linalg.SquaredDistance(x, e.Rows[nearest*m:(nearest+1)*m]) {
			nearest = i
		}
	}
	if y[0] != float32(e.Embedding[2*nearest]) {
		t.Errorf("far away: %v, the nearest row is at %v", y, e.Embedding[2*nearest:2*nearest+2])
	}
}

// A file written by another program: every array that does not fit is rejected.
func TestExtensionRefuses(t *testing.T) {
	const n, m = 6, 4
	change := func(kind string, f func(mp mapping.Map)) error {
		mp := rowMappings(n, m)[kind]
		f(mp)
		mo := &Model{fitted: Content{Method: "test", Features: names("f", m), Mean: make([]float64, m),
			Scale: []float64{1, 1, 1, 1}},
			mapping: mp}
		_, err := mo.seal()
		return err
	}
	for want, err := range map[string]error{
		"at least one row": change("nystrom", func(mp mapping.Map) { mp.(*mapping.Nystrom).Rows = nil }),
		"5 x 2 are needed": change("barycentric",
			func(mp mapping.Map) { e := mp.(*mapping.Barycentric); e.Rows = e.Rows[:5*m] }),
		"within 0.001 of 1": change("nystrom",
			func(mp mapping.Map) { mp.(*mapping.Nystrom).Lambda = []float64{0, 1.0005} }),
		"7 neighbours of 6 rows": change("nystrom", func(mp mapping.Map) { mp.(*mapping.Nystrom).K = 7 }),
		"rate of the weights": change("nystrom",
			func(mp mapping.Map) { mp.(*mapping.Nystrom).Rate = math.NaN() }),
		"0 neighbours": change("barycentric", func(mp mapping.Map) { mp.(*mapping.Barycentric).K = 0 }),
		"regulariser is 0": change("barycentric",
			func(mp mapping.Map) { mp.(*mapping.Barycentric).Regular = 0 }),
		"eigenvalue 1 is 0": change("geodesic",
			func(mp mapping.Map) { mp.(*mapping.Geodesic).Lambda = []float64{1, 0} }),
		"edge holds 6": change("geodesic", func(mp mapping.Map) { mp.(*mapping.Geodesic).Edge[3] = 6 }),
		"edge holds 0.5": change("geodesic",
			func(mp mapping.Map) { mp.(*mapping.Geodesic).Edge[3] = 0.5 }),
		"length[0] is -1": change("geodesic",
			func(mp mapping.Map) { mp.(*mapping.Geodesic).Length[0] = -1 }),
		"patch holds 3": change("tangent", func(mp mapping.Map) { mp.(*mapping.Tangent).Patch[0] = 3 }),
		"in slope, 3 x 4 x 2": change("tangent",
			func(mp mapping.Map) { e := mp.(*mapping.Tangent); e.Slope = e.Slope[:23] }),
		"none may be negative": change("similarity linear",
			func(mp mapping.Map) { mp.(*mapping.SimilarityMap).Beta = -1 }),
		"divides by 0": change("kernel gauss",
			func(mp mapping.Map) { mp.(*mapping.KernelMap).K.Param[0] = 0 }),
		"0 numbers in origin": change("kernel chi2",
			func(mp mapping.Map) { mp.(*mapping.KernelMap).K.Origin = nil }),
		"\"rbf\" is not known": change("kernel gauss",
			func(mp mapping.Map) { mp.(*mapping.KernelMap).K.Name = "rbf" }),
		"in coefficients": change("kernel gauss",
			func(mp mapping.Map) { e := mp.(*mapping.KernelMap); e.Coefficients = e.Coefficients[1:] }),
		"in offset": change("kernel gauss",
			func(mp mapping.Map) { e := mp.(*mapping.KernelMap); e.Offset = e.Offset[1:] }),
		"finite numbers only": change("tangent",
			func(mp mapping.Map) { mp.(*mapping.Tangent).Slope[0] = math.Inf(1) }),
		"components; geodesics need one": change("geodesic",
			func(mp mapping.Map) { e := mp.(*mapping.Geodesic); e.Edge, e.Length = nil, nil }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	big := &mapping.SimilarityMap{Training: randomTraining(rand.New(rand.NewPCG(1, 1)), 2001, 1, 1),
		Lambda: []float64{0}, K: mapping.Kernel{Name: "linear"}}
	if err := big.Check(1, 0); err == nil || !strings.Contains(err.Error(), "2000") {
		t.Errorf("too many rows: %v", err)
	}
}

// Models of every kind survive their files.
func TestExtensionFiles(t *testing.T) {
	for name, mp := range rowMappings(9, 5) {
		mo := withMapping(t, 5, mp)
		got, err := Read(bytes.NewReader(fileOf(t, mo)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		x, _ := rowsOf(mo, 20)
		if got.Digest() != mo.Digest() || !sameBits(project(t, got, rowMajor(x, 20, 5)),
			project(t, mo, rowMajor(x, 20, 5))) {
			t.Errorf("%s: what was read differs", name)
		}
	}
}

// BenchmarkPlace places 48 rows, and one, by each rule with 2,000 rows of the fit, on one core. Times are the least of
// all turns.
func BenchmarkPlace(b *testing.B) {
	const n, m, d, k = 2000, 256, 8, 12
	r := rand.New(rand.NewPCG(1, 2))
	t := randomTraining(r, n, m, d)
	lambda, reach := []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, make([]float64, n)
	for i := range reach {
		reach[i] = 1.5 * m
	}
	var edge, length []float64
	for range k / 2 {
		e, l := ring(r, n)
		edge, length = append(edge, e...), append(length, l...)
	}
	for name, mp := range map[string]mapping.RowMap{
		"nystrom":     &mapping.Nystrom{Training: t, Lambda: lambda, Reach: reach, K: k, Rate: 1. / m},
		"barycentric": &mapping.Barycentric{Training: t, K: k, Regular: 1e-3},
		"geodesic": &mapping.Geodesic{Training: t, Lambda: lambda, Square: make([]float64, n), Edge: edge, Length: length,
			K: k},
		"tangent": &mapping.Tangent{Training: t, Patch: make([]float64, n), Slope: make([]float64, m*d), Count: 1},
	} {
		mo := withMapping(b, m, mp)
		for _, count := range []int{48, 1} {
			_, x := rowsOf(mo, count)
			y, ctx := make([]float32, count*d), Limit(b.Context(), 1)
			b.Run(fmt.Sprintf("%s/rows=%d", name, count), func(b *testing.B) {
				least := time.Hour
				for b.Loop() {
					begin := time.Now()
					if err := mo.ProjectContext(ctx, y, DenseRows(x, count, m)); err != nil {
						b.Fatal(err)
					}
					least = min(least, time.Since(begin))
				}
				b.ReportMetric(float64(least.Nanoseconds())/float64(count), "ns/row")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
