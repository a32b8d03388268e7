package stage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin/spec"
)

// TestCodecs: messages in other formats than the configured ones have the same rows and outputs.
func TestCodecs(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *spec.Config) { c.Output.Compression = "zstd" })
	rows := clouds(rand.New(rand.NewPCG(63, 64)), 120, 3)
	learnRows(t, s, 1, rows)
	arrowed := encodeRows(t, rows[:1])
	text := fmt.Sprintf(`{"x":%s}`, strings.Join(strings.Fields(fmt.Sprint(rows[0].x)), ","))
	for _, c := range []struct {
		in, out wire.Format
		msg     []byte
		want    string
	}{
		{wire.FormatArrow, wire.FormatArrow, arrowed, "\xff\xff\xff\xff"},
		{wire.FormatJSON, wire.FormatJSON, []byte(text),
			`{"embedding":[`},
		{wire.FormatArrow, wire.FormatJSON, arrowed, `[{"label":"c0","embedding":[`},
		{wire.FormatJSON, wire.FormatCSV, []byte(text), "embedding_0,embedding_1\n"},
		{wire.FormatNDJSON, wire.FormatArrow, []byte(text), "\xff\xff\xff\xff"},
	} {
		codec, err := NewCodec(s, c.in, c.out)
		if err != nil {
			t.Fatal(err)
		}
		isOwn := c.in == wire.FormatArrow
		if (codec.decoder == s.decoder) != isOwn || (codec.encoder == s.encoder) != (isOwn && c.out == wire.FormatArrow) {
			t.Errorf("%s to %s: the caches of the stage are shared", c.in, c.out)
		}
		m, err := codec.Decode(c.msg)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Transform(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		out, err := codec.Encode(r, wire.Pair{Key: "more", Value: "pairs"})
		if err != nil || !bytes.HasPrefix(out, []byte(c.want)) {
			t.Errorf("%s to %s: %q, %v", c.in, c.out, out, err)
		}
		if hasMore := bytes.Contains(out, []byte("pairs")); hasMore != (c.out == wire.FormatArrow) {
			t.Errorf("%s to %s: the metadata has the pair: %v", c.in, c.out, hasMore)
		}
	}
	for _, formats := range [][2]wire.Format{{"xml", "json"}, {"json", "xml"}} {
		if _, err := NewCodec(s, formats[0], formats[1]); err == nil {
			t.Errorf("formats %v", formats)
		}
	}
}
