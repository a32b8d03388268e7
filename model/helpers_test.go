package model

import (
	"errors"
	"strings"
	"testing"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// panicked fails unless err is that of a panic and has its cause.
func panicked(t *testing.T, what string, err error, why string) {
	t.Helper()
	var p Panic
	if !errors.As(err, &p) || len(p.Stack()) == 0 || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: error %v, want a panic that says %q", what, err, why)
	}
}
