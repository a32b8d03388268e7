package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/embedd/embedd/model"
)

// spread is over how long replicas that are told of a model at once begin to fetch it.
const spread = 100 * time.Millisecond

// Fetch reads a model that is stored and not live yet, and keeps it for the moment when the pointer names it: who follows
// then needs nothing more of the store. It tries again what fails, until ctx is done.
func (r *Registry) Fetch(ctx context.Context, version string) error {
	if of, ok := PipelineOf(version); !ok || of != r.pipeline {
		return fmt.Errorf("%q is no version of pipeline %s", version, r.pipeline)
	}
	wait := rand.N(spread)
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		m, err := read(ctx, r.store, r.pipeline, version, r.options.Limit)
		if err == nil {
			r.fetched.Store(&fetched{version, m})
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrDamaged) {
			return err
		}
		wait = spread + rand.N(2*spread)
	}
}

// fetched is a model that was read, and its name.
type fetched struct {
	version string
	model   *model.Model
}

// kept is a model that this process has read before; nil where it has not.
func (r *Registry) kept(v Version) *model.Model {
	for _, f := range []*fetched{r.fetched.Load(), r.origin.Load()} {
		if f != nil && f.version == v.Name && f.model.Digest() == v.Digest {
			return f.model
		}
	}
	return nil
}
