package ipc

import "sync"

// Buffers recycles memory: of messages that were written, and of what decoding a message needs in addition to it. It is
// safe for concurrent use.
type Buffers struct{ full, empty sync.Pool } // of *[]byte; those in empty have no memory and save an allocation each

// Put makes memory available to later calls of Get.
func (m *Buffers) Put(buffers ...[]byte) {
	for _, b := range buffers {
		p, ok := m.empty.Get().(*[]byte)
		if !ok {
			p = new([]byte)
		}
		*p = b
		m.full.Put(p)
	}
}

// Get returns an empty buffer, with undefined contents behind its end, and a capacity of at least n and at most an
// eighth more, because memory limits count lengths.
func (m *Buffers) Get(n int) []byte {
	if p, ok := m.full.Get().(*[]byte); ok {
		b := *p
		*p = nil
		m.empty.Put(p)
		if cap(b) >= n && cap(b)-n <= n/8 {
			return b[:0]
		}
	}
	return make([]byte, 0, n)
}
