//go:build linux

package tile

import (
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
)

// fenced returns room for numbers that ends at a page which faults on access.
func fenced(t *testing.T, pages int) []float64 {
	t.Helper()
	size := pages * syscall.Getpagesize()
	all, err := syscall.Mmap(-1, 0, size+syscall.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(all) })
	if err := syscall.Mprotect(all[size:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice((*float64)(unsafe.Pointer(&all[0])), size/8)
}

// No kernel for rows, tables, points, distances and paths reads or writes a number after its operands.
func TestStaysInside(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	a, b, c, d := fenced(t, 64), fenced(t, 64), fenced(t, 64), fenced(t, 64)
	last := func(x []float64, n int) []float64 { return x[len(x)-n:] }
	single := func(x []float64) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&x[0])), 2*len(x)) }
	for _, l := range levels() {
		force(t, l)
		for n := 1; n <= 50; n += 7 {
			for _, k := range []int{1, 5, 72, 73, 150} {
				table := NewTable(make([]float64, n*k), n, k, k, 1)
				table.data = last(a, len(table.data))
				table.Times(last(c, table.Rows()*Together), last(b, k*Together))
				table.Row(last(c, table.Width()), last(b, k))
				points, out, bounds := NewPoints(n, k), Products{}, Bounds{}
				points.data = single(last(a, len(points.data)/2))
				out.CompareFirst(points, &bounds, points, points.Panels()-1, &bounds)
				out.Compare(points, (points.Panels()-1)*PointPanel, &bounds, points, points.Panels()-1, &bounds)
			}
			Distances(last(a, n), last(b, n), 1, -1)
			x := last(c, n*RelaxWidth)
			Relax(last(x, RelaxWidth), []int{0, n - 1}, last(b, 2), x)
			Standardise(last(a, n), last(b, n), last(d, n))
		}
	}
}
