package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// checkStreams checks the streams and the buckets of a pipeline, in the order of the table of needs, with its
// consumers at the input; the model store is checked by checkStore.
func (d *diagnosis) checkStreams(ctx context.Context, p *spec.Pipeline) {
	for i := range d.needs {
		n := &d.needs[i]
		switch {
		case n.Pipeline != p.Name:
		case n.Kind == needs.Bucket && n.Check != "":
			d.checkBucket(ctx, n)
		case n.Kind == needs.Stream:
			if s := d.checkStream(ctx, n); s != nil && n.Name != "" {
				d.checkConsumer(ctx, p, s)
				if n.Purpose == "input" {
					(&traffic{diagnosis: d, pipeline: p, input: s}).check(ctx)
				}
			}
		}
	}
}

// checkBucket compares what belongs to embedd with what is needed.
func (d *diagnosis) checkBucket(ctx context.Context, n *needs.Need) {
	in, err := ask(ctx, d.permissions, func(ctx context.Context) (needs.Inspection, error) {
		return n.Compare(ctx, d.js)
	})
	if err != nil {
		d.addError(n.Check, n.Pipeline, natsx.ExplainRequestError(err, "about "+n.Purpose+" "+n.Name))
		return
	}
	d.addIf(in.Problem != "", Finding{Check: n.Check, Pipeline: n.Pipeline, Text: in.Problem})
	d.addIf(in.Limit != "", Finding{Check: n.Check, Pipeline: n.Pipeline, Level: LevelNote, Text: in.Limit,
		Command: setupCommand})
	switch {
	case len(in.Missing) > 0:
		d.add(Finding{Check: n.Check, Pipeline: n.Pipeline, Text: fmt.Sprintf("%s %s does not take the summaries of %s: "+
			"nothing is learned from them", n.Purpose, n.Name, strings.Join(in.Missing, ", ")), Fix: "add them",
			Command: setupCommand})
	case in.Problem != "" || in.Limit != "":
	case !in.Exists:
		d.addOK(n.Check, n.Pipeline, "%s %s is created when the daemon starts", n.Purpose, n.Name)
	default:
		d.addOK(n.Check, n.Pipeline, "%s %s has %d messages", n.Purpose, n.Name, in.Messages)
	}
}

// checkOwnStreams checks the streams of the buckets: whether they have a leader, and whose consumers they have.
func (d *diagnosis) checkOwnStreams(ctx context.Context) {
	known := map[string]bool{}
	for i := range d.needs {
		n := &d.needs[i]
		if n.Kind != needs.Bucket {
			continue
		}
		for _, name := range n.Streams {
			if known[name] {
				continue
			}
			known[name] = true
			s, err := ask(ctx, d.permissions, func(ctx context.Context) (jetstream.Stream, error) {
				return natsx.FindStream(ctx, d.js, name)
			})
			if err != nil || s == nil {
				continue // the check of what it is for reports it
			}
			info := s.CachedInfo()
			d.addIf(info.Cluster != nil && info.Cluster.Leader == "", Finding{Check: "leader",
				Text: fmt.Sprintf("stream %s has no leader: of its %d servers too few can be reached, and it stores nothing",
					name, info.Config.Replicas), Fix: "start the servers that are down"})
			if isBucket := strings.HasPrefix(name, "KV_") || strings.HasPrefix(name, "OBJ_"); isBucket &&
				info.State.Consumers > 0 {
				d.addOK("buckets", "", "stream %s has %d consumers, of mirrors, daemons of earlier versions or other programs; "+
					"this version needs none", name, info.State.Consumers)
			}
		}
	}
}

// checkStream checks a stream of the pipeline's subjects, and returns it, or nil.
func (d *diagnosis) checkStream(ctx context.Context, n *needs.Need) jetstream.Stream {
	begin := d.Clock()
	s, err := ask(ctx, d.permissions, func(ctx context.Context) (jetstream.Stream, error) {
		if n.Name == "" {
			return natsx.StreamOf(ctx, d.js, n.Subject)
		}
		return d.js.Stream(ctx, n.Name)
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		d.addMissing(ctx, n)
		return nil
	case err != nil && n.Name != "":
		d.addError(n.Purpose, n.Pipeline, natsx.ExplainRequestError(err, "about stream "+n.Name))
		return nil
	case err != nil:
		d.addError(n.Purpose, n.Pipeline, natsx.ExplainRequestError(err, "which stream takes "+n.Subject))
		return nil
	}
	info := s.CachedInfo()
	d.checkClock(begin, info)
	d.plans = append(d.plans, Plan{Name: info.Config.Name, Subjects: info.Config.Subjects})
	known := len(d.findings)
	if n.Name != "" {
		d.checkRetained(n, &info.Config)
		d.checkConsumerLimits(n, &info.Config)
		if f := partitionFault(n, &info.Config); f != nil && n.Partitions == 0 {
			d.addFault(n.Purpose, n.Pipeline, f)
		}
	}
	if f := needs.StreamFull(info, n.Subject); f != nil {
		d.addFault(n.Purpose, n.Pipeline, f)
	}
	if n.Duplicates > 0 {
		d.checkConfirming(n, info)
	}
	if len(d.findings) == known {
		d.addOK(n.Purpose, n.Pipeline, "stream %s has %d messages", info.Config.Name, info.State.Msgs)
	}
	if n.Partitions > 0 {
		d.checkPartitions(n, &info.Config)
	}
	return s
}

// partitionFault is needs.PartitionFault for an input.
func partitionFault(n *needs.Need, c *jetstream.StreamConfig) *needs.Fault {
	return needs.PartitionFault(&spec.Pipeline{Name: n.Pipeline, Subject: n.Subject, Partitions: n.Partitions}, c)
}

// checkPartitions checks that a stream maps the keys of messages to partitions.
func (d *diagnosis) checkPartitions(n *needs.Need, c *jetstream.StreamConfig) {
	if fault := partitionFault(n, c); fault != nil {
		d.addFault("partitions", n.Pipeline, fault)
	} else {
		d.addOK("partitions", n.Pipeline, "stream %s has %d, by key", c.Name, n.Partitions)
	}
}

func (d *diagnosis) addMissing(ctx context.Context, n *needs.Need) {
	f := Finding{Check: n.Purpose, Pipeline: n.Pipeline, Text: "no stream takes " + n.Subject, Fix: "create one",
		Command: setupCommand}
	if n.Name != "" {
		f.Text, f.Fix = "stream "+n.Name+" does not exist", "create it"
		// No two streams take one subject.
		if other, err := d.js.StreamNameBySubject(ctx, n.Subject); err == nil {
			f.Text += ", and stream " + other + " takes " + n.Subject
			f.Fix, f.Command = "read that one", ""
			f.Key, f.Value = "pipelines."+n.Pipeline+".input.stream", other
		}
	}
	d.add(f)
}

// settingOf is a fault in a setting of a stream that the flags of the nats CLI change.
func settingOf(n *needs.Need, stream, text, fix, flags string) Finding {
	return Finding{Check: n.Purpose, Pipeline: n.Pipeline, Level: LevelFault, Text: "stream " + stream + text, Fix: fix,
		Command: fmt.Sprintf("nats stream edit %s %s --force", stream, flags)}
}

// checkRetained checks that a stream takes the inputs, and keeps them until they are answered.
func (d *diagnosis) checkRetained(n *needs.Need, c *jetstream.StreamConfig) {
	add := func(text, fix, flags string) { d.add(settingOf(n, c.Name, " "+text, fix, flags)) }
	if f := needs.SubjectFault(&spec.Pipeline{Subject: n.Subject}, c); f != nil {
		d.addFault(n.Purpose, n.Pipeline, f)
		return
	}
	switch {
	case c.MaxMsgsPerSubject > 0 && c.Discard == jetstream.DiscardOld:
		add(fmt.Sprintf("keeps only the newest %d messages of a subject: inputs are gone before they are answered",
			c.MaxMsgsPerSubject), "remove the limit", "--max-msgs-per-subject=-1")
	case c.MaxMsgs > 0 && c.MaxMsgs < minRetained && c.Discard == jetstream.DiscardOld:
		add(fmt.Sprintf("keeps only the newest %d messages: inputs are gone before they are answered", c.MaxMsgs),
			"raise or remove the limit", "--max-msgs=-1")
	case c.MaxBytes > 0 && c.MaxBytes < minRetainedBytes && c.Discard == jetstream.DiscardOld:
		add(fmt.Sprintf("keeps only the newest %s of messages: inputs are gone before they are answered",
			needs.ByteText(c.MaxBytes)), "raise or remove the limit", "--max-bytes=-1")
	case c.MaxAge > 0 && c.MaxAge < minRetention:
		add(fmt.Sprintf("keeps messages for %v: inputs are gone before they are answered when the daemon is down for longer",
			c.MaxAge), "keep them longer", "--max-age=24h")
	case c.MaxMsgSize > 0 && c.MaxMsgSize < minMessage:
		add(fmt.Sprintf("takes messages of up to %d bytes: an Arrow message does not fit, and is refused", c.MaxMsgSize),
			"raise or remove its limit", "--max-msg-size=-1")
	case c.NoAck:
		f := settingOf(n, c.Name, " confirms nothing: no publisher knows whether its message is stored", "make it confirm",
			"--ack")
		f.Level = LevelNote
		d.add(f)
	}
}

// What a stream must keep so that inputs and outputs are read before they are gone, and the bytes of an Arrow message.
const (
	minRetention     = 15 * time.Minute
	minRetained      = 1000
	minRetainedBytes = 1 << 20
	minMessage       = 1 << 10
)

// checkConsumerLimits notes limits of the consumers of a stream with which the pipeline runs, but slower.
func (d *diagnosis) checkConsumerLimits(n *needs.Need, c *jetstream.StreamConfig) {
	add := func(text, fix, flag string) {
		f := settingOf(n, c.Name, " "+text, fix, flag)
		f.Check, f.Level = "consumer", LevelNote
		d.add(f)
	}
	if limit := c.ConsumerLimits.MaxAckPending; limit > 0 && limit < spec.MinAckPending {
		add(fmt.Sprintf("allows %d messages without an acknowledgement, and a daemon holds up to %d: it is slower", limit,
			spec.MinAckPending), "raise the limit", "--limit-consumer-max-pending="+strconv.Itoa(spec.DefaultAckPending))
	}
	if limit := c.ConsumerLimits.InactiveThreshold; limit > 0 && limit < minRetention {
		add(fmt.Sprintf("deletes a consumer that nothing pulls from for %v: a daemon that starts later reads the stream "+
			"from its first message, and looks up which inputs have answers", limit), "raise the limit",
			"--limit-consumer-inactive=24h")
	}
}

// checkConfirming checks a stream that has to confirm outputs or dead letters.
func (d *diagnosis) checkConfirming(n *needs.Need, info *jetstream.StreamInfo) {
	c := &info.Config
	takes := fmt.Sprintf(", which takes %s, ", n.Subject)
	addIf := func(holds bool, text, fix, flag string) {
		if holds {
			d.add(settingOf(n, c.Name, takes+text, fix, flag))
		}
	}
	addIf(c.MaxMsgsPerSubject > 0 && c.MaxMsgsPerSubject < minRetained && c.Discard == jetstream.DiscardOld,
		fmt.Sprintf("keeps only the newest %d messages of a subject: the others are gone before they are read",
			c.MaxMsgsPerSubject), "remove the limit", "--max-msgs-per-subject=-1")
	addIf(c.MaxMsgs > 0 && c.MaxMsgs < minRetained && c.Discard == jetstream.DiscardOld, fmt.Sprintf("keeps only the "+
		"newest %d messages: the others are gone before they are read", c.MaxMsgs), "raise or remove the limit",
		"--max-msgs=-1")
	addIf(c.MaxAge > 0 && c.MaxAge < time.Minute, fmt.Sprintf("keeps messages for %v: they are gone before they are read",
		c.MaxAge), "keep them longer", "--max-age=24h")
	addIf(c.NoAck, "confirms nothing, and an input is acknowledged only when its output is confirmed", "make it confirm",
		"--ack")
	addIf(c.MaxMsgSize > 0 && int(c.MaxMsgSize) < 4*needs.OwnHeaderBytes, fmt.Sprintf("takes messages of up to %d "+
		"bytes: a row with its headers hardly fits", c.MaxMsgSize), "raise or remove its limit", "--max-msg-size=-1")
	addIf(c.Duplicates < n.Duplicates, fmt.Sprintf("has a duplicate window of %v, and inputs are redelivered after %v "+
		"(nats.ack_wait): more outputs have to be looked up", c.Duplicates, n.Duplicates/3), "make it three times as "+
		"long at least", "--dupe-window="+n.Duplicates.String())
	if c.Retention == jetstream.LimitsPolicy || info.State.Consumers > 0 {
		return
	}
	f := Finding{Check: n.Purpose, Pipeline: n.Pipeline, Level: LevelFault,
		Text: "stream " + c.Name + takes + "keeps messages for its consumers, and it has none", // so it keeps nothing
		Fix:  "create the consumer of its reader, or a stream with limits retention"}
	if c.Retention == jetstream.WorkQueuePolicy {
		f.Level, f.Text = LevelNote, "stream "+c.Name+takes+"is a work queue, and has no consumer"
	}
	d.add(f)
}

// checkConsumer checks the durable consumers of a pipeline.
func (d *diagnosis) checkConsumer(ctx context.Context, p *spec.Pipeline, s jetstream.Stream) {
	name := needs.ConsumerName(p.Name, d.domainOf(p))
	c, err := ask(ctx, d.permissions, func(ctx context.Context) (jetstream.Consumer, error) {
		return s.Consumer(ctx, name)
	})
	info := s.CachedInfo()
	limit := info.Config.MaxConsumers
	if d.maxConsumers > 0 && (limit <= 0 || d.maxConsumers < limit) {
		limit = d.maxConsumers
	}
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound) && limit > 0 && info.State.Consumers >= limit:
		d.full = append(d.full, p.Stream)
		d.addFault("consumer", p.Name, needs.ConsumerFault(p.Stream, limit))
		return
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		d.addOK("consumer", p.Name, "%s is created when the daemon starts", name)
		return
	case err != nil:
		d.addError("consumer", p.Name, natsx.ExplainRequestError(err, "about consumer "+name))
		return
	}
	known := len(d.findings)
	unanswered := uint64(0)
	for _, q := range needs.Partitions(p) {
		if q.Of > 0 {
			if c, err = s.Consumer(ctx, q.ConsumerName(name)); err != nil {
				continue // it is created when the daemon starts
			}
		}
		unanswered += natsx.Unacknowledged(c.CachedInfo())
		if err := needs.CheckConsumer(p, c.CachedInfo().Config, info.Config.Subjects, q.Filter(p.Subject)); err != nil {
			d.add(Finding{Check: "consumer", Pipeline: p.Name, Text: err.Error(),
				Command: fmt.Sprintf("nats consumer rm %s %s --force", p.Stream, q.ConsumerName(name))})
		} else if f := needs.PausedFault(p.Stream, c.CachedInfo()); f != nil {
			d.addFault("consumer", p.Name, f)
		}
	}
	if len(d.findings) == known {
		d.addOK("consumer", p.Name, "%d messages are not answered", unanswered)
	}
}

// domainOf returns the JetStream domain in the names of a pipeline's consumers: that of a leaf node, else none.
func (d *diagnosis) domainOf(p *spec.Pipeline) string {
	if p.ModelsFromHub() {
		return d.domain
	}
	return ""
}

// checkClock compares this machine's clock with the server's, once.
func (d *diagnosis) checkClock(begin time.Time, info *jetstream.StreamInfo) {
	if d.clockChecked || info.TimeStamp.IsZero() {
		return
	}
	d.clockChecked = true
	took := d.Clock().Sub(begin)
	skew := info.TimeStamp.Sub(begin.Add(took / 2))
	if skew.Abs() <= maxClockSkew+took {
		d.addOK("clock", "", "within %v of the server's", maxClockSkew)
		return
	}
	relation := "ahead of"
	if skew < 0 {
		relation = "behind"
	}
	d.add(Finding{Check: "clock", Text: fmt.Sprintf("the server's clock is %v %s this machine's: ages of models and "+
		"rows are wrong by that", skew.Abs().Round(time.Second), relation), Fix: "set both clocks, as with chrony or ntpd"})
}
