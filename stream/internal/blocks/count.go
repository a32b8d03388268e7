package blocks

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/schema"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/internal/summaries"
)

// countMessages reads the input until its schema is known: the stage counts the messages and keeps none. The blocks are
// then learned from the first on.
func (b *Blocks) countMessages(ctx context.Context, read func(context.Context)) {
	if b.Running.Contract() != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-b.Running.ContractFixed():
			stop()
		case <-ctx.Done():
		}
	}()
	read(ctx)
}

// edgeCounter sends what an edge counts to the hub, which adds up what all edges counted and decides on the schema.
type edgeCounter struct {
	*Blocks
	schema   *schema.Store // of the hub; nil: not opened yet
	messages int           // that had been counted when the counts were sent last
	begun    time.Time     // when the first counts were sent
	sentAt   time.Time     // when the last were
}

// step uses the schema of the hub if it is stored there, and sends what was counted here if not.
func (c *edgeCounter) step(ctx context.Context, sent *summaries.Sender) error {
	c.waiting.Store("messages are counted until the hub knows their schema")
	err := c.Permissions.Guard(ctx, c.Permissions.IsServerRequest, func(ctx context.Context) error {
		if err := c.send(ctx, sent); err != nil {
			return err
		}
		return c.useSchema(ctx)
	})
	if c.Running.Contract() != nil {
		c.waiting.Store("")
	}
	return err
}

// send sends the counts if they have changed: every second at first, then at growing intervals.
func (c *edgeCounter) send(ctx context.Context, sent *summaries.Sender) error {
	if time.Since(c.sentAt) < max(time.Second, c.sentAt.Sub(c.begun)/16) {
		return nil
	}
	text, messages, err := c.Running.Counted()
	if err != nil || messages == c.messages {
		return err
	}
	if err := sent.SendCounted(ctx, c.Name, text); err != nil {
		return err
	}
	if c.sentAt = time.Now(); c.messages == 0 {
		c.begun = c.sentAt
	}
	c.messages = messages
	return nil
}

// useSchema makes the schema that the hub has stored that of this process.
func (c *edgeCounter) useSchema(ctx context.Context) error {
	if c.schema == nil {
		js, err := jetstream.NewWithAPIPrefix(c.Conn, natsx.DomainPrefix(c.Models.Hub))
		if err != nil {
			return err
		}
		bucket, err := natsx.OpenBucketByKey(ctx, js, statestore.Bucket)
		if err != nil {
			return fmt.Errorf("opening the schemas of the hub (bucket %s of JetStream domain %s): %w", statestore.Bucket,
				c.Models.Hub, natsx.ExplainAPIError(err))
		}
		c.schema = schema.In(bucket, c.Name)
	}
	record, _, err := c.schema.Read(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("reading the schema of the hub (JetStream domain %s): %w", c.Models.Hub, err)
	case record.Contract == nil:
		return nil
	case !c.Stage.Spec.Accepts(record.Elements()):
		return fmt.Errorf("the schema of the hub is %v, and schema.features is %v: give hub and edge the same schema",
			record.Contract, c.Stage.Spec.Features)
	}
	contract, err := arrowio.NewContract(record.Elements(), c.Stage.Spec.Label, c.Stage.Spec.Key)
	if err != nil {
		return err
	}
	return c.Running.FixContract(contract)
}

// count adds up what the edges counted until the schema is known, and reports whether any has counted. An edge of an
// earlier version counts nothing and sends summaries at once: the schema is then that of the first.
func (h *hubLearner) count(ctx context.Context) (counted bool, err error) {
	for _, edge := range h.Edges {
		text, err := h.receiver.Counted(ctx, h.Name, edge)
		if err != nil {
			return false, err
		}
		if text == nil {
			continue
		}
		counted = true
		if err := h.Running.CountRemote(edge, text); err != nil {
			h.log.Warn(h.Log, "what an edge counted cannot be read; run one version of embedd at hub and edges", "error", err)
		}
	}
	if counted {
		h.waiting.Store("the messages of the edges are counted until their schema is known")
	}
	return counted, nil
}
