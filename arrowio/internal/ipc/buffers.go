package ipc

import "sync"

// Buffers recycles memory: of messages that were written, and of what decoding a message needs in addition to it. It is
// safe for concurrent use.
type Buffers struct{ pool sync.Pool } // of *[]byte

// Put makes memory available to later calls of Get.
func (m *Buffers) Put(buffers ...[]byte) {
	for _, b := range buffers {
		m.pool.Put(&b)
	}
}

// Get returns an empty buffer, with undefined contents behind its end, and a capacity of at least n and at most an
// eighth more, because memory limits count lengths.
func (m *Buffers) Get(n int) []byte {
	if b, ok := m.pool.Get().(*[]byte); ok && cap(*b) >= n && cap(*b)-n <= n/8 {
		return (*b)[:0]
	}
	return make([]byte, 0, n)
}
