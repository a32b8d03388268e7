package eval

import (
	"fmt"
	"math/rand/v2"

	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

// split is one split of an evaluation.
type split struct {
	train, test []int
	memo        *fit.Memo             // of the fits on train
	tuned       map[string]fit.Tuning // by method
}

// splits draws the splits of an evaluation from its seed.
func (c Config) splits(y []int) ([]split, error) {
	r := rand.New(rand.NewPCG(c.Seed, 0))
	all := make([]split, c.Splits)
	for i := range all {
		all[i].memo, all[i].tuned = &fit.Memo{}, map[string]fit.Tuning{}
		if c.TrainPerClass > 0 {
			all[i].train, all[i].test = score.StratifiedPerClass(y, c.TrainPerClass, r.Uint64())
		} else {
			all[i].train, all[i].test = score.Stratified(y, c.TrainFraction, r.Uint64())
		}
	}
	if len(all[0].test) == 0 {
		return nil, fmt.Errorf("eval: no class has the 2 labelled rows that a split needs")
	}
	return all, nil
}
