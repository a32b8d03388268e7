//go:build linux

package narrow

import (
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
)

// pageBetweenFences is a page of memory between two that fault on access.
func pageBetweenFences(t *testing.T) []byte {
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
	return all[size : 2*size]
}

// No loop reads or writes a byte outside the numbers.
func TestStaysInside(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	in, out := pageBetweenFences(t), pageBetweenFences(t)
	for _, f := range formats {
		for n := 1; n <= 70; n++ {
			raw, dst := n*f.Size(), 4*n
			for _, at := range [][2]int{{0, 0}, {len(in) - raw, len(out) - dst}} {
				f.Widen(unsafe.Slice((*float32)(unsafe.Pointer(&out[at[1]])), n), in[at[0]:at[0]+raw])
			}
		}
	}
}
