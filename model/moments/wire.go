package moments

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// errCut reports bytes that end too early.
var errCut = errors.New("moments: the bytes of a set end too early")

// AppendBinary appends the wire form of the set, which docs/summary-format.md describes for other languages:
// little-endian, float64. Equal sets have equal bytes.
func (s *Set) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint32(b, uint32(s.m))
	b = append(b, flag(s.perClass), flag(s.shift != nil))
	if s.shift == nil {
		return b, nil
	}
	b = appendNumbers(b, s.shift)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.weight)))
	for k, w := range s.weight {
		b = appendNumbers(b, []float64{w})
		b = appendVector(b, s.sum[k])
	}
	b = appendVector(b, s.labelled)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.second)))
	for _, c := range s.second {
		b = append(b, flag(c != nil))
		if c == nil {
			continue
		}
		raw := c.RawSymmetric()
		for i := range s.m {
			b = appendNumbers(b, raw.Data[i*raw.Stride+i:i*raw.Stride+s.m])
		}
	}
	return b, nil
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func appendVector(b []byte, v []float64) []byte { return appendNumbers(append(b, flag(v != nil)), v) }

func appendNumbers(b []byte, v []float64) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// UnmarshalBinary reads a wire form that nothing follows. It allocates no more memory than the bytes justify, and
// refuses numbers that are not finite.
func (s *Set) UnmarshalBinary(b []byte) error {
	r := reader{rest: b}
	out := Set{m: int(r.uint32()), perClass: r.flag()}
	if r.flag() {
		if out.m < 1 || out.m > len(b)/8 {
			return errCut
		}
		out.shift = r.numbers(out.m)
		slots := int(r.uint32())
		if slots > len(b)/9 {
			return errCut
		}
		for range slots {
			weight := r.numbers(1)
			out.sum = append(out.sum, r.vector(out.m))
			if r.err != nil {
				return r.err
			}
			out.weight = append(out.weight, weight[0])
		}
		out.labelled = r.vector(out.m)
		seconds := int(r.uint32())
		if seconds > len(b) {
			return errCut
		}
		for range seconds {
			out.second = append(out.second, r.triangle(out.m))
			if r.err != nil {
				return r.err
			}
		}
	}
	if r.err != nil {
		return r.err
	}
	if len(r.rest) > 0 {
		return fmt.Errorf("moments: %d bytes follow a set", len(r.rest))
	}
	if err := out.check(); err != nil {
		return err
	}
	*s = out
	return nil
}

// check refuses sets that no rows can have.
func (s *Set) check() error {
	for k, w := range s.weight {
		if !(w >= 0) {
			return fmt.Errorf("moments: slot %d has weight %g; it must be >= 0", k, w)
		}
		if w > 0 && (s.sum[k] == nil || k > 0 && !s.perClass && s.labelled == nil || s.secondOf(k) == nil) {
			return fmt.Errorf("moments: slot %d has weight %g and no sums", k, w)
		}
	}
	most := min(len(s.weight), 2)
	if s.perClass {
		most = len(s.weight)
	}
	if len(s.second) > most {
		return fmt.Errorf("moments: %d second moments for %d slots", len(s.second), len(s.weight))
	}
	return nil
}

// CheckMagnitude checks that the set can be of rows whose features are at most most in magnitude. A set from elsewhere
// might otherwise exceed float64 once it is merged.
func (s *Set) CheckMagnitude(most float64) error {
	var err error
	look := func(what string, v []float64, bound float64) {
		for j, x := range v {
			if err == nil && !(math.Abs(x) <= bound) {
				err = fmt.Errorf("moments: the %s has %g at feature %d, which no rows of at most %g have", what, x, j, most)
			}
		}
	}
	// A row is within 2 most of the shift, which is a mean of rows; as much again allows for rounding.
	all := 0.0
	for k, w := range s.weight {
		all += w
		look("sum of a slot", s.sum[k], 4*most*w)
	}
	look("shift", s.shift, 2*most)
	look("sum of all", s.labelled, 4*most*all)
	for _, c := range s.second {
		if c != nil {
			raw := c.RawSymmetric()
			for i := range s.m {
				look("second moment", raw.Data[i*raw.Stride+i:i*raw.Stride+s.m], 16*most*most*all)
			}
		}
	}
	return err
}

// IsZero reports whether feature j is 0 in all rows.
func (s *Set) IsZero(j int) bool {
	if s.shift == nil {
		return true
	}
	zero := s.shift[j] == 0 && (s.labelled == nil || s.labelled[j] == 0)
	for k := range s.sum {
		zero = zero && (s.sum[k] == nil || s.sum[k][j] == 0)
	}
	for _, c := range s.second {
		zero = zero && (c == nil || c.At(j, j) == 0)
	}
	return zero
}

// secondOf are the second moments of a slot's rows, nil if there are none.
func (s *Set) secondOf(slot int) *mat.SymDense {
	if k := s.secondSlot(slot); k < len(s.second) {
		return s.second[k]
	}
	return nil
}

// reader parses a wire form; after the first error, which it keeps, it returns zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.rest)) {
		r.err = errCut
	}
	if r.err != nil {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) flag() bool {
	b := r.take(1)
	if b != nil && b[0] > 1 {
		r.err = fmt.Errorf("moments: a flag is %d and not 0 or 1", b[0])
	}
	return b != nil && b[0] == 1
}

func (r *reader) numbers(n int) []float64 {
	b := r.take(8 * n)
	if b == nil {
		return nil
	}
	v := make([]float64, n)
	r.fill(v, b)
	return v
}

func (r *reader) fill(v []float64, b []byte) {
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		if math.IsNaN(v[i]) || math.IsInf(v[i], 0) {
			r.err = fmt.Errorf("moments: a number of a set is %g", v[i])
		}
	}
}

func (r *reader) vector(m int) []float64 {
	if !r.flag() {
		return nil
	}
	return r.numbers(m)
}

func (r *reader) triangle(m int) *mat.SymDense {
	if !r.flag() {
		return nil
	}
	if m+1 > len(r.rest)/(4*m) { // the product may overflow an int
		r.err = errCut
	}
	b := r.take(4 * m * (m + 1))
	if b == nil {
		return nil
	}
	s := mat.NewSymDense(m, nil)
	raw := s.RawSymmetric()
	for i := range m {
		n := 8 * (m - i)
		r.fill(raw.Data[i*raw.Stride+i:i*raw.Stride+m], b[:n])
		b = b[n:]
	}
	return s
}
