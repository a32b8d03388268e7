package arrowio

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
)

// integration/python/test_validity.py judges in pyarrow what TestMutants writes.
//
//	go test ./arrowio -run TestMutants -args -mutants 20000 -mutants-out FILE
var (
	mutants    = flag.Int("mutants", 200, "number of messages with mutated values in TestMutants")
	mutantsOut = flag.String("mutants-out", "", "file for the mutants and their outputs")
)

// A place is a range of a message.
type place struct{ at, size int }

// places returns where the buffers and the batch metadata of a message are.
func places(msg []byte) (buffers, heads []place) {
	rest := msg
	for first := true; ; first = false {
		f, tail, end, err := nextFrame(rest, first)
		if err != nil || end {
			return buffers, heads
		}
		begin := len(msg) - len(tail) - len(f.Body)
		heads = append(heads, place{begin - len(f.Meta), len(f.Meta)})
		head := f.Head
		if f.Kind == 2 {
			head, _ = head.Table(1, "a dictionary")
		}
		if f.Kind > 1 {
			v := head.Vector(2, 16, "buffers")
			for i := range v.Len {
				b := v.Bytes()[16*i:]
				if n := int(le.Uint64(b[8:])); n > 0 {
					buffers = append(buffers, place{begin + int(le.Uint64(b)), n})
				}
			}
		}
		rest = tail
	}
}

// mutateValues changes one or more values in the buffers of a message. One in four changes is in the metadata of a
// frame, where null counts, types and precisions are.
func mutateValues(r *rand.Rand, msg []byte) []byte {
	buffers, heads := places(msg)
	msg = slices.Clone(msg)
	for more := true; more; more = r.IntN(2) == 0 {
		list := buffers
		if r.IntN(4) == 0 || len(buffers) == 0 {
			list = heads
		}
		p := list[r.IntN(len(list))]
		width := 1 << r.IntN(4)
		if p.size < width {
			width = 1
		}
		at := p.at + r.IntN(p.size/width)*width
		b := msg[at : at+width]
		v := interesting[r.IntN(len(interesting))]
		switch r.IntN(4) {
		case 0:
			b[r.IntN(width)] ^= 1 << r.IntN(8)
			continue
		case 1:
			v = uint64(r.IntN(20))
		case 2:
			v = r.Uint64()
		}
		var all [8]byte
		le.PutUint64(all[:], v)
		copy(b, all[:width])
	}
	return msg
}

// TestMutants changes values of valid messages at random and writes those that are accepted: whole, without some rows,
// the other rows as a dead letter, and in parts.
func TestMutants(t *testing.T) {
	var from [][]byte
	for _, s := range seeds(t) {
		if buffers, _ := places(s); len(buffers) > 0 {
			from = append(from, s)
		}
	}
	w := bufio.NewWriter(nil)
	if *mutantsOut != "" {
		f, err := os.Create(*mutantsOut)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w.Reset(f)
	}
	write := func(b []byte) {
		if *mutantsOut != "" {
			w.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(b))))
			w.Write(b)
		}
	}
	d, e := newDecoder(t, Spec{Label: "label", Key: "id"}), newEncoder(t, Output{})
	accepted := 0
	for seed := range *mutants {
		r := rand.New(rand.NewPCG(uint64(seed), 21))
		msg := mutateValues(r, from[r.IntN(len(from))])
		if r.IntN(8) == 0 {
			msg = mutate(r, from)
		}
		outputs, err := published(r, d, e, msg)
		verdict := "accepted"
		var fail *Error
		if errors.As(err, &fail) {
			verdict = string(fail.Code) + ": " + fail.Error()
		} else if err != nil {
			t.Fatalf("mutant %d: %v", seed, err)
		} else {
			accepted++
		}
		write([]byte(verdict))
		write(msg)
		write([]byte(strconv.Itoa(len(outputs))))
		for _, o := range outputs {
			write(o)
		}
	}
	if *mutantsOut != "" {
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d mutants were accepted", accepted, *mutants)
	if accepted < *mutants/20 {
		t.Errorf("only %d of %d mutants were accepted", accepted, *mutants)
	}
}

// published returns what a pipeline would publish of a message.
func published(r *rand.Rand, d *Decoder, e *Encoder, msg []byte) ([][]byte, error) {
	m, err := d.Decode(msg, nil)
	if err != nil {
		return nil, err
	}
	some := numbered(m, 2)
	var rejected [][]int
	for _, b := range m.Batches() {
		var drop []int
		for i := range b.Rows() {
			if r.IntN(3) == 0 {
				drop = append(drop, i)
			}
		}
		rejected = append(rejected, drop)
	}
	var outputs [][]byte
	add := func(out []byte, err error) error {
		outputs = append(outputs, out)
		return err
	}
	if err := add(e.Encode(some, nil)); err != nil {
		return nil, err
	}
	some.Drop = rejected
	if err := add(e.Encode(some, nil)); err != nil {
		return nil, err
	}
	if err := add(e.Rejected(m, rejected, nil)); err != nil {
		return nil, err
	}
	some.Drop = nil
	parts, err := e.Split(some, max(1<<10, 3*len(msg)/4),
		func(k, n int) []wire.Pair { return []wire.Pair{{Key: wire.HeaderPart, Value: fmt.Sprint(k, n)}} })
	var fail *Error
	if errors.As(err, &fail) { // one row may be too wide for so small a limit
		return outputs, nil
	}
	return append(outputs, parts...), err
}
