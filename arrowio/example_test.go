package arrowio_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	arrowipc "github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
)

// exampleMessage is three rows of two features, a label and a time.
func exampleMessage() []byte {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[
		{"x": [1, 2], "label": "cat", "id": 10},
		{"x": [3, 4], "label": null, "id": 11},
		{"x": [5, 6], "label": "dog", "id": 12}]`))
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Release()
	msg, err := arrowio.FromRecords(schema, rec)
	if err != nil {
		log.Fatal(err)
	}
	return msg
}

func ExampleNewDecoder() {
	d, err := arrowio.NewDecoder(arrowio.Spec{Features: []string{"x"}, Label: "label", Key: "id"})
	if err != nil {
		log.Fatal(err)
	}
	m, err := d.Decode(exampleMessage(), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Contract().Elements())
	for _, b := range m.Batches() {
		x := b.Features()[0]
		for i := range b.Rows() {
			label, ok := b.Label(i)
			key, _ := b.Key(i)
			fmt.Println(key, x.At(i, 0), x.At(i, 1), label, ok)
		}
	}
	// Output:
	// [x[0] x[1]]
	// 10 1 2 cat true
	// 11 3 4  false
	// 12 5 6 dog true
}

func ExampleDecoder_Decode_refused() {
	d, err := arrowio.NewDecoder(arrowio.Spec{Features: []string{"pixels"}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = d.Decode(exampleMessage(), nil)
	fmt.Println(err.(*arrowio.Error).Code)
	fmt.Println(err)
	// Output:
	// missing_column
	// column "pixels": no such feature column; the message has 3: x, label, id; send it, or name other features
}

func ExampleEncoder_Encode() {
	d, err := arrowio.NewDecoder(arrowio.Spec{Features: []string{"x"}})
	if err != nil {
		log.Fatal(err)
	}
	m, err := d.Decode(exampleMessage(), nil)
	if err != nil {
		log.Fatal(err)
	}
	e, err := arrowio.NewEncoder(arrowio.Output{})
	if err != nil {
		log.Fatal(err)
	}
	y := []float32{0.5, 1.5, 2.5} // 3 rows x 1 dimension; row 1 is left out
	out, err := e.Encode(arrowio.Reduced{Message: m, Dim: 1, Y: [][]float32{y}, Drop: [][]int{{1}}},
		[]wire.Pair{{Key: wire.HeaderWire, Value: wire.Version}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := arrowipc.NewReader(bytes.NewReader(out))
	if err != nil {
		log.Fatal(err)
	}
	for r.Next() {
		for j, c := range r.Record().Columns() {
			fmt.Println(r.Record().ColumnName(j), c)
		}
	}
	// Output:
	// label ["cat" "dog"]
	// id [10 12]
	// embedding [[0.5] [2.5]]
}

func ExampleEncoder_Split() {
	d, err := arrowio.NewDecoder(arrowio.Spec{Features: []string{"x"}})
	if err != nil {
		log.Fatal(err)
	}
	m, err := d.Decode(exampleMessage(), nil)
	if err != nil {
		log.Fatal(err)
	}
	e, err := arrowio.NewEncoder(arrowio.Output{})
	if err != nil {
		log.Fatal(err)
	}
	msgs, err := e.Split(arrowio.Reduced{Message: m, Dim: 1, Y: [][]float32{{1, 2, 3}}}, 1800,
		func(part, parts int) []wire.Pair {
			return []wire.Pair{{Key: wire.HeaderPart, Value: fmt.Sprintf("%d/%d", part+1, parts)}}
		})
	if err != nil {
		log.Fatal(err)
	}
	for _, msg := range msgs {
		fmt.Println(len(msg) <= 1800)
	}
	// Output:
	// true
}

func ExampleEncoder_Rejected() {
	d, err := arrowio.NewDecoder(arrowio.Spec{Features: []string{"x"}})
	if err != nil {
		log.Fatal(err)
	}
	m, err := d.Decode(exampleMessage(), nil)
	if err != nil {
		log.Fatal(err)
	}
	e, err := arrowio.NewEncoder(arrowio.Output{})
	if err != nil {
		log.Fatal(err)
	}
	out, err := e.Rejected(m, [][]int{{0, 2}}, []wire.Pair{{Key: wire.HeaderKind, Value: string(wire.KindRows)}})
	if err != nil {
		log.Fatal(err)
	}
	again, err := d.Decode(out, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Rows(), "rows")
	// Output:
	// 2 rows
}

// A contract fixes the features of a pipeline: messages in other forms become the same rows, and messages with other
// features are rejected.
func ExampleContract() {
	d, err := arrowio.NewDecoder(arrowio.Spec{Features: []string{"x"}, Label: "label"})
	if err != nil {
		log.Fatal(err)
	}
	m, err := d.Decode(exampleMessage(), nil)
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.Marshal(m.Contract())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))

	contract, err := arrowio.ParseContract(text)
	if err != nil {
		log.Fatal(err)
	}
	longer := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float64)}}, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, longer, strings.NewReader(`[{"x": [1, 2, 3]}]`))
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Release()
	_, err = d.FromRecord(rec, contract)
	fmt.Println(errors.Is(err, wire.SchemaChanged))
	// Output:
	// {"version":1,"features":[{"column":"x","size":2,"number":"float"}],"label":"label"}
	// true
}
