package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

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
	names := make([]string, 0, len(head))
	for name := range head {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(head[b], head[a]), cmp.Compare(a, b)) })
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
