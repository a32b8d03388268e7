package main

import (
	"io"
	"strings"
	"testing"
)

// Options that would measure something else than they say are errors.
func TestOptions(t *testing.T) {
	for want, o := range map[string]options{
		"-every 300":            {streams: "independent", seeds: 1, every: 300},
		"-seeds 0":              {streams: "markov30", every: 500, pairs: true},
		"its labels come late":  {streams: "late", seeds: 1, every: 500, exported: t.TempDir()},
		"features are missing":  {streams: "missing", seeds: 1, every: 500, exported: t.TempDir()},
		"a multiple of 10,000":  {streams: "rotation", seeds: 1, every: 500, rows: 5000},
		"no stream \"nothing\"": {streams: "nothing", seeds: 1, every: 500},
	} {
		if err := o.run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
