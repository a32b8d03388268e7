package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
	"github.com/embedd/embedd/stream/summaries"
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
	live, err := registry.New(store, p.Name, registry.Options{Limit: p.Models.Limit, Strict: true}).Live(ctx)
	switch {
	case errors.Is(err, registry.ErrDamaged), errors.Is(err, registry.ErrMissing):
		d.add(Finding{Check: "store", Pipeline: p.Name, Text: err.Error(), Fix: "restore the store from a backup; " +
			"otherwise the daemon continues with the newest version that can be read, or starts without a model"})
	case err != nil:
		d.add(Finding{Check: "store", Pipeline: p.Name, Text: err.Error(), Fix: "check whether the store answers"})
	case d.checkName(ctx, p, live.Stream):
	case live.Live == nil:
		d.addOK("store", p.Name, "%s, no model yet", store)
	default:
		d.addOK("store", p.Name, "%s, live is %s", store, live.Live.Version)
		if p.LearnsFromEdges() {
			d.checkWindow(ctx, p, live.Live)
		}
	}
}

// openStore opens a store that exists and can be written; otherwise it reports that, and returns nil.
func (d *diagnosis) openStore(ctx context.Context, p *spec.Pipeline) (store registry.Store) {
	if dir := p.Models.Directory; dir != "" {
		exists, err := checkWritable(dir)
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
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		store, err = registry.JetStream(ctx, d.js)
		return err
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

// checkName reports a name that belongs to another stream, and returns whether it does.
func (d *diagnosis) checkName(ctx context.Context, p *spec.Pipeline, bound string) bool {
	domain := ""
	if p.ModelsFromHub() {
		domain = d.domain
	}
	err := d.ask(ctx, func(ctx context.Context) error {
		return needs.CheckName(ctx, d.js, d.permissions, p, domain, bound)
	})
	if errors.Is(err, spec.ErrConsumerTaken) {
		d.add(Finding{Check: "store", Pipeline: p.Name, Text: err.Error(),
			Command: fmt.Sprintf("nats consumer rm %s %s --force", bound, needs.ConsumerName(p.Name, domain))})
	}
	return errors.Is(err, spec.ErrConsumerTaken)
}

// checkWindow notes that the stream of all edges' summaries has deleted the first ones of the live model's window, as
// when a busy pipeline shares it with a quiet one.
func (d *diagnosis) checkWindow(ctx context.Context, p *spec.Pipeline, live *plugin.Live) {
	var s jetstream.Stream
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		s, err = d.js.Stream(ctx, summaries.HubStream)
		return err
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

// checkWritable writes to a directory or, where it does not exist, to the one in which it would be created.
func checkWritable(dir string) (exists bool, err error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	for exists = true; ; exists = false {
		info, err := os.Stat(full)
		switch {
		case errors.Is(err, os.ErrNotExist) && filepath.Dir(full) != full:
			full = filepath.Dir(full)
			continue
		case err != nil:
			return false, err
		case !info.IsDir():
			return false, fmt.Errorf("%s is not a directory", full)
		}
		file, err := os.CreateTemp(full, ".embedd-doctor-*")
		if err != nil {
			return false, err
		}
		return exists, errors.Join(file.Close(), os.Remove(file.Name()))
	}
}

// maxHead is how many of the messages that are not answered yet are compared with the schema.
const maxHead = 64

// checkSchema counts the schemas of the first messages that are not answered, and compares them with the stored one.
func (d *diagnosis) checkSchema(ctx context.Context, p *spec.Pipeline, s jetstream.Stream) {
	if p.Stage.Fixed != nil || p.ModelsFromHub() {
		return
	}
	stored, err := ReadSchema(ctx, d.js, *p)
	if err != nil {
		d.addError("schema", p.Name, err)
		return
	}
	decoder, err := arrowio.NewDecoder(p.Stage.Spec)
	if err != nil {
		return // an error of the configuration
	}
	head := map[string]int{} // messages by their columns
	all, misfits := 0, 0
	err = d.ask(ctx, func(ctx context.Context) error {
		return d.readHead(ctx, p, s, func(data []byte) {
			m, err := decoder.Decode(data, nil)
			if err != nil {
				return
			}
			if c := m.Contract(); c != nil {
				all++
				head[c.Short()]++
				if _, err := decoder.Decode(data, stored.Contract); err != nil {
					misfits++
				}
			}
		})
	})
	if err != nil {
		return // the checks of the stream and of permissions report it
	}
	known := "the schema is not known yet"
	if stored.Contract != nil {
		known = "the schema is " + stored.Contract.Short()
	}
	if all == 0 {
		d.addOK("schema", p.Name, "%s; no message waits for an answer", known)
		return
	}
	names := slices.SortedFunc(maps.Keys(head), func(a, b string) int {
		return cmp.Or(cmp.Compare(head[b], head[a]), cmp.Compare(a, b))
	})
	var counts []string
	for _, name := range names[:min(len(names), 4)] {
		counts = append(counts, fmt.Sprintf("%d with %s", head[name], name))
	}
	text := fmt.Sprintf("%s; of the next %d messages %s", known, all, strings.Join(counts, "; "))
	switch {
	case stored.Contract != nil && 2*misfits > all:
		d.add(Finding{Check: "schema", Pipeline: p.Name, Text: fmt.Sprintf("%s: %d do not fit and become dead letters", text,
			misfits), Fix: "send the features of the schema, or change it: set schema.features with sizes, or count again",
			Command: "embedd schema reset " + p.Name})
	case misfits > 0 || stored.Contract == nil && len(names) > 1:
		d.add(Finding{Check: "schema", Pipeline: p.Name, Level: LevelNote, Text: text,
			Fix: "send the same features from each publisher"})
	default:
		d.addOK("schema", p.Name, "%s", text)
	}
}

// readHead passes the first messages that the pipeline's consumers have not acknowledged to handle, of each partition
// as many. It reads them from the stream, so that no consumer is moved.
func (d *diagnosis) readHead(ctx context.Context, p *spec.Pipeline, s jetstream.Stream, handle func([]byte)) error {
	state := s.CachedInfo().State
	parts := needs.Partitions(p)
	for _, q := range parts {
		next := max(state.FirstSeq, 1)
		if c, err := s.Consumer(ctx, q.ConsumerName(needs.ConsumerName(p.Name, ""))); err == nil {
			next = max(next, c.CachedInfo().AckFloor.Stream+1)
		}
		for n := 0; n < max(1, maxHead/len(parts)) && next <= state.LastSeq; n++ {
			msg, err := s.GetMsg(ctx, next, jetstream.WithGetMsgSubject(q.Filter(p.Subject)))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				break
			}
			if err != nil {
				return err
			}
			handle(msg.Data)
			next = msg.Sequence + 1
		}
	}
	return nil
}
