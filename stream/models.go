package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/summaries"
)

// noteWait is how long the learning side waits for the store to take a note that it can do without.
const noteWait = 5 * time.Second

func (p *pipeline) keepsModels() bool {
	return !p.Models.None && (p.Input != nil || p.Models.Directory != "")
}

// openStore opens the store of a pipeline; that of the server is one for all.
func (e *Engine) openStore(ctx context.Context, p *pipeline) (store registry.Store, err error) {
	if p.Models.Directory != "" {
		return registry.Directory(p.Models.Directory)
	}
	if store = e.stores[p.Models.Hub]; store != nil {
		return store, nil
	}
	if p.Models.Hub == "" {
		store, err = registry.MakeReplicated(ctx, p.JS, p.Models.Replicas)
	} else if edge, errEdge := registry.MakeEdge(ctx, p.JS, p.Models.Hub, p.Models.Replicas); errEdge == nil {
		store = edge
	} else {
		err = errEdge
	}
	if err == nil {
		e.stores[p.Models.Hub] = store
	}
	return store, err
}

// take goes on from what the store has: with its live model, unless that has other features than the configuration
// asks for, and in epochs that nobody has used.
func (p *pipeline) take(ctx context.Context, c *registry.Choice) error {
	if c.Damage != "" {
		p.storeSays(c.Damage)
	}
	if c.New {
		used, err := p.hasAnswered(ctx)
		if err != nil {
			return err
		}
		if used {
			c.Epochs = max(c.Epochs, int(p.Clock().Unix()))
			p.storeSays(fmt.Sprintf("the store knows nothing of models before, and the pipeline has answered before: epochs go on after %d, the seconds since 1970, so that none is used twice",
				c.Epochs))
		}
	}
	p.Stage.Epochs = c.Epochs
	if c.Live == nil {
		return nil
	}
	c.Live.Epochs = max(c.Live.Epochs, c.Epochs)
	if others := p.misses(c.Live); others != "" {
		if c.Pinned {
			return fmt.Errorf("model %s is pinned and %s: put schema.features back, or 'embedd model unpin %s' and start again, so that a model of the new features is learned",
				c.Live.Version, others, p.Name)
		}
		if !p.mayFit() {
			p.storeSays(fmt.Sprintf("the live model %s; another replica learns and keeps it: give all the same configuration, or the pipeline another name",
				others))
			p.models.Drop()
			c.Live = nil
			return nil
		}
		if err := p.models.Retire(ctx); err != nil {
			return err
		}
		p.storeSays(fmt.Sprintf("the live model %s: a first model of the new features is learned, in a new epoch; to go back to %s, put schema.features back and 'embedd model rollback %s'",
			others, c.Live.Version, c.Live.Version))
		c.Live = nil
		return nil
	}
	p.good = c.Good
	p.setPinned(c.Pinned)
	return nil
}

// misses says of which features a model was made, where the configuration asks for others; "" where it does not.
func (p *pipeline) misses(l *plugin.Live) string {
	features := l.Model.Features()
	if p.Stage.Spec.Takes(features) {
		return ""
	}
	return fmt.Sprintf("was made of %s, and schema.features asks for %s", briefly(features), briefly(p.Stage.Spec.Features))
}

// storeSays tells what happened to the models of the store, in log and status.
func (p *pipeline) storeSays(text string) {
	p.Log.Warn(text)
	if before := p.store.Load(); before != nil {
		text = *before + "; " + text
	}
	p.store.Store(&text)
}

func briefly(names []string) string {
	if len(names) > 4 {
		return fmt.Sprintf("%s ... (%d)", strings.Join(names[:3], ", "), len(names))
	}
	return strings.Join(names, ", ")
}

// hasAnswered tells whether a pipeline of this name has answered, whatever became of its models: its consumer has
// acknowledged something, there is an output of its subject, or it has learned what edges answer with. The last output says
// which epoch was used last, but not which was the highest, and it may have aged out; so no more than that is asked.
func (p *pipeline) hasAnswered(ctx context.Context) (bool, error) {
	if p.Input == nil {
		return false, nil
	}
	if p.arrived != nil { // its edges answer with what it learns
		used, err := summaries.HasLedger(ctx, p.JS, p.Name)
		return used, natsx.ExplainAPIError(err)
	}
	c, err := p.Input.Consumer(ctx, p.ConsumerName())
	if err == nil && c.CachedInfo().AckFloor.Stream > 0 {
		return true, nil
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, natsx.ExplainAPIError(err)
	}
	stream, err := p.tail.sinks[p.Output].look(ctx)
	if err != nil {
		return false, natsx.ExplainAPIError(err)
	}
	out, err := stream.Info(ctx, jetstream.WithSubjectFilter(p.Output))
	if err != nil {
		return false, natsx.ExplainAPIError(err)
	}
	return out.State.Subjects[p.Output] > 0, nil
}

// keepPin tells a stage that has just been made that its model was chosen and stays.
func (p *pipeline) keepPin() error {
	if !p.pinned.Load() || p.Running.Live() == nil {
		return nil
	}
	return p.Running.Adopt(p.Running.Live(), true)
}

func (p *pipeline) setPinned(pinned bool) {
	p.pinned.Store(pinned)
	value := 0.0
	if pinned {
		value = 1
	}
	p.Series.Set(health.Pinned, value)
}

// adopt makes a model that somebody chose in the store the live one. The registry waits for it: it asks nobody.
func (p *pipeline) adopt(c *registry.Choice) error {
	l := c.Live
	if others := p.misses(l); others != "" {
		return fmt.Errorf("it %s: put schema.features back", others)
	}
	if err := p.Running.Adopt(l, c.Pinned); err != nil {
		return err
	}
	p.setPinned(c.Pinned)
	p.chosen(l, c.Good)
	p.showLive(l)
	p.Log.Info("a model was chosen", "version", l.Version, "method", l.Model.Method(), "dim", l.Model.Dim(), "epoch",
		l.Epoch, "pinned", c.Pinned)
	select {
	case p.came <- struct{}{}:
	default:
	}
	return nil
}

// judged notes a candidate that was refused. The store is for who asks later: learning does not depend on it.
func (p *pipeline) judged(f plugin.Outcome) {
	if p.models == nil || f.Promoted || f.Err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteWait)
	defer cancel()
	if err := p.models.Refuse(ctx, f); err != nil {
		p.told.refused.Warn(p.Log, "a refused candidate is not noted in the model store", "reason", f.Reason, "error", err)
	}
}

// windowStart is the sequence number from which the window of a model's fit can be filled again, windowEnd that of
// the last message it saw; 0 where the note does not say.
func windowStart(l *plugin.Live) uint64 { return sourceNumber(l, "first") }
func windowEnd(l *plugin.Live) uint64   { return sourceNumber(l, "last") }

func sourceNumber(l *plugin.Live, key string) uint64 {
	n, _ := strconv.ParseUint(l.Model.Note().Source[key], 10, 64)
	return n
}
