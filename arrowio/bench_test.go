package arrowio

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/embedd/embedd/arrowio/wire"
)

// sample is one message of rows x m float32 features, as one list column or as m columns, with or without a string
// label.
func sample(t testing.TB, rows, m int, list, label bool) []byte {
	t.Helper()
	var fields []arrow.Field
	if list {
		fields = append(fields, arrow.Field{Name: "x",
			Type: arrow.FixedSizeListOf(int32(m), arrow.PrimitiveTypes.Float32)})
	} else {
		for j := range m {
			fields = append(fields, arrow.Field{Name: fmt.Sprint("x", j), Type: arrow.PrimitiveTypes.Float32})
		}
	}
	if label {
		fields = append(fields, arrow.Field{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true})
	}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		if list {
			b.Field(0).(*array.FixedSizeListBuilder).Append(true)
		}
		for j := range m {
			if list {
				b.Field(0).(*array.FixedSizeListBuilder).ValueBuilder().(*array.Float32Builder).Append(r.Float32())
			} else {
				b.Field(j).(*array.Float32Builder).Append(r.Float32())
			}
		}
		if label {
			b.Field(len(fields) - 1).(*array.StringBuilder).Append(fmt.Sprint("class ", i%10))
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	msg, err := FromRecords(schema, rec)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

var shapes = []struct {
	name    string
	rows, m int
	list    bool
}{
	{"fsl_n64_m64", 64, 64, true},
	{"fsl_n1024_m256", 1024, 256, true},
	{"fsl_n1024_m784", 1024, 784, true},
	{"columns_n64_m64", 64, 64, false},
	{"columns_n1024_m784", 1024, 784, false},
}

func BenchmarkDecode(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			msg := sample(b, s.rows, s.m, s.list, false)
			d := newDecoder(b, Spec{Features: []string{"x*"}})
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(msg, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFaults(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			msg := sample(b, s.rows, s.m, s.list, false)
			d := newDecoder(b, Spec{Features: []string{"x*"}})
			m, err := d.Decode(msg, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(msg)))
			for b.Loop() {
				if len(m.Batches()[0].findFaults()) != 0 {
					b.Fatal("faults in clean data")
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name+"_d2", func(b *testing.B) {
			d := newDecoder(b, Spec{Features: []string{"x*"}, Label: "label"})
			m, err := d.Decode(sample(b, s.rows, s.m, s.list, true), nil)
			if err != nil {
				b.Fatal(err)
			}
			e, r, meta := newEncoder(b, Output{}), numbered(m, 2),
				[]wire.Pair{{Key: wire.HeaderWire, Value: wire.Version}, {Key: wire.HeaderModel, Value: "7"}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Encode(r, meta); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeEncode(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name+"_d2", func(b *testing.B) {
			d := newDecoder(b, Spec{Features: []string{"x*"}, Label: "label"})
			msg := sample(b, s.rows, s.m, s.list, true)
			m, err := d.Decode(msg, nil)
			if err != nil {
				b.Fatal(err)
			}
			e, r := newEncoder(b, Output{}), numbered(m, 2)
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				if r.Message, err = d.Decode(msg, nil); err != nil {
					b.Fatal(err)
				}
				if _, err := e.Encode(r, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkKeptText decodes and encodes rows with 8 KB of text, whose bytes are checked and copied.
func BenchmarkKeptText(b *testing.B) {
	const rows, m = 64, 64
	for name, piece := range map[string]string{"ascii": "plain text, ", "latin": "naïve façade, ", "cjk": "日本語の文章"} {
		b.Run(name, func(b *testing.B) {
			kept := array.NewStringBuilder(memory.DefaultAllocator)
			defer kept.Release()
			for range rows {
				kept.Append(strings.Repeat(piece, 8192/len(piece)))
			}
			x := array.NewFixedSizeListBuilder(memory.DefaultAllocator, m, arrow.PrimitiveTypes.Float32)
			defer x.Release()
			for i := range rows * m {
				if i%m == 0 {
					x.Append(true)
				}
				x.ValueBuilder().(*array.Float32Builder).Append(float32(i))
			}
			msg := message(b, "x", x.NewArray(), "text", kept.NewArray())
			d := newDecoder(b, Spec{Features: []string{"x"}})
			r := numbered(decode(b, d, msg), 2)
			e := newEncoder(b, Output{})
			b.SetBytes(int64(len(msg)))
			for b.Loop() {
				r.Message = decode(b, d, msg)
				out, err := e.Encode(r, nil)
				if err != nil {
					b.Fatal(err)
				}
				e.Reuse(out)
			}
		})
	}
}

// BenchmarkText compares messages of 64 features as text and as Arrow: decoding, and decoding with an output of 8
// dimensions. alone is the tokeniser with a number parsed for each, without anything that is done with them.
func BenchmarkText(b *testing.B) {
	const m, dim = 64, 8
	for _, rows := range []int{1, 256} {
		r := rand.New(rand.NewPCG(3, 4))
		numbers, isNull := make([]float64, rows*m), make([]bool, rows*m)
		for i := range numbers {
			numbers[i] = r.NormFloat64()
		}
		for _, asList := range []bool{true, false} {
			contract, err := NewContract(elements(m, asList), "label", "")
			if err != nil {
				b.Fatal(err)
			}
			layout := map[bool]string{true: "list", false: "columns"}[asList]
			forms := textForms(numbers, isNull, rows, m, asList)
			rec := recordOf(numbers, isNull, rows, m, asList)
			arrowForm, err := FromRecords(rec.Schema(), rec)
			if err != nil {
				b.Fatal(err)
			}
			forms = append(forms, textForm{wire.FormatArrow, string(arrowForm)})
			for k, form := range forms {
				if k == 1 || k > 3 && form.format != wire.FormatArrow || form.format == wire.FormatCSV && asList {
					continue
				}
				spec := Spec{Features: []string{"x*"}, Label: "label", Format: form.format}
				d, e, msg := newDecoder(b, spec), newEncoder(b, Output{Format: form.format}), []byte(form.text)
				y := make([]float32, rows*dim)
				for i := range y {
					y[i] = float32(r.NormFloat64())
				}
				name := fmt.Sprintf("rows=%d/%s/%s", rows, layout, form.format)
				run := func(b *testing.B, isEncoded bool) {
					b.SetBytes(int64(len(msg)))
					b.ReportAllocs()
					for b.Loop() {
						got, err := d.Decode(msg, contract)
						if err != nil {
							b.Fatal(err)
						}
						if isEncoded {
							out, err := e.Encode(Reduced{Message: got, Dim: dim, Y: [][]float32{y}}, nil)
							if err != nil {
								b.Fatal(err)
							}
							e.Reuse(out)
						}
						got.Release()
					}
				}
				b.Run(name+"/decode", func(b *testing.B) { run(b, false) })
				b.Run(name+"/both", func(b *testing.B) { run(b, true) })
			}
			b.Run(fmt.Sprintf("rows=%d/%s/alone", rows, layout), func(b *testing.B) {
				b.SetBytes(int64(len(forms[0].text)))
				dec, in := jsontext.NewDecoder(&bytes.Buffer{}), []byte(forms[0].text)
				for b.Loop() {
					dec.Reset(bytes.NewBuffer(in), jsontext.AllowDuplicateNames(true))
					for {
						token, err := dec.ReadToken()
						if err != nil {
							break
						}
						if token.Kind() == '0' {
							_, _ = token.Float()
						}
					}
				}
			})
		}
	}
}
