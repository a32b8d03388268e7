package stream

import (
	"context"
	"strconv"
	"time"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/registry"
)

// Models says where the models of a pipeline are kept, and how many. Zero fields mean the defaults.
type Models struct {
	// Directory keeps them in files. Without one they are in the JetStream of the server, or on core NATS nowhere:
	// then a restart begins anew.
	Directory string
	None      bool  // keep none
	Limit     int64 // most bytes of a model; default model.DefaultFileLimit
	Replicas  int   // of the buckets where they are made; 0: see registry.Replicated
	Keep      registry.Keep
}

// noteWait is how long the learning side waits for the store to take a note that it can do without.
const noteWait = 5 * time.Second

func (p *pipeline) keepsModels() bool {
	return !p.Models.None && (p.input != nil || p.Models.Directory != "")
}

func (p *pipeline) openStore(ctx context.Context) (registry.Store, error) {
	if p.Models.Directory != "" {
		return registry.Directory(p.Models.Directory)
	}
	return registry.MakeReplicated(ctx, p.js, p.Models.Replicas)
}

// keepPin tells a stage that has just been made that its model was chosen and stays.
func (p *pipeline) keepPin() error {
	if !p.pinned.Load() || p.stage.Live() == nil {
		return nil
	}
	return p.stage.Adopt(p.stage.Live(), true)
}

func (p *pipeline) setPinned(pinned bool) {
	p.pinned.Store(pinned)
	p.metrics.pin(p.Name, pinned)
}

// adopt makes a model that somebody chose in the store the live one.
func (p *pipeline) adopt(c *registry.Choice) error {
	l := c.Live
	if err := p.stage.Adopt(l, c.Pinned); err != nil {
		return err
	}
	p.setPinned(c.Pinned)
	p.chosen(l, c.Good)
	p.metrics.live(p.Name, l)
	p.log.Info("a model was chosen", "version", l.Version, "method", l.Model.Method(), "dim", l.Model.Dim(), "epoch",
		l.Epoch, "pinned", c.Pinned)
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
		p.log.Warn("a refused candidate is not noted in the model store", "reason", f.Reason, "error", err)
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
