package onnx

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

const boolType = 9

// tensor is a value of a graph. Its numbers are in float64 whatever their type is.
type tensor struct {
	kind  int
	shape []int
	data  []float64
}

// fields are the fields of a protocol buffers message: bytes, or varints.
type fields map[protowire.Number][]field

type field struct {
	body  []byte
	value int
}

func parse(t *testing.T, b []byte) fields {
	all := fields{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		b = b[max(n, 0):]
		var f field
		switch kind {
		case protowire.BytesType:
			f.body, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			f.value = int(v)
		default:
			n = -1
		}
		if n < 0 {
			t.Fatalf("field %d has type %d, or is cut off", number, kind)
		}
		all[number] = append(all[number], f)
		b = b[n:]
	}
	return all
}

func (f fields) message(t *testing.T, number protowire.Number) fields {
	return parse(t, f.one(t, number).body)
}

func (f fields) text(number protowire.Number) (texts []string) {
	for _, one := range f[number] {
		texts = append(texts, string(one.body))
	}
	return texts
}

func (f fields) one(t *testing.T, number protowire.Number) field {
	t.Helper()
	if len(f[number]) != 1 {
		t.Fatalf("field %d comes %d times", number, len(f[number]))
	}
	return f[number][0]
}

// runGraph computes the output of a GraphProto from rows of float64, by the definitions of operator set 17.
func runGraph(t *testing.T, graph fields, rows tensor) tensor {
	values := map[string]tensor{"features": rows}
	for _, f := range graph[5] {
		p := parse(t, f.body)
		c := tensor{kind: p.one(t, 2).value}
		for _, n := range p[1] {
			c.shape = append(c.shape, n.value)
		}
		for raw := p.one(t, 9).body; len(raw) > 0; raw = raw[8:] {
			switch bits := binary.LittleEndian.Uint64(raw); c.kind {
			case float64Type:
				c.data = append(c.data, math.Float64frombits(bits))
			case int64Type:
				c.data = append(c.data, float64(int64(bits)))
			}
		}
		if len(c.data) != size(c.shape) {
			t.Fatalf("a constant of type %d and shape %v has %d numbers", c.kind, c.shape, len(c.data))
		}
		values[string(p.one(t, 8).body)] = c
	}
	for _, f := range graph[1] {
		p := parse(t, f.body)
		o := operator{t: t, kind: string(p.one(t, 4).body), attributes: map[string][]int{}}
		for _, name := range p.text(1) {
			in, ok := values[name]
			if !ok {
				t.Fatalf("%s reads %s before it is there", o.kind, name)
			}
			o.in = append(o.in, in)
		}
		for _, a := range p[5] {
			o.attribute(parse(t, a.body))
		}
		for i, out := range o.run() {
			values[p.text(2)[i]] = out
		}
	}
	return values["embedding"]
}

type operator struct {
	t          *testing.T
	kind       string
	in         []tensor
	attributes map[string][]int
}

func (o *operator) attribute(p fields) {
	name := string(p.one(o.t, 1).body)
	switch kind := p.one(o.t, 20).value; kind {
	case 2:
		o.attributes[name] = []int{p.one(o.t, 3).value}
	case 7:
		for _, v := range p[8] {
			o.attributes[name] = append(o.attributes[name], v.value)
		}
	default:
		o.t.Fatalf("attribute %s of %s has type %d", name, o.kind, kind)
	}
}

// axis is the attribute of one number, which may be left out.
func (o *operator) axis(name string, otherwise int) int {
	if v, ok := o.attributes[name]; ok {
		return v[0]
	}
	return otherwise
}

func (o *operator) run() []tensor {
	x := o.in[0]
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	of := func(out tensor) []tensor { return []tensor{out} }
	switch o.kind {
	case "Add":
		return of(o.pairs(x.kind, func(a, b float64) float64 { return a + b }))
	case "Sub":
		return of(o.pairs(x.kind, func(a, b float64) float64 { return a - b }))
	case "Mul":
		return of(o.pairs(x.kind, func(a, b float64) float64 { return a * b }))
	case "Div":
		return of(o.pairs(x.kind, func(a, b float64) float64 { return a / b }))
	case "Max":
		return of(o.pairs(x.kind, math.Max))
	case "Min":
		return of(o.pairs(x.kind, math.Min))
	case "Equal":
		return of(o.pairs(boolType, func(a, b float64) float64 { return truth(a == b) }))
	case "Less":
		return of(o.pairs(boolType, func(a, b float64) float64 { return truth(a < b) }))
	case "LessOrEqual":
		return of(o.pairs(boolType, func(a, b float64) float64 { return truth(a <= b) }))
	case "Greater":
		return of(o.pairs(boolType, func(a, b float64) float64 { return truth(a > b) }))
	case "And":
		return of(o.pairs(boolType, func(a, b float64) float64 { return a * b }))
	case "Or":
		return of(o.pairs(boolType, math.Max))
	case "Exp":
		return of(x.each(x.kind, math.Exp))
	case "Sqrt":
		return of(x.each(x.kind, math.Sqrt))
	case "Abs":
		return of(x.each(x.kind, math.Abs))
	case "IsNaN":
		return of(x.each(boolType, func(v float64) float64 { return truth(v != v) }))
	case "IsInf":
		return of(x.each(boolType, func(v float64) float64 { return truth(math.IsInf(v, 0)) }))
	case "Clip":
		return of(x.each(x.kind, func(v float64) float64 { return min(max(v, o.in[1].data[0]), o.in[2].data[0]) }))
	case "Cast":
		to := o.axis("to", 0)
		return of(x.each(to, func(v float64) float64 {
			if to == float32Type {
				return float64(float32(v))
			}
			return v
		}))
	case "Where":
		o.same(o.in[1], o.in[2])
		shape := broadcast(o.t, broadcast(o.t, x.shape, o.in[1].shape), o.in[2].shape)
		return of(build(o.in[1].kind, shape, func(at []int) float64 {
			if x.at(at) != 0 {
				return o.in[1].at(at)
			}
			return o.in[2].at(at)
		}))
	case "MatMul":
		return of(o.product())
	case "ReduceSum":
		var axes []int
		for _, v := range o.in[1].data {
			axes = append(axes, int(v))
		}
		return of(x.reduce(axes, 0, func(a, b float64) float64 { return a + b }))
	case "ReduceMax":
		return of(x.reduce(o.attributes["axes"], math.Inf(-1), math.Max))
	case "ReduceMin":
		return of(x.reduce(o.attributes["axes"], math.Inf(1), math.Min))
	}
	return o.move()
}

// move runs operators that only move numbers.
func (o *operator) move() []tensor {
	x := o.in[0]
	switch o.kind {
	case "Squeeze", "Unsqueeze":
		shape, axis := slices.Clone(x.shape), int(o.in[1].data[0])
		if o.kind == "Unsqueeze" {
			shape = slices.Insert(shape, axis, 1)
		} else if shape = slices.Delete(shape, axis, axis+1); x.shape[axis] != 1 {
			o.t.Fatalf("Squeeze of axis %d of %v", axis, x.shape)
		}
		return []tensor{{x.kind, shape, x.data}}
	case "Transpose":
		perm := o.attributes["perm"]
		var shape []int
		for _, axis := range perm {
			shape = append(shape, x.shape[axis])
		}
		return []tensor{build(x.kind, shape, func(at []int) float64 {
			from := make([]int, len(at))
			for i, axis := range perm {
				from[axis] = at[i]
			}
			return x.at(from)
		})}
	case "Gather":
		axis, i := o.axis("axis", 0), o.in[1]
		shape := slices.Concat(x.shape[:axis], i.shape, x.shape[axis+1:])
		return []tensor{build(x.kind, shape, func(at []int) float64 {
			chosen := int(i.at(at[axis : axis+len(i.shape)]))
			return x.at(slices.Concat(at[:axis], []int{chosen}, at[axis+len(i.shape):]))
		})}
	case "GatherElements":
		return []tensor{build(x.kind, o.in[1].shape, func(at []int) float64 {
			from := slices.Clone(at)
			from[o.axis("axis", 0)] = int(o.in[1].at(at))
			return x.at(from)
		})}
	case "ScatterElements":
		y := tensor{x.kind, x.shape, slices.Clone(x.data)}
		build(x.kind, o.in[1].shape, func(at []int) float64 {
			to := slices.Clone(at)
			to[o.axis("axis", 0)] = int(o.in[1].at(at))
			y.data[y.place(to)] = o.in[2].at(at)
			return 0
		})
		return []tensor{y}
	case "Concat":
		axis, shape := o.axis("axis", 0), slices.Clone(x.shape)
		for _, more := range o.in[1:] {
			o.same(x, more)
			shape[axis] += more.shape[axis]
		}
		return []tensor{build(x.kind, shape, func(at []int) float64 {
			from := slices.Clone(at)
			for _, part := range o.in {
				if from[axis] < part.shape[axis] {
					return part.at(from)
				}
				from[axis] -= part.shape[axis]
			}
			panic("unreachable")
		})}
	case "TopK":
		return o.smallest()
	}
	o.t.Fatalf("operator %s is not known", o.kind)
	return nil
}

func (o *operator) smallest() []tensor {
	x, k := o.in[0], int(o.in[1].data[0])
	if o.axis("largest", 1) != 0 || len(x.shape) != 2 {
		o.t.Fatalf("TopK of %v with %v", x.shape, o.attributes)
	}
	shape := []int{x.shape[0], k}
	values, places := tensor{kind: x.kind, shape: shape}, tensor{kind: int64Type, shape: shape}
	for i := range x.shape[0] {
		row := x.data[i*x.shape[1] : (i+1)*x.shape[1]]
		order := make([]int, len(row))
		for j := range order {
			order[j] = j
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(row[a], row[b]) })
		for _, j := range order[:k] {
			values.data, places.data = append(values.data, row[j]), append(places.data, float64(j))
		}
	}
	return []tensor{values, places}
}

// product multiplies the matrices of the last two axes. One on the right may serve all on the left.
func (o *operator) product() tensor {
	a, b := o.in[0], o.in[1]
	o.same(a, b)
	last := len(a.shape) - 1
	inner := a.shape[last]
	if inner != b.shape[len(b.shape)-2] || len(b.shape) > 2 && !slices.Equal(a.shape[:last-1], b.shape[:last-1]) {
		o.t.Fatalf("MatMul of %v and %v", a.shape, b.shape)
	}
	shape := slices.Clone(a.shape)
	shape[last] = b.shape[len(b.shape)-1]
	return build(a.kind, shape, func(at []int) (sum float64) {
		left, right := slices.Clone(at), slices.Clone(at[len(at)-len(b.shape):])
		for i := range inner {
			left[last], right[len(right)-2] = i, i
			sum += a.at(left) * b.at(right)
		}
		return sum
	})
}

// pairs applies f to numbers of the same place, of two tensors of one type.
func (o *operator) pairs(kind int, f func(a, b float64) float64) tensor {
	a, b := o.in[0], o.in[1]
	o.same(a, b)
	return build(kind, broadcast(o.t, a.shape, b.shape), func(at []int) float64 { return f(a.at(at), b.at(at)) })
}

func (o *operator) same(a, b tensor) {
	if a.kind != b.kind {
		o.t.Fatalf("%s of the types %d and %d", o.kind, a.kind, b.kind)
	}
}

func (x tensor) each(kind int, f func(float64) float64) tensor {
	y := tensor{kind: kind, shape: x.shape}
	for _, v := range x.data {
		y.data = append(y.data, f(v))
	}
	return y
}

// reduce leaves the axes with size 1.
func (x tensor) reduce(axes []int, begin float64, f func(a, b float64) float64) tensor {
	shape := slices.Clone(x.shape)
	for _, axis := range axes {
		shape[axis] = 1
	}
	y := build(x.kind, shape, func([]int) float64 { return begin })
	build(x.kind, x.shape, func(at []int) float64 {
		to := y.place(at)
		y.data[to] = f(y.data[to], x.at(at))
		return 0
	})
	return y
}

// at is the number of a place in a larger shape.
func (x tensor) at(at []int) float64 { return x.data[x.place(at)] }

// place is the index of a number; axes of size 1, and those that are missing in front, serve every place.
func (x tensor) place(at []int) (place int) {
	at = at[len(at)-len(x.shape):]
	for i, n := range x.shape {
		place *= n
		if n > 1 {
			if at[i] < 0 || at[i] >= n {
				panic(fmt.Sprintf("place %v of %v", at, x.shape))
			}
			place += at[i]
		}
	}
	return place
}

func size(shape []int) int {
	n := 1
	for _, v := range shape {
		n *= v
	}
	return n
}

func build(kind int, shape []int, f func(at []int) float64) tensor {
	x := tensor{kind: kind, shape: shape, data: make([]float64, size(shape))}
	at := make([]int, len(shape))
	for i := range x.data {
		for axis, rest := len(shape)-1, i; axis >= 0; axis-- {
			at[axis], rest = rest%shape[axis], rest/shape[axis]
		}
		x.data[i] = f(at)
	}
	return x
}

func broadcast(t *testing.T, a, b []int) []int {
	if len(a) < len(b) {
		a, b = b, a
	}
	shape := slices.Clone(a)
	for i, n := range b {
		at := &shape[len(a)-len(b)+i]
		if *at != n && *at != 1 && n != 1 {
			t.Fatalf("shapes %v and %v", a, b)
		}
		*at = max(*at, n)
	}
	return shape
}
