package plugin_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

// A plain Go program with no NATS: messages come from anywhere, here from a generator.
func Example() {
	stage, err := plugin.New(plugin.Config{
		Spec:     arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:      fit.Config{Method: "lda", Dim: 2},
		Training: plugin.Training{Every: plugin.Every{Rows: 300}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stage.Close()

	source := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		body, err := threeClouds(source, 30)
		if err != nil {
			fmt.Println(err)
			return
		}
		msg, err := stage.Decode(body)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := stage.Learn(msg, plugin.Position{}); err != nil {
			fmt.Println(err)
			return
		}
	}
	// A host need not wait; this one waits for the fit that 300 rows trigger.
	if err := stage.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return
	}

	body, _ := threeClouds(source, 5)
	msg, err := stage.Decode(body)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := stage.Transform(context.Background(), msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	reduced, err := stage.Encode(result)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d rows of 20 features became %d rows of %d\n", msg.Rows(), len(result.Reduced.Y[0])/result.Reduced.Dim,
		result.Reduced.Dim)
	fmt.Println("smaller:", len(reduced) < len(body))
	fmt.Println("model:", result.Live.Model.Method(), "epoch", result.Live.Epoch)
	// Output:
	// 15 rows of 20 features became 15 rows of 2
	// smaller: true
	// model: lda epoch 1
}

// A host may request a fit itself, here after its single batch of history.
func ExampleStage_Refit() {
	stage, err := plugin.New(plugin.Config{
		Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:  fit.Config{Method: "lda", Dim: 2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stage.Close()
	text := stage.Refit().Error()
	what, _, _ := strings.Cut(text, ":")
	fmt.Println(what)
	fmt.Println(strings.TrimSpace(text[strings.LastIndex(text, ";")+1:]))

	body, err := threeClouds(rand.New(rand.NewPCG(1, 1)), 30)
	if err != nil {
		fmt.Println(err)
		return
	}
	msg, err := stage.Decode(body)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := stage.Learn(msg, plugin.Position{}); err != nil {
		fmt.Println(err)
		return
	}
	if err := stage.Refit(); err != nil {
		fmt.Println(err)
		return
	}
	if err := stage.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("fits:", stage.Status().Fits)
	// Output:
	// the window does not hold enough rows for a fit
	// learn more rows
	// fits: 1
}

// A host with records does not have to encode them as messages.
func ExampleStage_FromRecord() {
	stage, err := plugin.New(plugin.Config{
		Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:  fit.Config{Method: "lda", Dim: 2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stage.Close()
	rec := cloudRecord(rand.New(rand.NewPCG(1, 1)), 30)
	defer rec.Release() // msg and result are views on it

	msg, err := stage.FromRecord(rec)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := stage.Learn(msg, plugin.Position{}); err != nil {
		fmt.Println(err)
		return
	}
	if err := stage.Refit(); err != nil {
		fmt.Println(err)
		return
	}
	if err := stage.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	result, err := stage.Transform(context.Background(), msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	reduced, err := stage.Record(result)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reduced.Release()
	for i, c := range reduced.Columns() {
		fmt.Println(reduced.ColumnName(i), c.DataType(), c.Len())
	}
	// Output:
	// label utf8 90
	// embedding fixed_size_list<item: float32>[2] 90
}

// A custom method: here linear discriminants with the same weight for each class, however many rows it has. The stage
// fits, scores, aligns and serves it like one of the table.
func ExampleConfig_own() {
	balanced := fit.Criterion{Name: "balanced", Supervised: true, InBasis: balancedScatters}
	stage, err := plugin.New(plugin.Config{
		Spec:     arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:      fit.Config{Criterion: &balanced, Dim: 2},
		Training: plugin.Training{Every: plugin.Every{Rows: 90}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stage.Close()
	rec := cloudRecord(rand.New(rand.NewPCG(1, 1)), 30)
	defer rec.Release()
	msg, err := stage.FromRecord(rec)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := stage.Learn(msg, plugin.Position{}); err != nil {
		fmt.Println(err)
		return
	}
	if err := stage.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	result, err := stage.Transform(context.Background(), msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Live.Model.Method(), "gives", result.Reduced.Dim, "of", result.Live.Model.M())
	// Output: balanced gives 2 of 20
}

// balancedScatters is the scatter of the class means, and the sum of the covariances of the classes.
func balancedScatters(_ context.Context, x fit.BasisRows, y []int) (between, within *mat.SymDense, err error) {
	_, m := x.Dims()
	between, within = mat.NewSymDense(m, nil), mat.NewSymDense(m, nil)
	rows := map[int][]int{}
	for i, c := range y {
		rows[c] = append(rows[c], i)
	}
	for _, c := range slices.Sorted(maps.Keys(rows)) { // sums depend on their order, and a digest on the sums
		mean := mat.NewVecDense(m, nil)
		for _, i := range rows[c] {
			mean.AddScaledVec(mean, 1/float64(len(rows[c])), x.RowView(i))
		}
		between.SymRankOne(between, 1, mean) // x is centred
		for _, i := range rows[c] {
			var off mat.VecDense
			off.SubVec(x.RowView(i), mean)
			within.SymRankOne(within, 1/float64(len(rows[c])), &off)
		}
	}
	return between, within, nil
}

// threeClouds is the wire form of a record of three clouds.
func threeClouds(source *rand.Rand, n int) ([]byte, error) {
	rec := cloudRecord(source, n)
	defer rec.Release()
	return arrowio.FromRecords(rec.Schema(), rec)
}

// cloudRecord is n rows a class: 20 features, of which three separate the classes.
func cloudRecord(source *rand.Rand, n int) arrow.Record {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(20, arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	list := b.Field(0).(*array.FixedSizeListBuilder)
	for i := range 3 * n {
		list.Append(true)
		for j := range 20 {
			v := source.NormFloat64()
			if j == i%3 {
				v += 8
			}
			list.ValueBuilder().(*array.Float32Builder).Append(float32(v))
		}
		b.Field(1).(*array.StringBuilder).Append([]string{"red", "green", "blue"}[i%3])
	}
	return b.NewRecord()
}
