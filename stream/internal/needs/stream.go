package needs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/semver"

	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/spec"
)

// Fault is what is wrong with a stream, and the fix in words and as a shell command.
type Fault struct{ Text, Fix, Command string }

func (f *Fault) Error() string {
	text := f.Text + "; " + f.Fix
	if f.Command != "" {
		text += ": " + f.Command
	}
	return text
}

// StreamFull returns why the limits of a stream make it refuse new messages, or nil.
func StreamFull(info *jetstream.StreamInfo, subject string) *Fault {
	c, state := info.Config, info.State
	what := fmt.Sprintf("stream %s, which takes %s, ", c.Name, subject)
	raise := func(limit, flag string, to int64) *Fault {
		return &Fault{what + "is full: " + limit + " and it refuses new ones",
			"raise the limit, or have it discard the oldest (--discard=old)",
			fmt.Sprintf("nats stream edit %s %s=%d --force", c.Name, flag, to)}
	}
	switch {
	case c.Sealed:
		return &Fault{what + "is sealed: nothing can be stored in it any more", "create another one for the subject", ""}
	case c.Discard != jetstream.DiscardNew:
		return nil
	case c.MaxMsgs > 0 && state.Msgs >= uint64(c.MaxMsgs):
		return raise(fmt.Sprintf("its limit is %d messages", c.MaxMsgs), "--max-msgs", 2*c.MaxMsgs)
	case c.MaxBytes > 0 && state.Bytes+state.Bytes/max(state.Msgs, 1) >= uint64(c.MaxBytes):
		// One more message of their mean size has no room.
		return raise(fmt.Sprintf("its limit is %d bytes", c.MaxBytes), "--max-bytes", 2*c.MaxBytes)
	}
	return nil
}

// SummaryLimit returns why the size limit of a stream of summaries is not the configured one, or "".
func SummaryLimit(p *spec.Pipeline, c *jetstream.StreamConfig) string {
	if c.MaxBytes == SummaryBytes(p) {
		return ""
	}
	return fmt.Sprintf("stream %s keeps %s of summaries, and nats.edge_bytes is %s: 'embedd setup --apply' changes it",
		c.Name, ByteText(c.MaxBytes), ByteText(SummaryBytes(p)))
}

// UnnamedEdge returns that the domain of an edge is not among those whose summaries the hub learns from, or "".
func UnnamedEdge(domain string, edges []string) string {
	if slices.Contains(edges, domain) {
		return ""
	}
	return fmt.Sprintf("nats.edges has %s, and the JetStream domain of this server is %q: add that, here and at the hub; "+
		"or leave nats.edges out, and the hub learns from rows that it receives", strings.Join(edges, ", "), domain)
}

// PartitionTransform is the subject transform with which a stream maps the messages of a subject to partitions.
func PartitionTransform(subject string, partitions int) *jetstream.SubjectTransformConfig {
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

// transformPartitions is the number of partitions of a transform of [PartitionTransform], 0 for any other.
func transformPartitions(c *jetstream.SubjectTransformConfig) int {
	tokens := strings.Split(c.Destination, ".")
	if len(tokens) < 2 {
		return 0
	}
	n, err := strconv.Atoi(tokens[len(tokens)-2])
	if err != nil || *PartitionTransform(c.Source, n) != *c {
		return 0
	}
	return n
}

// storedPattern is the pattern of the subjects that a transform makes.
func storedPattern(t *jetstream.SubjectTransformConfig) string {
	tokens := strings.Split(t.Destination, ".")
	for i, token := range tokens {
		switch token = strings.ToLower(token); {
		case strings.HasPrefix(token, "{{split"), strings.HasPrefix(token, "{{slice"): // any number of tokens
			return strings.Join(append(tokens[:i], ">"), ".")
		case strings.ContainsAny(token, "{$"):
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}

// SubjectFault returns that a stream, whose subjects were edited, stores no new messages of p, or nil. A mirror or a
// stream with sources has the subjects of its origin.
func SubjectFault(p *spec.Pipeline, c *jetstream.StreamConfig) *Fault {
	stored := slices.Clip(c.Subjects)
	if c.SubjectTransform != nil {
		stored = append(stored, storedPattern(c.SubjectTransform))
	}
	if len(stored) == 0 || c.Mirror != nil || len(c.Sources) > 0 ||
		slices.ContainsFunc(stored, func(s string) bool { return wildcard.Overlap(s, p.Subject) }) {
		return nil
	}
	subjects := strings.Join(c.Subjects, ",")
	return &Fault{fmt.Sprintf("stream %s takes %s and not %s: no input arrives", c.Name, subjects, p.Subject),
		"add the subject, or name another input.stream",
		fmt.Sprintf("nats stream edit %s --subjects='%s,%s' --force", c.Name, subjects, p.Subject)}
}

// transformFault returns that a stream stores the messages of p under another subject, which p does not read, or nil.
func transformFault(p *spec.Pipeline, c *jetstream.StreamConfig) *Fault {
	t := c.SubjectTransform
	if t == nil {
		return nil
	}
	source, stored := cmp.Or(t.Source, ">"), storedPattern(t)
	if !wildcard.Covers(source, p.Subject) {
		return nil
	}
	if wildcard.Overlap(stored, p.Subject) {
		return nil
	}
	fix := "set input.subject to a subject that it stores"
	if n := transformPartitions(t); n > 0 {
		fix = fmt.Sprintf("set input.partitions: %d, or remove the transform", n)
	}
	return &Fault{fmt.Sprintf("stream %s stores what is published on %s under %s, and pipeline %s reads %s: it receives "+
		"nothing new", c.Name, source, stored, p.Name, p.Subject), fix, ""}
}

// PartitionFault returns why a stream does not map the messages of p to its partitions, or without partitions to what p
// reads, or nil. A mirror or a stream with sources has the subjects of its origin.
func PartitionFault(p *spec.Pipeline, c *jetstream.StreamConfig) *Fault {
	if p.Partitions == 0 {
		return transformFault(p, c)
	}
	want, have := PartitionTransform(p.Subject, p.Partitions), c.SubjectTransform
	edit := fmt.Sprintf("nats stream edit %s --transform-source='%s' --transform-destination='%s' --force", c.Name,
		want.Source, want.Destination)
	switch {
	case c.Retention != jetstream.LimitsPolicy:
		return &Fault{fmt.Sprintf("stream %s is a work queue or has interest retention, and partitions read unanswered "+
			"messages again: no order can be kept", c.Name),
			"give the pipeline a stream with limits retention, or delete input.partitions", ""}
	case c.Mirror != nil, len(c.Sources) > 0, have != nil && *have == *want:
		return nil
	case have == nil:
		return &Fault{fmt.Sprintf("stream %s does not map the keys of %s to %d partitions as it stores them", c.Name,
			p.Subject, p.Partitions),
			"set its transform; other readers of the stream then see two more tokens in its subjects", edit}
	case have.Source == want.Source && strings.HasPrefix(have.Destination, p.Subject[:strings.IndexByte(p.Subject,
		'*')]) && transformPartitions(have) > 0:
		n := transformPartitions(have)
		return &Fault{fmt.Sprintf("stream %s maps %s to %d partitions, and pipeline %s has %d", c.Name, p.Subject, n, p.Name,
			p.Partitions),
			fmt.Sprintf("set input.partitions: %d; or change the stream, and its stored messages are answered first", n), edit}
	}
	return &Fault{fmt.Sprintf("stream %s transforms the subjects of %s to %s, and a stream has one transform", c.Name,
		have.Source, have.Destination), fmt.Sprintf("give the pipeline a separate stream for %s", p.Subject), ""}
}

// minVersion is the oldest server that embedd supports: with subject transforms of streams, metadata of consumers, and
// their creation by name and subject.
const minVersion = "v2.10"

// ServerFault says that a server is too old, with the fix; "" if it is not. Every server of a cluster counts: any of
// them may lead a stream.
func ServerFault(name, version string) string {
	if !IsOlder(version, minVersion) {
		return ""
	}
	return fmt.Sprintf("the server %s has version %s, and embedd needs 2.10 or later: upgrade it", name, version)
}

// IsOlder reports whether a server's version is before one as v2.10; a text that is no version is not.
func IsOlder(version, than string) bool {
	minor := semver.MajorMinor("v" + strings.TrimPrefix(version, "v"))
	return minor != "" && semver.Compare(minor, than) < 0
}

// ByteText writes a number of bytes with a unit.
func ByteText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
