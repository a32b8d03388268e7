package file

import (
	"encoding/binary"
	"errors"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// decodeThrift decodes a struct of Thrift's compact protocol, and returns the bytes behind it. parquet-go allocates the
// elements that a list declares before it reads them, and calls itself for each level of nesting, so both are checked
// first (Invariant 6).
func decodeThrift(b []byte, into any) (rest []byte, err error) {
	if rest, err = skipThrift(b, thrift.STRUCT, 0); err != nil {
		return nil, err
	}
	in := new(thrift.CompactProtocol).NewReaderFromBytes(b[:len(b)-len(rest)])
	return rest, thrift.NewDecoder(in).Decode(into)
}

// maxNested is the most levels of nesting. A footer of Parquet has about ten.
const maxNested = 64

var errThrift = errors.New("a value in it is longer than its bytes, or of an unknown type")

// skipThrift returns what is behind a value of a type ("Thrift compact protocol" of Apache Thrift).
func skipThrift(b []byte, t thrift.Type, depth int) (rest []byte, err error) {
	if depth > maxNested {
		return nil, errors.New("it is nested in more than 64 levels")
	}
	switch t {
	case thrift.TRUE, thrift.FALSE: // the type of the field is the value
		return b, nil
	case thrift.I8:
		return skipBytes(b, 1)
	case thrift.I16, thrift.I32, thrift.I64:
		_, b, err = uvarint(b)
		return b, err
	case thrift.DOUBLE:
		return skipBytes(b, 8)
	case thrift.UUID:
		return skipBytes(b, 16)
	case thrift.BINARY:
		n, b, err := uvarint(b)
		if err != nil {
			return nil, err
		}
		return skipBytes(b, n)
	case thrift.LIST, thrift.SET:
		if len(b) == 0 {
			return nil, errThrift
		}
		size, of := uint64(b[0]>>4), thrift.Type(b[0]&0xf)
		if b = b[1:]; size == 15 {
			if size, b, err = uvarint(b); err != nil {
				return nil, err
			}
		}
		return skipElements(b, size, depth, of)
	case thrift.MAP:
		size, b, err := uvarint(b)
		if err != nil || size == 0 {
			return b, err
		}
		if len(b) == 0 {
			return nil, errThrift
		}
		return skipElements(b[1:], size, depth, thrift.Type(b[0]>>4), thrift.Type(b[0]&0xf))
	case thrift.STRUCT:
		for len(b) > 0 {
			head := b[0]
			if b = b[1:]; head == 0 {
				return b, nil
			}
			if head>>4 == 0 { // the number of the field follows
				if _, b, err = uvarint(b); err != nil {
					return nil, err
				}
			}
			if b, err = skipThrift(b, thrift.Type(head&0xf), depth+1); err != nil {
				return nil, err
			}
		}
	}
	return nil, errThrift
}

// skipElements returns what is behind the elements of a list, or those of a map: a key and a value each.
func skipElements(b []byte, size uint64, depth int, types ...thrift.Type) (rest []byte, err error) {
	if size > uint64(len(b)) { // an element has a byte at least
		return nil, errThrift
	}
	for range size {
		for _, t := range types {
			if t == thrift.TRUE || t == thrift.FALSE {
				b, err = skipBytes(b, 1)
			} else {
				b, err = skipThrift(b, t, depth+1)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

func skipBytes(b []byte, n uint64) ([]byte, error) {
	if n > uint64(len(b)) {
		return nil, errThrift
	}
	return b[n:], nil
}

func uvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errThrift
	}
	return v, b[n:], nil
}
