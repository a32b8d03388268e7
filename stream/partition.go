package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/lease"
)

// A pipeline with partitions keeps order by key: the key is what stands for the wildcards of its subject. The stream
// itself puts each key into a partition, as it stores a message, and says so in two more tokens of the subject: how many
// there are, and which. So what was stored under another number, or before there was any, is told from what comes now.

// partition is one of so many; of none: what the stream has without.
type partition struct{ number, of int }

// maxPartitions bounds them: each is a consumer.
const maxPartitions = 256

func (q partition) String() string {
	if q.of == 0 {
		return "rest"
	}
	return fmt.Sprintf("%dof%d", q.number, q.of)
}

// durable is the name of its consumer, where that of the pipeline is whole. No pipeline has a ~ in its name.
func (q partition) durable(whole string) string {
	if q.of == 0 {
		return whole
	}
	return whole + "~" + q.String()
}

// filter are the subjects under which the stream has its messages.
func (q partition) filter(subject string) string {
	if q.of == 0 {
		return subject
	}
	return fmt.Sprintf("%s.%d.%d", subject, q.of, q.number)
}

// key is that of its lease.
func (q partition) key(pipeline string) string { return pipeline + ".partition." + q.String() }

var partitionForm = regexp.MustCompile(`~(\d+)of(\d+)$`)

// partitionOf reads the name of a consumer of a pipeline, whose own is whole.
func partitionOf(whole, consumer string) (q partition, ok bool) {
	rest, ok := strings.CutPrefix(consumer, whole)
	m := partitionForm.FindStringSubmatch(rest)
	if !ok || m == nil || m[0] != rest {
		return q, false
	}
	number, err := strconv.Atoi(m[1])
	of, err2 := strconv.Atoi(m[2])
	return partition{number, of}, err == nil && err2 == nil && of > 0 && number < of
}

// transform is how a stream puts the messages of a subject into partitions.
func transform(subject string, partitions int) *jetstream.SubjectTransformConfig {
	var to, keys []string
	for _, token := range strings.Split(subject, ".") {
		if token == "*" {
			keys = append(keys, strconv.Itoa(len(keys)+1))
			token = "{{wildcard(" + keys[len(keys)-1] + ")}}"
		}
		to = append(to, token)
	}
	to = append(to, strconv.Itoa(partitions), fmt.Sprintf("{{partition(%d,%s)}}", partitions, strings.Join(keys, ",")))
	return &jetstream.SubjectTransformConfig{Source: subject, Destination: strings.Join(to, ".")}
}

// plain is the subject of a message as it was published.
func (p *Pipeline) plain(subject string) string {
	if p.Partitions == 0 || strings.Count(subject, ".") != strings.Count(p.Subject, ".")+2 {
		return subject
	}
	for range 2 {
		subject = subject[:strings.LastIndexByte(subject, '.')]
	}
	return subject
}

// filters are the subjects under which the stream has all messages of the pipeline.
func (p *Pipeline) filters() []string {
	if p.Partitions == 0 {
		return []string{p.Subject}
	}
	return []string{p.Subject, p.Subject + ".*.*"}
}

// partitions are those of the configuration, and before them what was stored without.
func (p *Pipeline) partitions() []partition {
	all := []partition{{}}
	for i := range p.Partitions {
		all = append(all, partition{i, p.Partitions})
	}
	return all
}

func (p *Pipeline) checkPartitions() error {
	if p.Partitions == 0 {
		return nil
	}
	_, err := wildcard.Keys(p.Subject)
	switch {
	case p.Partitions < 2 || p.Partitions > maxPartitions:
		return fmt.Errorf("pipeline %s: %d partitions: want 2 to %d, or none", p.Name, p.Partitions, maxPartitions)
	case p.Stream == "":
		return fmt.Errorf("pipeline %s: partitions are those of a stream, and core NATS has none: set input.stream", p.Name)
	case err != nil:
		return fmt.Errorf("pipeline %s: %w", p.Name, err)
	}
	return nil
}

// misfit says why a stream does not keep the pipeline's messages in its partitions, with the cure; nil where it does. A
// stream that copies others keeps them as those do.
func (p *Pipeline) misfit(c *jetstream.StreamConfig) *fault {
	if p.Partitions == 0 {
		return nil
	}
	want, have := transform(p.Subject, p.Partitions), c.SubjectTransform
	edit := fmt.Sprintf("nats stream edit %s --transform-source='%s' --transform-destination='%s' --force", c.Name, want.Source,
		want.Destination)
	switch {
	case c.Retention != jetstream.LimitsPolicy:
		return &fault{fmt.Sprintf("stream %s is a work queue, or keeps messages by interest, and partitions read what is not answered again: no order can be kept", c.Name),
			"give the pipeline a stream with limits retention, or delete input.partitions", ""}
	case c.Mirror != nil, len(c.Sources) > 0, have != nil && *have == *want:
		return nil
	case have == nil:
		return &fault{fmt.Sprintf("stream %s does not put the keys of %s into %d partitions as it stores them", c.Name, p.Subject,
			p.Partitions), "let it; other readers of the stream then see two more tokens in its subjects", edit}
	case have.Source == want.Source && strings.HasPrefix(have.Destination, p.Subject[:strings.IndexByte(p.Subject, '*')]) &&
		numberOf(have) > 0:
		return &fault{fmt.Sprintf("stream %s puts %s into %d partitions, and pipeline %s is to have %d", c.Name, p.Subject,
			numberOf(have), p.Name, p.Partitions),
			fmt.Sprintf("set input.partitions: %d; or let the stream have as many, and what it has stored is answered first",
				numberOf(have)), edit}
	}
	return &fault{fmt.Sprintf("stream %s changes the subjects of %s to %s, and a stream can do one such thing", c.Name,
		have.Source, have.Destination), fmt.Sprintf("give the pipeline a stream of its own for %s", p.Subject), ""}
}

// numberOf is the number of partitions of a transform that is ours, 0 where it is not.
func numberOf(c *jetstream.SubjectTransformConfig) int {
	tokens := strings.Split(c.Destination, ".")
	if len(tokens) < 2 {
		return 0
	}
	n, err := strconv.Atoi(tokens[len(tokens)-2])
	if err != nil || *transform(c.Source, n) != *c {
		return 0
	}
	return n
}

// partitionsSince is the oldest server with which partitions work: transforms of streams came with 2.10, the keys that
// end by themselves, which leases are, with 2.11.
var partitionsSince = lease.Since

// oldServer says that a server is too old for partitions; nil where it is not.
func oldServer(version string) error {
	if !older(version, partitionsSince) {
		return nil
	}
	return fmt.Errorf("input.partitions needs a NATS server from 2.11 on (streams that change subjects came with 2.10, keys that end by themselves with 2.11), and this one is %s: upgrade it, or delete input.partitions",
		version)
}

// bindPartitions looks whether the stream keeps the pipeline's partitions, and opens their leases.
func (e *Engine) bindPartitions(ctx context.Context, p *pipeline) error {
	if err := oldServer(p.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	if f := p.misfit(&p.input.CachedInfo().Config); f != nil {
		return f
	}
	bucket, err := e.openLeases(ctx, p)
	if errors.Is(err, lease.ErrOldServer) {
		return fmt.Errorf("input.partitions: %w", err)
	}
	if err != nil {
		return err
	}
	p.seats = bucket
	p.earlier, err = p.former(ctx)
	return err
}

// shares says which member is to hold which partition. Each member has a number for each partition, and the highest has it
// that has not its share yet, of those of the same number. So when one comes or goes, few partitions change hands beside
// those that it has, or had. All members come to the same, in whatever order they know of partitions and members.
func shares(parts []partition, members []string) map[partition]string {
	out := map[partition]string{}
	if len(members) == 0 {
		return out
	}
	slices.SortFunc(parts, func(a, b partition) int { return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.number, b.number)) })
	has := map[string]int{} // of the number at hand
	for i, q := range parts {
		if i == 0 || parts[i-1].of != q.of {
			clear(has)
		}
		most := (max(q.of, 1) + len(members) - 1) / len(members)
		best := slices.MaxFunc(members, func(a, b string) int {
			return cmp.Or(-cmp.Compare(has[a]/most, has[b]/most), cmp.Compare(weight(q, a), weight(q, b)), -cmp.Compare(a, b))
		})
		out[q] = best
		has[best]++
	}
	return out
}

// weight is the number of a member for a partition.
func weight(q partition, member string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(q.String() + " " + member))
	n := h.Sum64() // its last steps mix the low bits alone
	n = (n ^ n>>31) * 0x9e3779b97f4a7c15
	n = (n ^ n>>29) * 0xbf58476d1ce4e5b9
	return n ^ n>>32
}
