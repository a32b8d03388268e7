package spec

import (
	"testing"

	"github.com/embedd/embedd/model"
)

// TestReleaseLive: the number of epochs never falls, an origin stays that of its epoch, and an undecided epoch keeps
// the first model of the one before.
func TestReleaseLive(t *testing.T) {
	old := &model.Model{}
	previous := &Live{Model: old, Epoch: 2, Epochs: 5}
	for _, c := range []struct {
		name           string
		release        Release
		previous       *Live
		epochs         int
		origin, before *model.Model
	}{
		{"the first model", Release{Epoch: 1}, nil, 0, nil, nil},
		{"an earlier epoch after a rollback", Release{Epoch: 2}, previous, 5, old, nil},
		{"a previous model without a count", Release{Epoch: 4}, &Live{Model: old, Epoch: 7}, 7, old, nil},
		{"a new epoch", Release{Epoch: 6, NewEpoch: true}, previous, 6, nil, nil},
		{"an undecided epoch", Release{Epoch: 6, NewEpoch: true, Undecided: 2}, previous, 6, nil, old},
	} {
		l := c.release.Live("v", c.previous)
		if l.Version != "v" || l.Epoch != c.release.Epoch || l.Epochs != c.epochs {
			t.Errorf("%s: version %s, epoch %d of %d; want %d", c.name, l.Version, l.Epoch, l.Epochs, c.epochs)
		}
		if l.Origin != c.origin || l.Before != c.before {
			t.Errorf("%s: an origin %v, a model before %v", c.name, l.Origin != nil, l.Before != nil)
		}
	}
}
