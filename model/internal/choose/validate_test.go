package choose

import (
	"testing"

	"github.com/embedd/embedd/model/internal/frame"
)

// TestKeptIntermediates: intermediates are kept for candidates of a blend while they take at most 32 MiB.
func TestKeptIntermediates(t *testing.T) {
	linear := &candidate{method: &frame.Method{Map: "linear"}}
	kernel := &candidate{method: &frame.Method{Map: "kernel"}}
	task := func(m int) *frame.Task { return &frame.Task{M: m, Cache: 1} }
	one := func() map[fitKey]frame.Intermediates { return map[fitKey]frame.Intermediates{{fold: 9}: {}} }
	for what, c := range map[string]struct {
		v    validator
		e    *candidate
		task *frame.Task
		want bool
	}{
		"of a blend":      {validator{}, linear, task(1448), true}, // 16 * 1448^2 is just below 32 MiB
		"without a blend": {validator{c: Config{Blend: 1}}, linear, task(3), false},
		"of a kernel":     {validator{}, kernel, task(3), false},
		"too large":       {validator{}, linear, task(1449), false},
		"nothing":         {validator{}, linear, &frame.Task{M: 3}, false},
		"one too many":    {validator{intermediates: one()}, linear, task(1448), false},
		"two":             {validator{intermediates: one()}, linear, task(1024), true},
	} {
		at := fitKey{c.e, 1}
		c.v.keep(at, c.task)
		if _, ok := c.v.intermediates[at]; ok != c.want {
			t.Errorf("%s: kept %v", what, ok)
		}
	}
}
