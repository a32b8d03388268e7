// Package needs has the names of what pipelines use in a server, and the table of it: streams, consumers, buckets and
// permissions. Setup, check, doctor and permissions are derived from that table.
package needs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/spec"
)

// ConsumerName is the name of a pipeline's durable consumer. At a leaf node it contains the JetStream domain: a
// server keeps only the JetStream API requests to its domain, and passes acknowledgements on to the hub and to other
// leaf nodes, where they would acknowledge messages of a stream and consumer of the same names.
func ConsumerName(pipeline, domain string) string {
	name := "embedd_" + pipeline
	if domain != "" {
		name += "@" + domain // no pipeline has an @ in its name
	}
	return name
}

// ConsumerDescription begins the description of each consumer of a pipeline; a comma ends the pipeline's name.
const ConsumerDescription = "embedd pipeline "

// ConsumerOwner is the name of the pipeline to which a consumer belongs, as far as its description says.
func ConsumerOwner(c jetstream.ConsumerConfig) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.Description, ConsumerDescription), ",")
	return name
}

// Filters are the subjects that match all messages of the pipeline in its stream.
func Filters(p *spec.Pipeline) []string {
	if p.Partitions == 0 {
		return []string{p.Subject}
	}
	return []string{p.Subject, p.Subject + ".*.*"}
}

// PublishedSubject is the subject on which a message was published, given its subject in the stream.
func PublishedSubject(p *spec.Pipeline, stored string) string {
	if p.Partitions == 0 || strings.Count(stored, ".") != strings.Count(p.Subject, ".")+2 {
		return stored
	}
	for range 2 {
		stored = stored[:strings.LastIndexByte(stored, '.')]
	}
	return stored
}

// ServiceName is the name of the service of a pipeline.
func ServiceName(pipeline string) string { return "embedd_" + pipeline }

// ServiceSubject is the subject of an endpoint, which has the name of a verb of the command line: status, model ls.
func ServiceSubject(pipeline, endpoint string) string {
	return "embedd." + pipeline + "." + strings.ReplaceAll(endpoint, " ", ".")
}

// StagedSubject is the subject on which the trainer announces a stored version, and replicas confirm it.
func StagedSubject(pipeline string) string { return ServiceSubject(pipeline, "staged") }

// StandbyKey is the key of the lease of the replica that is next to be the trainer.
func StandbyKey(pipeline string) string { return pipeline + ".standby" }

// SummaryBytes is the size limit of a stream of summaries.
func SummaryBytes(p *spec.Pipeline) int64 { return cmp.Or(p.EdgeBytes, 1<<30) }

// RequestTimeout bounds the time that the service takes for one request.
const RequestTimeout = 30 * time.Second

// OwnHeaderBytes is how many bytes embedd's headers of an output may take, in addition to those of its input.
const OwnHeaderBytes = 4 << 10

// Partition is partition Number of Of. The zero value has the messages that are stored without a partition.
type Partition struct{ Number, Of int }

// Partitions are the partitions that p configures, after the zero one.
func Partitions(p *spec.Pipeline) []Partition {
	all := []Partition{{}}
	for i := range p.Partitions {
		all = append(all, Partition{i, p.Partitions})
	}
	return all
}

func (q Partition) String() string {
	if q.Of == 0 {
		return "rest"
	}
	return fmt.Sprintf("%dof%d", q.Number, q.Of)
}

// ConsumerName is the name of the partition's durable consumer, given the pipeline's. No pipeline has a ~ in its name.
func (q Partition) ConsumerName(pipelines string) string {
	if q.Of == 0 {
		return pipelines
	}
	return pipelines + "~" + q.String()
}

// Filter is the subject that matches the partition's messages in the stream.
func (q Partition) Filter(subject string) string {
	if q.Of == 0 {
		return subject
	}
	return fmt.Sprintf("%s.%d.%d", subject, q.Of, q.Number)
}

// BookmarkKey is the key under which a replica that releases the partition stores its position.
func (q Partition) BookmarkKey(pipeline string) string {
	return pipeline + ".partition." + q.String() + ".at"
}

var partitionForm = regexp.MustCompile(`^(\d+)of(\d+)$`)

// ParsePart parses what Partition.String returns.
func ParsePart(text string) (q Partition, ok bool) {
	if text == (Partition{}).String() {
		return q, true
	}
	m := partitionForm.FindStringSubmatch(text)
	if m == nil {
		return q, false
	}
	number, err := strconv.Atoi(m[1])
	of, err2 := strconv.Atoi(m[2])
	return Partition{number, of}, err == nil && err2 == nil && of > 0 && number < of
}

// ParsePartition parses the name of a partition's consumer, given the name of the pipeline's.
func ParsePartition(pipelines, consumer string) (q Partition, ok bool) {
	rest, ok := strings.CutPrefix(consumer, pipelines+"~")
	if !ok {
		return q, false
	}
	q, ok = ParsePart(rest)
	return q, ok && q.Of > 0
}

// Missing is the ErrStreamMissing of a subject that no stream takes, with the fix: a stream with a name.
func Missing(stream, subject string) error {
	return spec.Describe(fmt.Sprintf("no stream takes subject %s; create it: 'embedd setup --apply', or "+
		"'nats stream add %s --subjects %q --storage file --defaults'", subject, stream, subject), spec.ErrStreamMissing)
}

// streamSuffixes distinguish the names of streams whose subjects begin with the same token.
var streamSuffixes = map[string]string{"labels": "_LABELS", "output": "_OUTPUT", "dead letters": "_DEAD"}

// StreamNameBeside is the name that setup gives a new stream for a subject of a purpose if the usual name is taken.
func StreamNameBeside(purpose, subject string) string {
	return StreamName(subject) + streamSuffixes[purpose]
}

// MissingOf is Missing for the labels, outputs or dead letters of a pipeline, whose stream has no configured name: the
// fix names one that the server does not have yet.
func MissingOf(ctx context.Context, js jetstream.JetStream, p *spec.Pipeline, subject string) error {
	purpose, name := "dead letters", StreamName(subject)
	switch subject {
	case p.Labels:
		purpose = "labels"
	case p.OutputPattern():
		purpose = "output"
	}
	if have, err := stream(ctx, js, name); name == p.Stream || err == nil && have != nil {
		name = StreamNameBeside(purpose, subject)
	}
	return Missing(name, subject)
}

// CheckConsumer returns an ErrConsumerTaken if an existing consumer of the pipeline's name reads other messages. A name
// is bound to the subject that it was first used for: a pipeline with another subject would take over the consumer and
// its position. streamSubjects are the subjects of the consumer's stream.
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

// PausedFault is that a consumer is paused, or nil.
func PausedFault(stream string, c *jetstream.ConsumerInfo) *Fault {
	if !c.Paused {
		return nil
	}
	return &Fault{fmt.Sprintf("consumer %s of stream %s is paused: nothing is answered", c.Name, stream), "resume it",
		fmt.Sprintf("nats consumer resume %s %s --force", stream, c.Name)}
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
	if m.PublishDenied(info) != nil {
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

// NameTaken returns an ErrConsumerTaken for a name that is bound to another stream.
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
