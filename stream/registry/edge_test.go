package registry

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// opened counts the readers that were not closed.
type opened struct {
	io.Reader
	open *int
}

func (o opened) Close() error { *o.open--; return nil }

// TestNearFirst: what the mirror lacks is read from the hub, and no reader is left open, also where the hub has less.
func TestNearFirst(t *testing.T) {
	torn := errors.New("the mirror has no more")
	for hub, want := range map[string]string{"the whole model": "the whole model", "the": "the whole"} {
		open := 1
		f := &mirrorFirst{ReadCloser: opened{io.MultiReader(strings.NewReader("the whole"), iotest.ErrReader(torn)), &open},
			rest: func(error) (io.ReadCloser, error) {
				open++
				return opened{strings.NewReader(hub), &open}, nil
			}}
		got, err := io.ReadAll(f)
		if string(got) != want || (err == nil) != (hub == want) {
			t.Errorf("the hub has %q: read %q, %v", hub, got, err)
		}
		if err := f.Close(); err != nil || open != 0 {
			t.Errorf("the hub has %q: %d readers are left open, %v", hub, open, err)
		}
	}
}
