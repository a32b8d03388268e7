package stream

import (
	"context"
	"fmt"
	"strings"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
)

// What a server allows where nobody says otherwise: consumers of a stream, since a version; and consumers with replicas of
// their own that one should lead and follow, each of which is a group that elects and keeps time.
const (
	consumersOfStream = 1000
	consumersOfServer = 1000
)

var limitsConsumers = [3]int{2, 15, 0}

// readers are how many consumers a pipeline has of its input's stream: the durable one, or with partitions one for each and
// one for what was stored without, and where it learns beside those one of who learns and one of who would be next.
func readers(p *Pipeline) int {
	n := durables(p)
	if p.Stage.Fixed != nil {
		return n
	}
	n++
	if p.Standby != StandbyCold && !p.Models.None && p.Models.Directory == "" {
		n++
	}
	return n
}

// durables are how many of them stay.
func durables(p *Pipeline) int { return 1 + p.Partitions }

// consumers counts those that the pipelines need of each stream, beside those of others that are there, and warns where a
// stream, or its servers, have not so many.
func (p *planner) consumers(ctx context.Context, pipelines []Pipeline) error {
	most := 0
	if p.js != nil {
		if account, err := p.js.AccountInfo(ctx); err == nil {
			most = account.Limits.MaxConsumers
		}
	}
	replicated := 0
	for i := range p.plans {
		one := &p.plans[i]
		if one.Bucket || one.taken {
			continue
		}
		need, stay := 0, 0
		ours := map[string]bool{}
		for _, q := range pipelines {
			if q.Stream == one.Name && !q.LearnsFromEdges() {
				need += readers(&q)
				stay += durables(&q)
				ours[q.Name] = true
			}
			if q.Labels != "" && q.Stage.Fixed == nil && wildcard.CoveredBy(q.Labels, one.Subjects) {
				need++
			}
		}
		if need == 0 {
			continue
		}
		limit, others, err := p.room(ctx, one, ours, most, need)
		if err != nil {
			return err
		}
		if limit > 0 && need+others > limit {
			short := fmt.Sprintf("the pipelines need %d consumers of stream %s", need, one.Name)
			if others > 0 {
				short += fmt.Sprintf(" beside %d of others", others)
			}
			what := "what they learn can have gaps"
			if one.Starved = stay+others > limit; one.Starved {
				what = "some pipelines get none and answer nothing"
			}
			one.lacks(short + fmt.Sprintf(", and it has %d at most: %s; give them streams of their own, or raise the limit where the stream is made (--max-consumers) or at the server (jetstream.limits.default_max_consumers)",
				limit, what))
		}
		if one.Replicas > 1 {
			replicated += stay
		}
		if replicated > consumersOfServer {
			one.lacks(fmt.Sprintf("the pipelines need %d consumers with replicas, and a server carries some %d well: spread the pipelines over more clusters, or give streams one replica where that does",
				replicated, consumersOfServer))
			replicated = 0
		}
	}
	return nil
}

func (p *Plan) lacks(text string) { p.Short = strings.TrimPrefix(p.Short+"; "+text, "; ") }

// room is how many consumers a stream may have, 0: any number, and how many it has that are not of these pipelines.
func (p *planner) room(ctx context.Context, one *Plan, ours map[string]bool, account, need int) (limit, others int,
	err error) {
	if limit = account; limit <= 0 && p.js != nil && !needs.OlderServer(p.js.Conn().ConnectedServerVersion(), limitsConsumers) {
		limit = consumersOfStream
	}
	if p.js == nil || !one.Exists && !one.Extends {
		return max(limit, 0), 0, nil
	}
	s, err := p.js.Stream(ctx, one.Name)
	if err != nil {
		return 0, 0, natsx.ExplainAPIError(err)
	}
	if own := s.CachedInfo().Config.MaxConsumers; own > 0 && (account <= 0 || own < account) {
		limit = own
	}
	if need+s.CachedInfo().State.Consumers <= limit {
		return limit, 0, nil // whosever they are
	}
	list := s.ListConsumers(ctx)
	for c := range list.Info() {
		if !ours[needs.ConsumerOwner(c.Config)] {
			others++
		}
	}
	if err := list.Err(); err != nil {
		return 0, 0, natsx.ExplainAPIError(err)
	}
	return max(limit, 0), others, nil
}
