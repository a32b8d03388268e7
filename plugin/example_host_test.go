package plugin_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

// A host that saves what a stage passes to it continues after a restart with the same model. Here a variable is the
// store.
func ExampleReadFrom() {
	var live *plugin.Live
	var contract *arrowio.Contract
	config := plugin.Config{
		Spec:     arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:      fit.Config{Method: "lda", Dim: 2},
		Training: plugin.Training{Every: plugin.Every{Rows: 100}},
		StoreContract: func(_ context.Context, c *arrowio.Contract) (*arrowio.Contract, error) {
			contract = c
			return c, nil
		},
		Store: func(_ context.Context, r *plugin.Release) (string, error) {
			version := fmt.Sprint("v", r.Epoch)
			live = r.Live(version, live)
			return version, nil
		},
		Checkpoint: func(_ context.Context, state []byte) error {
			live.State = state
			return nil
		},
	}
	source := rand.New(rand.NewPCG(1, 1))
	var stream [][]byte
	for range 12 {
		body, err := threeClouds(source, 10)
		if err != nil {
			fmt.Println(err)
			return
		}
		stream = append(stream, body)
	}
	learn := func(stage *plugin.Stage, from uint64) error {
		for seq := from; seq <= uint64(len(stream)); seq++ {
			msg, err := stage.Decode(stream[seq-1])
			if err != nil {
				return err
			}
			if err := stage.Learn(msg, plugin.Position{Seq: seq, Time: time.Unix(int64(seq), 0)}); err != nil {
				return err
			}
		}
		return stage.Wait(context.Background())
	}

	first, err := plugin.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := learn(first, 1); err != nil {
		fmt.Println(err)
		return
	}
	<-first.Ready()
	fmt.Println("features:", first.Contract().Len(), "live:", first.Live().Version)
	first.Close()

	config.Contract, config.Resume = contract, live
	second, err := plugin.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Close()
	_, seq := plugin.ReadFrom(live.State)
	if err := learn(second, max(seq, 1)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("after a restart from message", seq, "live:", second.Live().Version, "rows:", second.Status().Rows)
	// Output:
	// features: 20 live: v1
	// after a restart from message 1 live: v1 rows: 360
}

// Labels that arrive in separate messages are joined with their rows by key.
func ExampleStage_LearnLabels() {
	stage, err := plugin.New(plugin.Config{
		Spec:   arrowio.Spec{Features: []string{"x"}, Label: "label", Key: "id"},
		Fit:    fit.Config{Method: "lda"},
		Labels: &plugin.Labels{Wait: time.Hour},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stage.Close()
	rows, err := stage.Decode(table([]string{"x", "id"}, []any{1.5, "a"}, []any{2.5, "b"}, []any{3.5, "c"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	labels, err := stage.DecodeLabels(table([]string{"id", "label"}, []any{"a", "cat"}, []any{"b", "dog"},
		[]any{"z", "cat"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := stage.Learn(rows, plugin.Position{Seq: 1, Time: time.Unix(10, 0)}); err != nil {
		fmt.Println(err)
		return
	}
	if err := stage.LearnLabels(labels, plugin.Position{Seq: 1, Time: time.Unix(20, 0)}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("rows that wait:", stage.LabelStatus().RowsWaiting)
	// Output:
	// rows that wait: 3
}

// Rows that cannot be transformed can be written to another stream, with the schema that they came with.
func ExampleStage_EncodeRejected() {
	m, err := fit.Fit(context.Background(), &model.Data{X: []float64{1, 2, 2, 1, 4, 3}, N: 3, M: 2,
		Features: []string{"x", "y"}}, fit.Config{Method: "pca", Dim: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	stage, err := plugin.New(plugin.Config{Spec: arrowio.Spec{Features: []string{"x", "y"}}, Fixed: m})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stage.Close()
	msg, err := stage.Decode(table([]string{"x", "y"}, []any{1.0, 2.0}, []any{math.NaN(), 3.0}))
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := stage.Transform(context.Background(), msg)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, fault := range result.Faults {
		fmt.Printf("row %d: feature %s is %s\n", fault.Row, fault.Feature, fault.What)
	}
	rejected, err := stage.EncodeRejected(result)
	if err != nil {
		fmt.Println(err)
		return
	}
	back, err := stage.Decode(rejected)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("rejected rows:", back.Rows())
	// Output:
	// row 1: feature x is NaN
	// rejected rows: 1
}

// table is a message of columns of numbers or texts.
func table(names []string, rows ...[]any) []byte {
	var fields []arrow.Field
	for i, name := range names {
		kind := arrow.DataType(arrow.BinaryTypes.String)
		if _, number := rows[0][i].(float64); number {
			kind = arrow.PrimitiveTypes.Float64
		}
		fields = append(fields, arrow.Field{Name: name, Type: kind})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for _, row := range rows {
		for i, v := range row {
			switch column := b.Field(i).(type) {
			case *array.Float64Builder:
				column.Append(v.(float64))
			case *array.StringBuilder:
				column.Append(v.(string))
			}
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	body, err := arrowio.FromRecords(rec.Schema(), rec)
	if err != nil {
		panic(err)
	}
	return body
}
