package wire

import (
	"testing"
	"time"
)

func BenchmarkID(b *testing.B) {
	k, o := NewKey(make([]byte, 32)), Origin{Stream: "FEATURES", Created: time.Unix(1, 2), Seq: 7}
	b.ReportAllocs()
	for b.Loop() {
		k.ID(o, "digits", AnswerOut, 0)
	}
}
