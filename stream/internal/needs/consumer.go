package needs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/spec"
)

// CheckConsumer returns an ErrConsumerTaken where an existing consumer of the pipeline's name is not its own: a name
// is bound to the subject that it was first used for, since a pipeline with another subject would take over the
// consumer and its position. streamSubjects are those of the consumer's stream.
func CheckConsumer(p *spec.Pipeline, c jetstream.ConsumerConfig, streamSubjects []string, filter string) error {
	reads := c.FilterSubjects
	if c.FilterSubject != "" {
		reads = []string{c.FilterSubject}
	}
	if len(reads) == 0 {
		reads = streamSubjects
	}
	switch {
	case len(reads) != 1 || reads[0] != filter:
		return spec.Describe(fmt.Sprintf("consumer %s of stream %s reads %q, and pipeline %s is to read %q: a pipeline's "+
			"name is bound to its subject; give the pipeline another name; or, if no replica runs it, delete the consumer "+
			"('nats consumer rm %s %s'), and it starts with the first message of its subject", c.Durable, p.Stream, reads,
			p.Name, filter, p.Stream, c.Durable), spec.ErrConsumerTaken)
	case c.AckPolicy != jetstream.AckExplicitPolicy || c.DeliverSubject != "":
		return spec.Describe(fmt.Sprintf("consumer %s of stream %s is not a pull consumer with explicit acknowledgement; "+
			"'nats consumer rm %s %s', and the pipeline creates its own", c.Durable, p.Stream, p.Stream, c.Durable),
			spec.ErrConsumerTaken)
	}
	return nil
}

// CheckName returns an ErrConsumerTaken where the pipeline's name is bound to another stream: models are stored under
// the name alone, and two pipelines of one name would use each other's. A name stays bound while that stream has the
// consumer of the name. domain is that of [ConsumerName].
func CheckName(ctx context.Context, js jetstream.JetStream, m *natsx.PermissionMonitor, p *spec.Pipeline, domain,
	bound string) error {
	if p.Stream == "" || bound == "" || bound == p.Stream {
		return nil
	}
	name := ConsumerName(p.Name, domain)
	info := strings.Replace(natsx.PullSubject(js, bound, name), ".CONSUMER.MSG.NEXT.", ".CONSUMER.INFO.", 1)
	m.Refresh(ctx)
	if m.IsDenied(natsx.Permission{Action: natsx.Publish, Subject: info}) {
		return NameTaken(p, domain, bound, fmt.Sprintf("and this user may not ask whether it is used there (%q)", info))
	}
	_, err := js.Consumer(ctx, bound, name)
	switch {
	case err == nil:
		return NameTaken(p, domain, bound, "which has its consumer "+name)
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	}
	return natsx.ExplainAPIError(err)
}

// NameTaken is the ErrConsumerTaken of a name that is bound to another stream.
func NameTaken(p *spec.Pipeline, domain, bound, why string) error {
	name := ConsumerName(p.Name, domain)
	return spec.Describe(fmt.Sprintf("the name %s and its models belong to stream %s, %s, and the pipeline is to read "+
		"stream %s; give the pipeline another name; or, if no replica runs it on %s any more, delete the consumer ('nats "+
		"consumer rm %s %s'), and it continues here with the models of its name", p.Name, bound, why, p.Stream, bound, bound,
		name), spec.ErrConsumerTaken)
}

// WindowStart is the sequence number of the message with which the window of a model begins, in a stream that was
// created at a time; 0 where the model is of another stream.
func WindowStart(live *plugin.Live, streamCreated time.Time) uint64 {
	if live == nil {
		return 0
	}
	source := live.Model.Note().Source
	if source["created"] != streamCreated.UTC().Format(time.RFC3339Nano) {
		return 0
	}
	switch created, seq := stage.ReadFrom(live.State); created {
	case streamCreated.UnixNano():
		return seq
	case 0:
		n, _ := strconv.ParseUint(source["first"], 10, 64)
		return n
	}
	return 0 // it begins in the stream before
}
