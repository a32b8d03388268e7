package plugin

import (
	"context"
	"fmt"
	"math"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/window"
)

// wantsBootstrap tells whether rows are gathered for the PCA that serves until a first model exists.
func (t *trainer) wantsBootstrap() bool {
	return t.config.Until == UntilPCA && t.stage.Live() == nil
}

// warmUp gathers rows for the bootstrap model, and fits it when there are enough.
func (t *trainer) warmUp(ctx context.Context, rows [][]float64) {
	if !t.wantsBootstrap() || t.learnsNothing() {
		t.others = nil
		return
	}
	m := t.policy.features
	for _, x := range rows {
		if t.standby && len(t.others) >= t.policy.firstRows()*m {
			break // the first of them are enough where it comes to that
		}
		if t.config.Nulls == NullsImpute || finite(x) {
			t.others = append(t.others, x...)
		}
	}
	if t.standby || m == 0 || len(t.others) < t.policy.firstRows()*m {
		return
	}
	n, kept := len(t.others)/m, make([]float64, 0, len(t.others))
	c := t.config.Fit
	c.Method, c.Own, c.Params, c.Landmarks = "pca", nil, nil, 0
	for i, far := range window.FarRows(t.others, m) {
		if far {
			n--
		} else {
			kept = append(kept, t.others[i*m:(i+1)*m]...)
		}
	}
	begin := t.config.Clock()
	p, err := fit.Fit(ctx, &model.Data{X: kept, N: n, M: m, Features: t.stage.Features()}, c)
	t.others = nil
	if err != nil {
		t.failed(ctx, fmt.Errorf("fitting the bootstrap model: %w", err), n)
		return
	}
	o := Outcome{Candidate: math.NaN(), Previous: math.NaN(), Rows: n,
		Reason: fmt.Sprintf("a PCA of the first %d rows serves until a first model exists", n)}
	t.origin = p
	if err := t.publish(ctx, p, t.config.Epochs+1, &window.Suffix{Rows: n}, &o, true); err != nil {
		t.failed(ctx, err, n)
		return
	}
	o.Duration = t.config.Clock().Sub(begin)
	t.stage.learner.ended(o)
}
