package replica

import (
	"context"
	"errors"
	"log/slog"

	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/registry"
)

// Stores are the model stores and leases of a server, opened once for all pipelines of an engine. Not safe for
// concurrent use.
type Stores struct {
	log    *slog.Logger
	byHub  map[string]registry.Store
	bucket *lease.Bucket
	opened bool // bucket was looked up; it stays nil if the server is too old for leases
}

// NewStores returns stores of which none is open yet.
func NewStores(log *slog.Logger) *Stores {
	return &Stores{log: log, byHub: map[string]registry.Store{}}
}

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
	} else if edge, errEdge := registry.CreateEdge(ctx, p.JS, hub, p.Models.Replicas); errEdge == nil {
		store = edge
	} else {
		err = errEdge
	}
	if err == nil {
		s.byHub[hub] = store
	}
	return store, err
}

// Leases opens the bucket of the leases. On a server that is too old it fails with lease.ErrOldServer.
func (s *Stores) Leases(ctx context.Context, p *scope.Scope) (bucket *lease.Bucket, err error) {
	if s.opened {
		return s.bucket, nil
	}
	if bucket, err = lease.Open(ctx, p.JS, p.Models.Replicas, s.log); err == nil {
		s.bucket, s.opened = bucket, true
	}
	return bucket, err
}

// trainerLeases is Leases for the trainer's lease of a pipeline: nil when it has none, as with models in a directory,
// whose replicas are on one machine, or from a hub, where nothing is trained here.
func (s *Stores) trainerLeases(ctx context.Context, p *scope.Scope) (*lease.Bucket, error) {
	if p.Models.Directory != "" || p.Models.Hub != "" {
		return nil, nil
	}
	bucket, err := s.Leases(ctx, p)
	if errors.Is(err, lease.ErrOldServer) {
		s.log.Warn("every replica of a pipeline trains, and one of their models goes live", "reason", err,
			"fix", "upgrade the server, or run all replicas but one with role transform")
		s.opened, err = true, nil
	}
	return bucket, err
}
