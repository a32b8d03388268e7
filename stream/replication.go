package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/summaries"
)

// compare looks at how many replicas there are of what is there: fewer than are asked for are raised where that is
// Setup's to do, and what keeps models must not be gone with one server while the messages stay.
func (p *planner) compare(ctx context.Context, asked int) error {
	if p.js == nil {
		return nil
	}
	most := asked
	for i := range p.plans {
		one := &p.plans[i]
		if one.taken || !one.Exists && !one.Extends {
			continue
		}
		if err := p.count(ctx, one); err != nil {
			return err
		}
		if !one.Bucket {
			most = max(most, one.Replicas)
		}
	}
	for i := range p.plans {
		one := &p.plans[i]
		switch {
		case one.Replicas == 0 || one.Replicas >= most:
		case one.Bucket && one.Replicas < asked, one.ours && one.Replicas < asked:
			one.Raises = true
		case one.Bucket:
			one.Warning = fmt.Sprintf("bucket %s has %s and a stream of the pipelines has %d: the death of one server can take what is in it away while messages go on coming; `embedd setup --apply --replicas %d` raises it",
				one.Name, replicasText(one.Replicas), most, min(most|1, 5))
		case asked > 0:
			one.Warning = fmt.Sprintf("stream %s has %s, %d are asked for, and setup did not make it; raise it: nats stream edit %s --replicas %d --force",
				one.Name, replicasText(one.Replicas), asked, one.Name, asked)
		}
	}
	return nil
}

func replicasText(n int) string {
	if n == 1 {
		return "one replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

// names are the streams of a plan.
func (p *Plan) names() []string {
	switch {
	case p.Name == lease.Name:
		return []string{lease.Stream}
	case p.Name == summaries.Name:
		return []string{summaries.Stream}
	case p.Name == summaries.EdgeStream, p.Name == summaries.HubStream:
		return []string{p.Name}
	case p.Bucket:
		return registry.Streams()
	}
	return []string{p.Name}
}

// Holds says what something of ours holds.
func (p *Plan) Holds() string {
	switch p.Name {
	case registry.Bucket:
		return "model store"
	case lease.Name:
		return "store of leases"
	case summaries.Name:
		return "store of summaries"
	}
	return "stream of summaries"
}

// count reads how many replicas a plan has that is there.
func (p *planner) count(ctx context.Context, one *Plan) error {
	for _, name := range one.names() {
		c, err := p.stream(ctx, name)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		if n := max(c.Replicas, 1); one.Replicas == 0 || n < one.Replicas {
			one.Replicas = n
		}
		one.ours = c.Metadata[madeBySetup] != ""
	}
	return nil
}

// raise gives the streams of a plan more replicas.
func raise(ctx context.Context, js jetstream.JetStream, one *Plan, replicas int) error {
	for _, name := range one.names() {
		have, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return natsx.ExplainAPIError(err)
		}
		c := have.CachedInfo().Config
		if c.Replicas >= replicas {
			continue
		}
		c.Replicas = replicas
		if _, err := js.UpdateStream(ctx, c); err != nil {
			return fmt.Errorf("raising stream %s to %s: %w; the cluster must have as many servers with JetStream", name,
				replicasText(replicas), err)
		}
	}
	one.Replicas, one.Raises = replicas, false
	return nil
}
