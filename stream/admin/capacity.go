package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
)

const (
	// maxStreamConsumers is the server's default limit of the consumers of a stream, since consumerLimitSince.
	maxStreamConsumers = 1000
	// maxServerConsumers is the number of replicated consumers that one server carries well: each is a Raft group.
	maxServerConsumers = 1000
)

var consumerLimitSince = [3]int{2, 15, 0}

// countConsumers warns where the pipelines need more consumers of a stream than it, or its servers, can have.
func (p *planner) countConsumers(ctx context.Context) error {
	accountLimit := 0
	if p.js != nil {
		if account, err := p.js.AccountInfo(ctx); err == nil {
			accountLimit = account.Limits.MaxConsumers
		}
	}
	replicated := 0
	for i := range p.plans {
		plan := &p.plans[i]
		if plan.Bucket || plan.conflict {
			continue
		}
		count, durable := 0, 0
		owners := map[string]bool{}
		for _, n := range p.needs {
			if n.Kind == needs.Consumer && (n.Stream == plan.Name ||
				n.Stream == "" && wildcard.CoveredBy(n.Subject, plan.Subjects)) {
				count++
				owners[n.Pipeline] = true
				if n.Durable {
					durable++
				}
			}
		}
		if count == 0 {
			continue
		}
		limit, others, err := p.consumerLimit(ctx, plan, owners, accountLimit, count)
		if err != nil {
			return err
		}
		if limit > 0 && count+others > limit {
			text := fmt.Sprintf("the pipelines need %d consumers of stream %s", count, plan.Name)
			if others > 0 {
				text += fmt.Sprintf(" in addition to %d of others", others)
			}
			effect := "what they learn can have gaps"
			if plan.NoConsumers = durable+others > limit; plan.NoConsumers {
				effect = "some pipelines get none and answer nothing"
			}
			plan.addConsumerWarning(fmt.Sprintf("%s, and its limit is %d: %s; give them separate streams, or raise the limit "+
				"where the stream is created (--max-consumers) or at the server (jetstream.limits.default_max_consumers)", text,
				limit, effect))
		}
		if plan.Replicas > 1 {
			replicated += durable
		}
		if replicated > maxServerConsumers {
			plan.addConsumerWarning(fmt.Sprintf("the pipelines need %d consumers with replicas, and a server carries about %d "+
				"well: spread the pipelines over more clusters, or give streams one replica where that is enough", replicated,
				maxServerConsumers))
			replicated = 0
		}
	}
	return nil
}

func (p *Plan) addConsumerWarning(text string) {
	p.ConsumerWarning = strings.TrimPrefix(p.ConsumerWarning+"; "+text, "; ")
}

// consumerLimit returns how many consumers a stream may have, 0: any number, and how many it has of others than the
// owners.
func (p *planner) consumerLimit(ctx context.Context, plan *Plan, owners map[string]bool, accountLimit,
	count int) (limit,
	others int, err error) {
	limit = accountLimit
	if limit <= 0 && p.js != nil && !needs.OlderServer(p.js.Conn().ConnectedServerVersion(), consumerLimitSince) {
		limit = maxStreamConsumers
	}
	if p.js == nil || !plan.Exists && !plan.Outdated {
		return max(limit, 0), 0, nil
	}
	s, err := p.js.Stream(ctx, plan.Name)
	if err != nil {
		return 0, 0, natsx.ExplainAPIError(err)
	}
	if own := s.CachedInfo().Config.MaxConsumers; own > 0 && (accountLimit <= 0 || own < accountLimit) {
		limit = own
	}
	if count+s.CachedInfo().State.Consumers <= limit {
		return limit, 0, nil // all fit, existing consumers or not
	}
	list := s.ListConsumers(ctx)
	for c := range list.Info() {
		if !owners[needs.ConsumerOwner(c.Config)] {
			others++
		}
	}
	if err := list.Err(); err != nil {
		return 0, 0, natsx.ExplainAPIError(err)
	}
	return max(limit, 0), others, nil
}

// compareReplicas plans to raise what has fewer replicas than requested, and warns where that is not for Setup to do,
// and where a bucket has fewer replicas than a stream: its state would be lost with one server, and the messages not.
func (p *planner) compareReplicas(ctx context.Context, requested int) error {
	if p.js == nil {
		return nil
	}
	most := requested
	for i := range p.plans {
		plan := &p.plans[i]
		if plan.conflict || !plan.Exists && !plan.Outdated {
			continue
		}
		if err := p.readReplicas(ctx, plan); err != nil {
			return err
		}
		if !plan.Bucket {
			most = max(most, plan.Replicas)
		}
	}
	for i := range p.plans {
		plan := &p.plans[i]
		switch {
		case plan.Replicas == 0 || plan.Replicas >= most:
		case (plan.Bucket || plan.bySetup) && plan.Replicas < requested:
			plan.RaisesReplicas = true
		case plan.Bucket:
			plan.Warning = fmt.Sprintf("bucket %s has %s and a stream of the pipelines has %d: the failure of one server can "+
				"lose its contents while messages keep arriving; `embedd setup --apply --replicas %d` raises it", plan.Name,
				replicasText(plan.Replicas), most, min(most|1, 5))
		case requested > 0:
			plan.Warning = fmt.Sprintf("stream %s has %s, %d are requested, and setup did not create it; raise it: nats stream "+
				"edit %s --replicas %d --force", plan.Name, replicasText(plan.Replicas), requested, plan.Name, requested)
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

// readReplicas reads how many replicas the streams of a plan have, and whether Setup created them.
func (p *planner) readReplicas(ctx context.Context, plan *Plan) error {
	for _, name := range plan.streams() {
		c, err := p.stream(ctx, name)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		if n := max(c.Replicas, 1); plan.Replicas == 0 || n < plan.Replicas {
			plan.Replicas = n
		}
		plan.bySetup = c.Metadata[createdBySetup] != ""
	}
	return nil
}
