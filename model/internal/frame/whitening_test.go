package frame

import (
	"context"
	"errors"
	"testing"

	"github.com/embedd/embedd/model/internal/fail"
)

// TestWhiteningEndsWithItsContext, before it factors anything.
func TestWhiteningEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, whiten := range map[string]func(){
		"leading": func() { fail.Must(Whitening(ctx, &Task{}, 1)) },
		"all":     func() { FullWhitening(ctx, &Task{}, 1) },
	} {
		if err := failure(whiten); !errors.Is(err, context.Canceled) {
			t.Errorf("%s columns: %v", name, err)
		}
	}
}

func failure(f func()) (err error) {
	defer fail.Catch(&err)
	f()
	return nil
}
