package needs

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/doctable"
	"github.com/embedd/embedd/stream/spec"
)

func pipeline(change func(*spec.Pipeline)) spec.Pipeline {
	p := spec.Pipeline{Name: "p", Stream: "in", Subject: "in.*", Output: "out.p", Dead: "dead.p"}
	change(&p)
	return p
}

// variants are pipelines that need different things.
var variants = map[string]spec.Pipeline{
	"plain":      pipeline(func(*spec.Pipeline) {}),
	"core NATS":  pipeline(func(p *spec.Pipeline) { p.Stream = "" }),
	"labels":     pipeline(func(p *spec.Pipeline) { p.Labels = "labels.p" }),
	"partitions": pipeline(func(p *spec.Pipeline) { p.Partitions = 4 }),
	"directory":  pipeline(func(p *spec.Pipeline) { p.Models.Directory = "models" }),
	"blocks":     pipeline(func(p *spec.Pipeline) { p.Stage.Training.Block = 100 }),
	"mirror":     pipeline(func(p *spec.Pipeline) { p.Models.Hub = "hub" }),
	"edge": pipeline(func(p *spec.Pipeline) {
		p.Models.Hub, p.Edges, p.Stage.Training.Block = "hub", []string{"berlin"}, 100
	}),
	"hub of edges": pipeline(func(p *spec.Pipeline) { p.Edges, p.Stage.Training.Block = []string{"berlin"}, 100 }),
}

// TestBucketsOf: each kind of pipeline needs its buckets and no others.
func TestBucketsOf(t *testing.T) {
	for name, want := range map[string]string{
		"plain":        "EMBEDD_MODELS EMBEDD_LEASES EMBEDD_STATE",
		"core NATS":    "",
		"labels":       "EMBEDD_MODELS EMBEDD_LEASES EMBEDD_STATE",
		"partitions":   "EMBEDD_MODELS EMBEDD_LEASES EMBEDD_STATE",
		"directory":    "EMBEDD_STATE",
		"blocks":       "EMBEDD_MODELS EMBEDD_LEASES EMBEDD_SUMMARIES EMBEDD_STATE",
		"mirror":       "EMBEDD_MODELS EMBEDD_STATE",
		"edge":         "EMBEDD_MODELS EMBEDD_SUMMARIES EMBEDD_EDGE EMBEDD_STATE",
		"hub of edges": "EMBEDD_MODELS EMBEDD_LEASES EMBEDD_SUMMARIES EMBEDD_EDGES EMBEDD_STATE",
	} {
		var got []string
		for _, n := range For(Config{Pipelines: []spec.Pipeline{variants[name]}}) {
			if n.Kind == Bucket {
				got = append(got, n.Name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}

// TestNeedsAreComplete: each need has a purpose and a pipeline, and each bucket can be created and used by run.
func TestNeedsAreComplete(t *testing.T) {
	for name, p := range variants {
		for _, n := range For(Config{Pipelines: []spec.Pipeline{p}}) {
			mayRun := slices.ContainsFunc(n.Permissions, func(p Permission) bool {
				return (p.Role == RoleDaemon || p.Role == inspection) && len(p.Subjects) > 0
			})
			switch {
			case n.Purpose == "" || n.Pipeline != "p":
				t.Errorf("%s: incomplete: %+v", name, n)
			case n.Kind == Bucket && (n.Create == nil || len(n.Streams) == 0):
				t.Errorf("%s: cannot be created: %v", name, n)
			case n.Kind == Bucket && !mayRun:
				t.Errorf("%s: run has no permission for %v", name, n)
			}
		}
	}
}

// TestBucketsAreDocumented: docs/connection.md has each bucket, and why it is needed.
func TestBucketsAreDocumented(t *testing.T) {
	var entries []doctable.Entry
	for _, b := range buckets {
		entries = append(entries, doctable.Entry{Name: b.name, Row: b.why + " | " + neededBy(b)})
	}
	doctable.Check(t, "../../../docs/connection.md", regexp.MustCompile(`EMBEDD_\w+`), entries)
}

// neededBy lists the variants that need a bucket.
func neededBy(b bucket) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		p := variants[name]
		if p.Stream != "" && b.isNeeded(&p) {
			names = append(names, name)
		}
	}
	return "pipelines: " + strings.Join(names, ", ")
}

// TestPermissionsOfDomain: a request to the JetStream of a domain is also allowed in the form to which a server there
// maps it.
func TestPermissionsOfDomain(t *testing.T) {
	all := For(Config{Pipelines: []spec.Pipeline{variants["plain"]}, APIPrefix: "$JS.hub.API"})
	publish, subscribe := PermissionsOf(all, Roles[0], "_INBOX")
	for _, want := range []string{"$JS.hub.API.STREAM.INFO.in", "$JS.API.STREAM.INFO.in",
		"$JS.hub.API.$KV.EMBEDD_STATE.p.>", "$KV.EMBEDD_STATE.p.>", "out.p", "dead.p", "$JS.ACK.in.embedd_p.>"} {
		if !slices.Contains(publish, want) {
			t.Errorf("run may not publish to %s: %q", want, publish)
		}
	}
	if !slices.Contains(subscribe, "embedd.p.>") || !slices.IsSorted(publish) {
		t.Errorf("run may subscribe to %q, publish to %q", subscribe, publish)
	}
}

// TestParsePartition: the name of a partition's consumer is read back, and no other name is.
func TestParsePartition(t *testing.T) {
	whole := ConsumerName("p", "hub")
	for _, q := range []Partition{{0, 2}, {255, 256}} {
		if got, ok := ParsePartition(whole, q.ConsumerName(whole)); !ok || got != q {
			t.Errorf("%v is read as %v", q, got)
		}
	}
	for _, name := range []string{whole, whole + "~2of2", whole + "~1of", "embedd_q~0of2", whole + "x~0of2"} {
		if q, ok := ParsePartition(whole, name); ok {
			t.Errorf("%s is read as %v", name, q)
		}
	}
}

// TestSubjectFault: an input stream that stores nothing under the pipeline's subject is a fault.
func TestSubjectFault(t *testing.T) {
	p := &spec.Pipeline{Subject: "in.*"}
	for name, c := range map[string]struct {
		config  jetstream.StreamConfig
		isFault bool
	}{
		"the subject":     {jetstream.StreamConfig{Subjects: []string{"other", "in.*"}}, false},
		"part of it":      {jetstream.StreamConfig{Subjects: []string{"in.a"}}, false},
		"another subject": {jetstream.StreamConfig{Subjects: []string{"other", "in"}}, true},
		"a mirror":        {jetstream.StreamConfig{Mirror: &jetstream.StreamSource{Name: "A"}}, false},
		"sources": {jetstream.StreamConfig{Subjects: []string{"other"},
			Sources: []*jetstream.StreamSource{{Name: "A"}}}, false},
		"a transform to the subject": {jetstream.StreamConfig{Subjects: []string{"raw.*"},
			SubjectTransform: &jetstream.SubjectTransformConfig{Source: "raw.*", Destination: "in.{{wildcard(1)}}"}}, false},
	} {
		c.config.Name = "IN"
		f := SubjectFault(p, &c.config)
		if (f != nil) != c.isFault || f != nil && f.Error() != "stream IN takes other,in and not in.*: no input arrives; "+
			"add the subject, or name another input.stream: nats stream edit IN --subjects='other,in,in.*' --force" {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// TestTransformFault: a stream that stores what is published on the pipeline's subject under subjects that the pipeline
// does not read is reported.
func TestTransformFault(t *testing.T) {
	for _, c := range []struct{ source, destination, subject, fix string }{
		{"in.>", "stored.>", "in.x", "set input.subject"},
		{"", "stored.>", "in.x", "what is published on > under stored.>"},
		{"in.*", "in.{{wildcard(1)}}.8.{{partition(8,1)}}", "in.*", "set input.partitions: 8"},
		{"in.>", "stored.>", "stored.x", ""},
		{">", "stored.>", "stored.x", ""},
		{"in.*", "in.x.$1", "in.>", ""},
		{"in.a", "in.b", "in.>", ""},
		{"in.*", "in.{{split(1,-)}}", "in.*", ""},
	} {
		f := PartitionFault(&spec.Pipeline{Name: "p", Subject: c.subject}, &jetstream.StreamConfig{Name: "in",
			SubjectTransform: &jetstream.SubjectTransformConfig{Source: c.source, Destination: c.destination}})
		if (f != nil) != (c.fix != "") || f != nil && !strings.Contains(f.Text+f.Fix, c.fix) {
			t.Errorf("%+v: %v", c, f)
		}
	}
}

// TestServerFault: a server that is too old is named, whichever form its version has.
func TestServerFault(t *testing.T) {
	for version, isOld := range map[string]bool{"2.9.25": true, "1.4": true, "2.10.0": false, "v2.10.29": false,
		"2.12.0-preview.1": false, "3.0": false, "": false, "dev": false} {
		if fault := ServerFault("s1", version); (fault != "") != isOld || isOld && !strings.Contains(fault, "s1") {
			t.Errorf("%s: %q", version, fault)
		}
	}
}
