package model

import (
	"context"
	"testing"
)

func TestFitRunsOnRealData(t *testing.T) {
	for _, name := range []string{"iris", "wine", "wdbc", "digits"} {
		for _, method := range methods {
			for _, scale := range []Scale{Standard, MinMax, Unit, None} {
				m, err := Fit(context.Background(), dataset(t, name), Config{Method: method.Name, Scale: scale})
				if err != nil {
					t.Errorf("%s %s %s: %v", name, method.Name, scale, err)
					continue
				}
				r := m.Report()
				t.Logf("%s %s %s d=%d rank=%d informative=%d residual=%.2g ridge=%+v", name, method.Name, scale, m.Dim(), r.Rank, r.Informative, r.Residual, r.Ridge)
			}
		}
	}
}
