package ipc

import "unsafe"

// View returns the first n values of b without a copy. They need not be aligned: all processors with this byte order
// that Go supports allow that.
func View[T any](b []byte, n int) []T {
	if n == 0 {
		return []T{}
	}
	var t T
	_ = b[n*int(unsafe.Sizeof(t))-1]
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// AsBytes returns the memory of numbers of width bytes each.
func AsBytes[T float32 | float64](s []T, width int) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*width)
}
