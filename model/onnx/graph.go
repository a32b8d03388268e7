package onnx

import (
	"encoding/binary"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Types of elements, enum DataType of onnx.proto.
const (
	float32Type = 1
	int64Type   = 7
	float64Type = 11
)

// graph collects nodes and constants in the encoding of GraphProto. Values have names; the methods that add a node
// return that of its output.
type graph struct {
	nodes, constants []byte
	names            int
	scalars          map[float64]string
	equal            float64 // squared distance up to which a row is one of the fit
}

func newGraph() *graph { return &graph{scalars: map[float64]string{}} }

func (g *graph) name() string {
	g.names++
	return "v" + strconv.Itoa(g.names)
}

// message appends an embedded message, or a string.
func message[T []byte | string](dst []byte, field protowire.Number, body T) []byte {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	return protowire.AppendBytes(dst, []byte(body))
}

func integer(dst []byte, field protowire.Number, v int) []byte {
	dst = protowire.AppendTag(dst, field, protowire.VarintType)
	return protowire.AppendVarint(dst, uint64(v))
}

// attribute is an AttributeProto: a number, or several.
type attribute struct {
	name   string
	value  int
	values []int // instead of value
}

func (a attribute) encode() []byte {
	const isInt, isInts = 2, 7 // enum AttributeType
	b := message(nil, 1, a.name)
	if a.values == nil {
		return integer(integer(b, 3, a.value), 20, isInt)
	}
	for _, v := range a.values {
		b = integer(b, 8, v)
	}
	return integer(b, 20, isInts)
}

func one(name string, v int) attribute      { return attribute{name: name, value: v} }
func many(name string, v ...int) attribute  { return attribute{name: name, values: v} }
func (g *graph) node(b []byte, kind string) { g.nodes = message(g.nodes, 1, message(b, 4, kind)) }

// op adds a node with one output and without attributes.
func (g *graph) op(kind string, inputs ...string) string {
	return g.with(kind, nil, inputs...)
}

// with adds a node with attributes and one output.
func (g *graph) with(kind string, attributes []attribute, inputs ...string) string {
	return g.outputs(1, kind, attributes, inputs...)[0]
}

// outputs adds a node with n outputs.
func (g *graph) outputs(n int, kind string, attributes []attribute, inputs ...string) []string {
	var b []byte
	for _, in := range inputs {
		b = message(b, 1, in)
	}
	names := make([]string, n)
	for i := range names {
		names[i] = g.name()
		b = message(b, 2, names[i])
	}
	for _, a := range attributes {
		b = message(b, 5, a.encode())
	}
	g.node(b, kind)
	return names
}

// result adds a node whose output is one of the graph.
func (g *graph) result(name, kind string, a attribute, input string) {
	b := message(message(nil, 1, input), 2, name)
	g.node(message(b, 5, a.encode()), kind)
}

// constant adds a TensorProto.
func (g *graph) constant(elements int, shape []int, raw []byte) string {
	name := g.name()
	var b []byte
	for _, n := range shape {
		b = integer(b, 1, n)
	}
	b = integer(b, 2, elements)
	b = message(b, 8, name)
	g.constants = message(g.constants, 5, message(b, 9, raw))
	return name
}

func (g *graph) floats(data []float64, shape ...int) string {
	raw := make([]byte, 0, 8*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	return g.constant(float64Type, shape, raw)
}

func (g *graph) ints(data []int, shape ...int) string {
	raw := make([]byte, 0, 8*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return g.constant(int64Type, shape, raw)
}

// number is a constant without axes.
func (g *graph) number(v float64) string {
	if _, ok := g.scalars[v]; !ok {
		g.scalars[v] = g.floats([]float64{v})
	}
	return g.scalars[v]
}

// sum adds the numbers along an axis, which stays with size 1.
func (g *graph) sum(x string, axis int) string {
	return g.op("ReduceSum", x, g.ints([]int{axis}, 1))
}

// column is column j of x, rows x 1.
func (g *graph) column(x string, j int) string {
	return g.with("Gather", []attribute{one("axis", 1)}, x, g.ints([]int{j}, 1))
}

func (g *graph) cast(x string, elements int) string {
	return g.with("Cast", []attribute{one("to", elements)}, x)
}

func (g *graph) squared(x string) string { return g.op("Mul", x, x) }
