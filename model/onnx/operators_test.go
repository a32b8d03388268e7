package onnx

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/embedd/embedd/model/internal/fail"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fixture"
)

// TestOperators runs the graphs of all kinds of maps by the definitions of their operators, and compares the outputs
// with the model's. onnxruntime runs them in integration/python/test_onnx.py.
func TestOperators(t *testing.T) {
	d := fixture.Synthetic(3, 36, 5, 3)
	set := func(of ...string) map[string]string { return map[string]string{of[0]: of[1]} }
	for name, config := range map[string]fit.Config{
		"linear":      {Method: "lda"},
		"unit":        {Method: "lda", Scale: model.ScaleUnit},
		"minmax":      {Method: "lda", Scale: model.ScaleMinMax},
		"ranks":       {Method: "lda", Scale: model.ScaleRank},
		"landmarks":   {Method: "lda", Landmarks: 12},
		"views":       {Method: "sle-ovr"},
		"gauss":       {Method: "ksmpa", Params: set("kernel", "gauss")},
		"inner":       {Method: "ksmpa", Params: set("kernel", "linear")},
		"polynomial":  {Method: "ksmpa", Params: set("kernel", "polynomial")},
		"cosine":      {Method: "ksmpa", Params: set("kernel", "cosine")},
		"chi2":        {Method: "ksmpa", Params: set("kernel", "chi2"), Scale: model.ScaleMinMax},
		"nystrom":     {Method: "le"},
		"heat":        {Method: "le", Params: set("t", "auto")},
		"barycentric": {Method: "lle"},
		"geodesic":    {Method: "isomap"},
		"tangent":     {Method: "tsimr"},
		"blend": {Method: "blend", Params: set("members",
			"lda/standard/2,lda/rank/2,mfa/standard/2/landmarks=12/width=1")},
	} {
		t.Run(name, func(t *testing.T) {
			config.Dim = 2
			config.Workers = 1
			x, n := probes(d)
			f := fail.Must(fit.Fit(t.Context(), d, config))
			compareGraph(t, f.WithNote(model.Note{Version: "7", Epoch: 1}), x, n)
		})
	}
}

// probes are rows of the fit, rows between and far from them, and such as have missing values, with their number.
func probes(d *model.Data) ([]float64, int) {
	x := slices.Clone(d.X[:6*d.M])
	for i := range 4 * d.M {
		x = append(x, (d.X[i]+2*d.X[i+7*d.M])/3, 4*d.X[i]-3*d.X[i+9*d.M])
	}
	x = append(x, d.X[:3*d.M]...)
	last := x[len(x)-3*d.M:]
	last[1], last[d.M], last[2*d.M+2] = math.NaN(), math.Inf(1), math.Inf(-1)
	x = append(x, make([]float64, d.M)...) // its norm is 0
	for _, v := range d.X[:d.M] {
		x = append(x, 1e3*v) // kernels underflow
	}
	return x, len(x) / d.M
}

func compareGraph(t *testing.T, f *model.Model, x []float64, n int) {
	var file bytes.Buffer
	if err := Write(&file, f); err != nil {
		t.Fatal(err)
	}
	whole := parse(t, file.Bytes())
	if v := whole.one(t, 1).value; v != 8 {
		t.Errorf("IR version %d", v)
	}
	if v := whole.message(t, 8).one(t, 2).value; v != 17 {
		t.Errorf("operator set %d", v)
	}
	graph := whole.message(t, 7)
	checkValue(t, graph.message(t, 11), "features", 11, f.M())
	checkValue(t, graph.message(t, 12), "embedding", 1, f.Dim())
	got := runGraph(t, graph, tensor{float64Type, []int{n, f.M()}, x})
	want := make([]float32, n*f.Dim())
	if err := f.Project(want, model.DenseRows(x, n, f.M())); err != nil {
		t.Fatal(err)
	}
	if got.kind != float32Type || !slices.Equal(got.shape, []int{n, f.Dim()}) {
		t.Fatalf("type %d, shape %v", got.kind, got.shape)
	}
	largest := 0.0
	for _, v := range want {
		largest = max(largest, math.Abs(float64(v)))
	}
	for i, v := range want {
		if e := math.Abs(got.data[i] - float64(v)); !(e <= 1e-5*max(math.Abs(float64(v)), largest/10)) {
			t.Errorf("row %d, output %d is %g, the model's %g", i/f.Dim(), i%f.Dim(), got.data[i], v)
		}
	}
	metadata := map[string]string{}
	for _, p := range whole[14] {
		pair := parse(t, p.body)
		metadata[string(pair.one(t, 1).body)] = string(pair.one(t, 2).body)
	}
	classes := fail.Must(json.Marshal(append([]string{}, f.Classes()...)))
	if want := map[string]string{"digest": f.Digest(), "method": f.Method(), "map": f.Map(),
		"features": `["x0","x1","x2","x3","x4"]`, "classes": string(classes),
		"informative_rank": strconv.Itoa(f.InformativeRank()), "version": "7", "epoch": "1"}; !maps.Equal(metadata, want) {
		t.Errorf("metadata %v, want %v", metadata, want)
	}
}

// checkValue checks a ValueInfoProto of a matrix.
func checkValue(t *testing.T, p fields, name string, kind, columns int) {
	t.Helper()
	tensor := p.message(t, 2).message(t, 1)
	shape := tensor.message(t, 2)[1]
	if string(p.one(t, 1).body) != name || tensor.one(t, 1).value != kind || len(shape) != 2 ||
		parse(t, shape[1].body).one(t, 1).value != columns {
		t.Errorf("the graph has no value %s of %d columns and type %d", name, columns, kind)
	}
}

// TestOperatorsOfOutliers: rows a million times as far away as others move the mean away from these, whose distances
// are differences of much larger numbers.
func TestOperatorsOfOutliers(t *testing.T) {
	d := fixture.Synthetic(3, 60, 5, 3)
	for i := 0; i < d.N; i += 20 {
		for j := range d.M {
			d.X[i*d.M+j] *= 1e9 / float64(1+i)
		}
	}
	for name, config := range map[string]fit.Config{
		"landmarks":   {Method: "lda", Landmarks: 30},
		"gauss":       {Method: "ksmpa", Params: map[string]string{"kernel": "gauss"}},
		"nystrom":     {Method: "le"},
		"heat":        {Method: "le", Params: map[string]string{"t": "auto"}},
		"barycentric": {Method: "lle"},
		"geodesic":    {Method: "isomap"},
		"tangent":     {Method: "tsimr"},
	} {
		t.Run(name, func(t *testing.T) {
			config.Dim = 2
			config.Workers = 1
			f := fail.Must(fit.Fit(t.Context(), d, config))
			x := slices.Clone(d.X)
			for i := range 4 * d.M {
				x = append(x, d.X[i+d.M]+0.1*d.X[i+3*d.M])
			}
			compareGraph(t, f.WithNote(model.Note{Version: "7", Epoch: 1}), x, len(x)/d.M)
		})
	}
}

// TestOperatorsOfOutliersAlone: where each of many classes is far from the large one and has a landmark, the median of
// the landmarks is far from all of them.
func TestOperatorsOfOutliersAlone(t *testing.T) {
	const far, each = 25, 3
	d := fixture.Synthetic(3, 300, 5, 1)
	for i := range far * each {
		class, row := i/each, d.X[i*d.M:(i+1)*d.M]
		d.Y[i] = 1 + class
		for j := range row {
			row[j] = 1e5*row[j] + 1e6*float64(1+class)
		}
	}
	d.Classes = []string{"near"}
	for class := range far {
		d.Classes = append(d.Classes, "far "+strconv.Itoa(class))
	}
	f := fail.Must(fit.Fit(t.Context(), d, fit.Config{Method: "lda", Dim: 2, Landmarks: 30, Workers: 1}))
	compareGraph(t, f.WithNote(model.Note{Version: "7", Epoch: 1}), d.X, d.N)
}
