package file

import (
	"bytes"
	"io"
	"testing"

	"github.com/embedd/embedd/arrowio"
)

// Whatever the bytes, a stream is read to an end or to an error, within memory that they can justify.
func FuzzStream(f *testing.F) {
	rec := sample(5)
	defer rec.Release()
	msg, err := arrowio.FromRecords(rec.Schema(), rec)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(msg)
	f.Add(msg[:len(msg)-8])
	f.Add(append(append([]byte(nil), msg...), msg...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b), "fuzz")
		if err != nil {
			return
		}
		var out bytes.Buffer
		w := NewWriter(&out, "fuzz")
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return
			}
			if err := w.Write(rec); err != nil {
				t.Errorf("a batch that was read cannot be written: %v", err)
			}
			rec.Release()
		}
	})
}
