package stage

import (
	"cmp"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin/spec"
)

// Codec reads and writes messages of a stage in formats that may differ from the configured ones.
type Codec struct {
	stage   *Stage
	decoder *arrowio.Decoder
	encoder *arrowio.Encoder
}

// NewCodec returns a codec of a stage. With other formats it has separate caches, so that its messages do not evict the
// schemas of the configured formats.
func NewCodec(s *Stage, input, output wire.Format) (c *Codec, err error) {
	c = &Codec{s, s.decoder, s.encoder}
	in, out := s.config.Spec, s.config.Output
	isOwn := input == cmp.Or(in.Format, wire.FormatArrow)
	if !isOwn {
		in.Format = input
		if c.decoder, err = arrowio.NewDecoder(in); err != nil {
			return nil, err
		}
	}
	if !isOwn || output != cmp.Or(out.Format, wire.FormatArrow) {
		if out.Format = output; output.IsText() {
			out.Compression = ""
		}
		if c.encoder, err = arrowio.NewEncoder(out); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Decode is [Stage.Decode].
func (c *Codec) Decode(msg []byte) (*arrowio.Message, error) {
	return c.decoder.Decode(msg, c.stage.Contract())
}

// Encode is [Stage.Encode].
func (c *Codec) Encode(r *spec.Result, more ...wire.Pair) ([]byte, error) {
	return c.encoder.Encode(r.Reduced, append(c.stage.pairs(r.Live), more...))
}
