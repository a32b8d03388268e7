package window

import (
	"bytes"
	"crypto/sha256"
	"math"
	"testing"

	"github.com/embedd/embedd/internal/bound"
)

// FuzzReadSummary: any bytes, with a valid digest or not, are rejected or are a summary: writing it gives the same
// bytes, and a window accepts it and counts its rows.
func FuzzReadSummary(f *testing.F) {
	for _, labelled := range []bool{true, false} {
		c := summed
		c.Labelled = labelled
		rows := messages(5, 1, 4)[0]
		for i := range rows {
			if !labelled {
				rows[i].Label = ""
			}
		}
		s, err := Summarize(f.Context(), c, yield(rows))
		if err != nil {
			f.Fatal(err)
		}
		s.Range, s.Features = Range{rows[0].Created, rows[0].Seq, rows[len(rows)-1].Seq}, []string{"a", "b", "c", "d", "e",
			"f"}
		b, err := s.Bytes()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b[:len(b)-sha256.Size], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, sign bool) {
		if sign {
			b = signed(b)
		}
		bound.Check(t, 64<<20+64*uint64(len(b)), func() {
			s, err := ReadSummary(b)
			if err != nil {
				return
			}
			if s.Len() > s.Read.Rows || s.Len() < len(s.Rows) {
				t.Errorf("%d rows of %d, %d carried", s.Len(), s.Read.Rows, len(s.Rows))
			}
			again, err := s.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			other, err := ReadSummary(again)
			if err != nil {
				t.Fatalf("written again it is refused: %v", err)
			}
			if last, err := other.Bytes(); err != nil || !bytes.Equal(last, again) {
				t.Errorf("read and written again, it has other bytes: %v", err)
			}
			c := summed
			c.Features, c.Labelled, c.Rows = len(s.Features), s.Labelled, math.MaxInt
			w := New(c)
			if w.AddSummary(s) == Added && w.Len() < 1 {
				t.Errorf("the window has %d rows", w.Len())
			}
			_, _ = w.Newest(t.Context(), w.Len())
		})
	})
}
