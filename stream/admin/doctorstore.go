package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/durable"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// checkStore checks where models are stored, and reads the live one.
func (d *diagnosis) checkStore(ctx context.Context, p *spec.Pipeline) {
	if p.Models.None || p.Stage.Fixed != nil || p.Models.Directory == "" && !d.hasJetStream {
		return
	}
	store := d.openStore(ctx, p)
	if store == nil {
		return
	}
	// Strict changes nothing: a start would repair what it can.
	choice, err := registry.New(store, p.Name, registry.Options{Limit: p.Models.Limit, Strict: true}).Live(ctx)
	switch {
	case errors.Is(err, registry.ErrDamaged), errors.Is(err, registry.ErrMissing):
		d.add(Finding{Check: "store", Pipeline: p.Name, Text: err.Error(), Fix: "restore the store from a backup; " +
			"otherwise the daemon continues with the newest version that can be read, or starts without a model"})
	case err != nil:
		d.add(Finding{Check: "store", Pipeline: p.Name, Text: err.Error(), Fix: "check whether the store answers"})
	case d.addNameTaken(ctx, p, choice.Stream):
	case choice.Live == nil:
		d.addOK("store", p.Name, "%s, no model yet", store)
	default:
		d.addOK("store", p.Name, "%s, live is %s", store, choice.Live.Version)
		if p.LearnsFromEdges() {
			d.checkHubWindow(ctx, p, choice.Live)
		}
	}
}

// openStore opens a store that exists and can be written; otherwise it reports that, and returns nil.
func (d *diagnosis) openStore(ctx context.Context, p *spec.Pipeline) (store registry.Store) {
	if dir := p.Models.Directory; dir != "" {
		exists, err := durable.CheckWritable(dir)
		switch {
		case err != nil:
			d.add(Finding{Check: "store", Pipeline: p.Name, Text: fmt.Sprintf("models cannot be stored in %s: %v", dir, err),
				Fix: "let the daemon's user write there, or name another directory", Key: "pipelines." + p.Name + ".model.store"})
			return nil
		case !exists:
			d.addOK("store", p.Name, "directory %s is created when the daemon starts", dir)
			return nil
		}
		if store, err = registry.Directory(dir); err != nil {
			d.add(Finding{Check: "store", Pipeline: p.Name, Text: err.Error()})
			return nil
		}
		return store
	}
	store, err := ask(ctx, d.permissions, func(ctx context.Context) (registry.Store, error) {
		return registry.JetStream(ctx, d.js)
	})
	switch {
	case errors.Is(err, registry.ErrMissing):
		d.addOK("store", p.Name, "the buckets %s are created when the daemon starts", registry.Bucket)
		return nil
	case err != nil:
		d.addError("store", p.Name, err)
		return nil
	}
	for _, name := range registry.Streams() {
		if s, err := d.js.Stream(ctx, name); err == nil {
			if f := needs.StreamFull(s.CachedInfo(), "models"); f != nil {
				d.addFault("store", p.Name, f)
				return nil
			}
		}
	}
	return store
}

// addNameTaken reports whether the name of a pipeline belongs to another stream, bound, and adds a finding if so.
func (d *diagnosis) addNameTaken(ctx context.Context, p *spec.Pipeline, bound string) bool {
	domain := d.domainOf(p)
	_, err := ask(ctx, d.permissions, func(ctx context.Context) (any, error) {
		return nil, needs.CheckName(ctx, d.js, d.permissions, p, domain, bound)
	})
	if !errors.Is(err, spec.ErrConsumerTaken) {
		return false
	}
	d.add(Finding{Check: "store", Pipeline: p.Name, Text: err.Error(),
		Command: fmt.Sprintf("nats consumer rm %s %s --force", bound, needs.ConsumerName(p.Name, domain))})
	return true
}

// checkHubWindow notes that the stream of all edges' summaries has deleted the first ones of the live model's window.
func (d *diagnosis) checkHubWindow(ctx context.Context, p *spec.Pipeline, live *plugin.Live) {
	s, err := ask(ctx, d.permissions, func(ctx context.Context) (jetstream.Stream, error) {
		return d.js.Stream(ctx, summaries.HubStream)
	})
	if err != nil {
		return // reported before
	}
	info := s.CachedInfo()
	if first := needs.WindowStart(live, info.Created); first > 0 && first < info.State.FirstSeq {
		d.add(Finding{Check: "edges", Pipeline: p.Name, Level: LevelNote, Text: fmt.Sprintf("the window of the live model "+
			"begins with message %d of stream %s, whose first is %d now: after a restart the window is smaller, and the next "+
			"models differ", first, summaries.HubStream, info.State.FirstSeq),
			Fix: "raise nats.edge_bytes, here and at the edges", Key: "nats.edge_bytes"})
	}
}

// checkConfiguration notes the keys of the configuration that are not in effect.
func (d *diagnosis) checkConfiguration(ctx context.Context, p *spec.Pipeline) {
	if len(p.Settings) == 0 || p.Stream != "" && !d.hasJetStream {
		return
	}
	changes, err := ask(ctx, d.permissions, func(ctx context.Context) ([]spec.Change, error) {
		changes, _, err := compareConfiguration(ctx, d.js, p)
		return changes, err
	})
	if errors.Is(err, natsx.ErrPermissionDenied) { // checkStore and the check of the schema report the others
		d.addError("configuration", p.Name, err)
	}
	for _, c := range changes {
		f := Finding{Check: "configuration", Pipeline: p.Name, Level: LevelNote, Text: c.NextText(p.Name),
			Fix: "restore the former value, or reset"}
		switch c.Effect {
		case spec.EffectModelReset:
			f.Command = "embedd model reset " + p.Name
		case spec.EffectSchemaReset:
			f.Command = "embedd schema reset " + p.Name
		case spec.EffectApplied:
			f.Fix = "restart the daemons with this file"
		default:
			f.Fix = "delete the key"
		}
		d.add(f)
	}
}
