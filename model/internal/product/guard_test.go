//go:build linux

package product

import (
	"math/rand/v2"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
)

// fenced is one page of memory between two pages that fault on access.
type fenced struct{ page []byte }

func newFenced(t *testing.T) *fenced {
	t.Helper()
	size := syscall.Getpagesize()
	all, err := syscall.Mmap(-1, 0, 3*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(all) })
	for _, fence := range [][]byte{all[:size], all[2*size:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return &fenced{all[size : 2*size]}
}

// place copies x to the beginning or the end of the page.
func place[T float32 | float64](f *fenced, x []T, end bool) []T {
	size := int(unsafe.Sizeof(x[0])) * len(x)
	at := 0
	if end {
		at = len(f.page) - size
	}
	out := unsafe.Slice((*T)(unsafe.Pointer(&f.page[at])), len(x))
	copy(out, x)
	return out
}

// No loop reads or writes a byte outside the rows and the outputs.
func TestStaysInside(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	r := rand.New(rand.NewPCG(1, 1))
	rows, out := newFenced(t), newFenced(t)
	var columns []*fenced
	for range 19 {
		columns = append(columns, newFenced(t))
	}
	for _, s := range sets() {
		for range 500 {
			features, outputs, n, end := 1+r.IntN(len(columns)), 1+r.IntN(11), 1+r.IntN(25), r.IntN(2) == 0
			w := newWeights(s, make([]float32, features*outputs), make([]float32, features), make([]float32, outputs))
			y := place(out, make([]float32, n*outputs), end)
			w.List32(y, place(rows, make([]float32, n*features), end), n, features)
			w.List64(y, place(rows, make([]float64, n*features), end), n, features)
			x, x64 := make([]*float32, features), make([]*float64, features)
			for j := range features {
				x[j] = &place(columns[j], make([]float32, n), end)[0]
			}
			w.Columns32(y, x, 0, n, NewSums())
			for j := range features {
				x64[j] = &place(columns[j], make([]float64, n), end)[0]
			}
			w.Columns64(y, x64, 0, n, NewSums())
		}
	}
}
