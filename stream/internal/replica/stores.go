package replica

import (
	"context"

	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/registry"
)

// Stores are the model stores and leases of a server, opened once for all pipelines of an engine. Not safe for
// concurrent use.
type Stores struct {
	byHub  map[string]registry.Store
	leases *lease.Bucket
}

// NewStores returns stores of which none is open yet.
func NewStores() *Stores { return &Stores{byHub: map[string]registry.Store{}} }

// models opens the store of a pipeline's models.
func (s *Stores) models(ctx context.Context, p *scope.Scope) (store registry.Store, err error) {
	if p.Models.Directory != "" {
		return registry.Directory(p.Models.Directory)
	}
	hub := p.Models.Hub
	if store = s.byHub[hub]; store != nil {
		return store, nil
	}
	if hub == "" {
		store, err = registry.CreateReplicated(ctx, p.JS, p.Models.Replicas)
	} else {
		store, err = registry.CreateEdge(ctx, p.JS, hub, p.Models.Replicas)
	}
	if err == nil {
		s.byHub[hub] = store
	}
	return store, err
}

// Leases opens the bucket of the leases.
func (s *Stores) Leases(ctx context.Context, p *scope.Scope) (_ *lease.Bucket, err error) {
	if s.leases == nil {
		s.leases, err = lease.Open(ctx, p.JS, p.Models.Replicas)
	}
	return s.leases, err
}
