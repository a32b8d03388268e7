package ipc

import "unsafe"

// View reads the first n values of b in place. Values need not be aligned: the processors that Go runs on with this
// byte order read them so.
func View[T any](b []byte, n int) []T {
	if n == 0 {
		return []T{}
	}
	var t T
	_ = b[n*int(unsafe.Sizeof(t))-1]
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// AsBytes is the memory of numbers of so many bytes each.
func AsBytes[T float32 | float64](s []T, width int) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*width)
}
