package onnx

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/mapping"
)

const (
	irVersion = 8
	opset     = 17
	// maxBytes is the size of a message that protocol buffers allow.
	maxBytes = math.MaxInt32
)

// Write writes the model as ONNX. The same model gives the same bytes. It is an error if operators cannot compute the
// map, or if the graph would be too large; the text says which.
func Write(w io.Writer, m *model.Model) error {
	if m == nil || m.M() == 0 {
		return errors.New("onnx: there is no model to write")
	}
	g := newGraph()
	c := m.Content()
	y, err := outputs(g, scaled(g, c), c)
	if err != nil {
		return fmt.Errorf("onnx: method %s, map %s: %w", m.Method(), m.Map(), err)
	}
	g.result("embedding", "Cast", one("to", float32Type), y)

	b := append(message(g.nodes, 2, "embedd "+m.Method()), g.constants...)
	b = message(b, 11, value("features", float64Type, m.M()))
	b = message(b, 12, value("embedding", float32Type, m.Dim()))
	var out []byte
	out = integer(out, 1, irVersion)
	out = message(out, 2, "embedd")
	out = message(out, 7, b)
	out = message(out, 8, integer(nil, 2, opset)) // of the standard domain
	if out, err = metadata(out, m); err != nil {
		return err
	}
	if len(out) > maxBytes {
		return fmt.Errorf("onnx: the graph has %d bytes, above the %d of a file: fit on fewer rows", len(out), maxBytes)
	}
	_, err = w.Write(out)
	return err
}

// value is the ValueInfoProto of a matrix of any number of rows.
func value(name string, elements, columns int) []byte {
	shape := message(nil, 1, message(nil, 2, "rows"))
	shape = message(shape, 1, integer(nil, 1, columns))
	tensor := message(integer(nil, 1, elements), 2, shape)
	return message(message(nil, 1, name), 2, message(nil, 1, tensor))
}

// metadata appends what identifies the model.
func metadata(dst []byte, m *model.Model) ([]byte, error) {
	features, err := json.Marshal(m.Features())
	if err != nil {
		return nil, err
	}
	classes, err := json.Marshal(append([]string{}, m.Classes()...))
	if err != nil {
		return nil, err
	}
	note := m.Note()
	pairs := [][2]string{
		{"digest", m.Digest()}, {"method", m.Method()}, {"map", m.Map()}, {"features", string(features)},
		{"classes", string(classes)}, {"informative_rank", strconv.Itoa(m.InformativeRank())},
	}
	if note.Version != "" {
		pairs = append(pairs, [2]string{"version", note.Version})
	}
	if note.Epoch > 0 {
		pairs = append(pairs, [2]string{"epoch", strconv.FormatUint(note.Epoch, 10)})
	}
	const field protowire.Number = 14
	for _, p := range pairs {
		dst = message(dst, field, message(message(nil, 1, p[0]), 2, p[1]))
	}
	return dst, nil
}

// scaled is (x - mean)/scale, with missing values at the mean.
func scaled(g *graph, c model.Content) string {
	x := "features"
	missing := g.op("Or", g.op("IsNaN", x), g.op("IsInf", x))
	if c.Unit {
		// A norm whose sum of m squares rounds otherwise moves no feature by more.
		for _, s := range c.Scale {
			move := float64(len(c.Scale)) * 0x1p-52 / s
			g.equal += move * move
		}
		x = g.op("Where", missing, g.number(0), x)
		// Relative to the largest, so that no square exceeds float64.
		largest := g.with("ReduceMax", []attribute{many("axes", 1)}, g.op("Abs", x))
		largest = g.op("Where", g.op("Equal", largest, g.number(0)), g.number(1), largest)
		norm := g.op("Mul", largest, g.op("Sqrt", g.sum(g.squared(g.op("Div", x, largest)), 1)))
		norm = g.op("Where", g.op("Equal", norm, g.number(0)), g.number(1), norm)
		x = g.op("Div", x, g.op("Min", norm, g.number(math.MaxFloat64)))
	}
	z := g.op("Div", g.op("Sub", x, g.floats(c.Mean, len(c.Mean))), g.floats(c.Scale, len(c.Scale)))
	z = g.op("Where", missing, g.number(0), z)
	return g.op("Clip", z, g.number(-math.MaxFloat64), g.number(math.MaxFloat64))
}

// outputs adds the map of the scaled rows z.
func outputs(g *graph, z string, c model.Content) (string, error) {
	m := len(c.Mean)
	switch f := c.Map.(type) {
	case *mapping.Linear:
		return g.op("MatMul", z, g.floats(f.Components, m, f.D)), nil
	case *mapping.KernelMap:
		return kernels(g, z, m, f)
	case *mapping.Sum:
		return sum(g, z, m, f)
	case *mapping.Views:
		return views(g, z, m, f), nil
	case *mapping.Nystrom:
		return nystrom(g, z, m, f)
	case *mapping.Barycentric:
		return barycentric(g, z, m, f)
	case *mapping.Geodesic:
		return geodesic(g, z, m, f)
	case *mapping.Tangent:
		return tangent(g, z, m, f)
	case *mapping.SimilarityMap:
		return "", fmt.Errorf("each row solves a quadratic problem, which operators cannot: " +
			"use the package for Python, or a method with another map, as lppnews")
	}
	return "", fmt.Errorf("it is not known as operators; use the package for Python")
}
