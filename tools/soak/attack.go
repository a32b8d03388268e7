package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
)

// attacks are faults caused by clients that may do more than they should. The daemon has to report each.
var attacks = []fault{
	{name: "claim", do: claim, reports: func(ctx context.Context, w *world) float64 {
		return metricOf(ctx, w.http, "embedd_claimed_identities_total", "")
	}},
	{name: "steal", do: steal, reports: func(ctx context.Context, w *world) float64 {
		return metricOf(ctx, w.http, "embedd_condition", stolen)
	}},
	{name: "forge", do: forge, reports: func(_ context.Context, w *world) float64 {
		log, _ := os.ReadFile(w.daemon.log)
		return float64(strings.Count(string(log), "key of the identities"))
	}},
}

// stolen is a label of the metric of conditions.
const stolen = `condition="stolen_deliveries"`

// reportWait is how long the daemon has to report an attack. Thefts within a minute are one condition.
const reportWait = 3 * time.Minute

// attack attacks until the daemon reports it, or the attack is over. It returns whether it was reported.
func (f fault) attack(ctx context.Context, w *world, r *rand.Rand) (isReported bool, err error) {
	before := f.reports(ctx, w)
	attack, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- f.do(attack, w, r) }()
	for end := time.Now().Add(reportWait); time.Now().Before(end) && ctx.Err() == nil && !isReported; {
		wait(ctx, time.Second)
		now := f.reports(ctx, w)
		isReported, before = now > before, min(now, before)
	}
	stop()
	return isReported, <-done
}

// claim publishes messages with the identities of the next answers on another subject of the output's stream, as a
// client could that has the key of the identities.
func claim(ctx context.Context, w *world, r *rand.Rand) error {
	entry, err := w.entry(ctx)
	if err != nil {
		return err
	}
	var stored struct {
		Secret []byte `json:"key"`
	}
	if err := json.Unmarshal(entry.Value(), &stored); err != nil {
		return err
	}
	s, err := w.js.Stream(ctx, inputs)
	if err != nil {
		return err
	}
	info, key := s.CachedInfo(), wire.NewKey(stored.Secret)
	for n := range uint64(20 + r.IntN(100)) {
		o := wire.Origin{Stream: inputs, Created: info.Created, Seq: info.State.LastSeq + 10 + n}
		msg := nats.NewMsg(other)
		msg.Header.Set(nats.MsgIdHdr, key.ID(o, pipeline, wire.AnswerOut, 0))
		if _, err := w.js.PublishMsg(ctx, msg); err != nil {
			return err
		}
	}
	return nil
}

// steal receives messages of the daemon's consumer and does not acknowledge them, until ctx ends. It begins when no
// earlier theft is reported any more.
func steal(ctx context.Context, w *world, r *rand.Rand) error {
	c, err := w.js.Consumer(ctx, inputs, durable)
	if err != nil {
		return err
	}
	for metricOf(ctx, w.http, "embedd_condition", stolen) > 0 {
		wait(ctx, time.Second)
	}
	for ctx.Err() == nil {
		if _, err := c.Fetch(1+r.IntN(20), jetstream.FetchMaxWait(200*time.Millisecond)); err != nil {
			return err
		}
		wait(ctx, 200*time.Millisecond)
	}
	return nil
}

// forge deletes the key of the identities, has an answer of the server stored in its place, as any user can who may
// send a request, or replaces it.
func forge(ctx context.Context, w *world, r *rand.Rand) error {
	state, err := w.js.KeyValue(ctx, "EMBEDD_STATE")
	if err != nil {
		return err
	}
	switch name := pipeline + ".identity"; r.IntN(3) {
	case 0:
		return state.Delete(ctx, name)
	case 1:
		err = w.nc.PublishRequest("$JS.API.INFO", "$KV.EMBEDD_STATE."+name, nil)
	case 2:
		var entry jetstream.KeyValueEntry
		if entry, err = w.entry(ctx); err != nil {
			return err
		}
		var stored map[string]json.RawMessage
		if err = json.Unmarshal(entry.Value(), &stored); err != nil {
			return err
		}
		secret := make([]byte, 32)
		for i := range secret {
			secret[i] = byte(r.Uint32())
		}
		if stored["key"], err = json.Marshal(secret); err != nil {
			return err
		}
		var text []byte
		if text, err = json.Marshal(stored); err == nil {
			_, err = state.Update(ctx, name, text, entry.Revision())
		}
	}
	return err
}

// entry reads the key of the identities.
func (w *world) entry(ctx context.Context) (jetstream.KeyValueEntry, error) {
	state, err := w.js.KeyValue(ctx, "EMBEDD_STATE")
	if err != nil {
		return nil, err
	}
	return state.Get(ctx, pipeline+".identity")
}
