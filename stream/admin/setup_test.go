package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/summaries"
	"github.com/embedd/embedd/stream/spec"
)

// piped is a pipeline as far as setup looks at it.
func piped(name, stream, subject, output string) spec.Pipeline {
	return spec.Pipeline{Name: name, Stream: stream, Subject: subject, Output: output, Dead: "dead." + name,
		Models: spec.Models{None: true}}
}

// bucketsOf lists the buckets that the table of needs has for the pipelines, once each.
func bucketsOf(pipelines []spec.Pipeline) (buckets []needs.Need) {
	for _, n := range needs.For(needs.Config{Pipelines: pipelines}) {
		if n.Kind == needs.Bucket && !slices.ContainsFunc(buckets, func(b needs.Need) bool { return b.Name == n.Name }) {
			buckets = append(buckets, n)
		}
	}
	return buckets
}

func said(plans []Plan) (out []string) {
	for _, p := range plans {
		state := "missing"
		switch {
		case p.Problem != "":
			state = "problem: " + p.Problem
		case p.Exists:
			state = "there"
		case p.Outdated:
			state = "lacks some"
		}
		out = append(out, fmt.Sprintf("%s %v %s", p.Name, p.Subjects, state))
	}
	return out
}

// allOf is a pipeline whose subjects begin with the same token.
func allOf(name string) spec.Pipeline {
	p := piped(name, "TX", "tx."+name+".in", "tx."+name+".out")
	p.Labels, p.Dead, p.Stage.Labels = "tx."+name+".labels", "tx."+name+".dead", &plugin.Labels{}
	return p
}

// TestSetup: streams take the subjects of the pipelines and nothing else, what is there is looked at, and overlaps are
// found before anything is made.
func TestSetup(t *testing.T) {
	for _, c := range []struct {
		name      string
		there     []jetstream.StreamConfig
		pipelines []spec.Pipeline
		want      []string // of the plans: "name [subjects] state", or how it begins
		made      []string // what streams take afterwards; nil: nothing was made
	}{
		{"exactly the subjects", nil, []spec.Pipeline{piped("digits", "PROD", "prod.ml.features.digits", "prod.ml.reduced")},
			[]string{"PROD [prod.ml.features.digits] missing", "PROD_OUTPUT [prod.ml.reduced] missing",
				"DEAD [dead.digits] missing"},
			[]string{"DEAD [dead.digits]", "PROD [prod.ml.features.digits]", "PROD_OUTPUT [prod.ml.reduced]"}},
		{"one stream for each purpose", nil, []spec.Pipeline{allOf("a"), allOf("b")},
			[]string{"TX [tx.a.in tx.b.in] missing", "TX_LABELS [tx.a.labels tx.b.labels] missing",
				"TX_OUTPUT [tx.a.out tx.b.out] missing", "TX_DEAD [tx.a.dead tx.b.dead] missing"},
			[]string{"TX [tx.a.in tx.b.in]", "TX_DEAD [tx.a.dead tx.b.dead]", "TX_LABELS [tx.a.labels tx.b.labels]",
				"TX_OUTPUT [tx.a.out tx.b.out]"}},
		{"an input that setup made before", []jetstream.StreamConfig{{Name: "TX", Subjects: []string{"tx.in"},
			Metadata: map[string]string{createdBySetup: "1", streamPurpose: "input"}}},
			[]spec.Pipeline{piped("a", "IN", "in.a", "tx.out")},
			[]string{"IN [in.a] missing", "TX_OUTPUT [tx.out] missing", "DEAD [dead.a] missing"},
			[]string{"DEAD [dead.a]", "IN [in.a]", "TX [tx.in]", "TX_OUTPUT [tx.out]"}},
		{"one stream for two pipelines", nil, []spec.Pipeline{piped("a", "IN", "in.>", "out.a"), piped("b", "IN", "in.b",
			"out.b")},
			[]string{"IN [in.>] missing", "OUT [out.a out.b] missing", "DEAD [dead.a dead.b] missing"},
			[]string{"DEAD [dead.a dead.b]", "IN [in.>]", "OUT [out.a out.b]"}},
		{"a chain", nil, []spec.Pipeline{piped("a", "IN", "in.a", "mid.a"), piped("b", "CHAIN", "mid.a", "out.b")},
			[]string{"IN [in.a] missing", "CHAIN [mid.a] missing", "DEAD [dead.a dead.b] missing", "OUT [out.b] missing"},
			[]string{"CHAIN [mid.a]", "DEAD [dead.a dead.b]", "IN [in.a]", "OUT [out.b]"}},
		{"there", []jetstream.StreamConfig{{Name: "IN", Subjects: []string{"in.*"}}, {Name: "REST",
			Subjects: []string{"out.>", "dead.>"}}}, []spec.Pipeline{piped("a", "IN", "in.a", "out.a")},
			[]string{"IN [in.a] there", "REST [out.a dead.a] there"}, []string{"IN [in.*]", "REST [out.> dead.>]"}},
		{"there and takes another subject", []jetstream.StreamConfig{{Name: "IN", Subjects: []string{"else.*"}}},
			[]spec.Pipeline{piped("a", "IN", "in.a", "out.a")},
			[]string{`IN [else.* in.a] problem: stream IN exists and does not take in.a; ` +
				`add it: nats stream edit IN --subjects "else.*,in.a"`,
				"OUT [out.a] missing", "DEAD [dead.a] missing"}, nil},
		{"an output that its stream does not take", []jetstream.StreamConfig{{Name: "OUT", Subjects: []string{"out.b", "x"}}},
			[]spec.Pipeline{piped("a", "IN", "in.a", "out.a")},
			[]string{"IN [in.a] missing", `OUT [out.b x out.a] problem: stream OUT exists and does not take out.a`,
				"DEAD [dead.a] missing"}, nil},
		{"taken by another", []jetstream.StreamConfig{{Name: "OTHER", Subjects: []string{"in.*"}}},
			[]spec.Pipeline{piped("a", "IN", "in.a", "out.a")},
			[]string{"IN [in.a] problem: subject in.a of pipeline a is taken by stream OTHER (in.*), and no two streams take " +
				"one subject; set input.stream to OTHER",
				"OUT [out.a] missing", "DEAD [dead.a] missing"}, nil},
		{"a part is taken", []jetstream.StreamConfig{{Name: "IN", Subjects: []string{"in.a"}}},
			[]spec.Pipeline{piped("a", "IN", "in.*", "out.a")},
			[]string{`IN [in.*] problem: stream IN exists and does not take in.*; add it: nats stream edit IN --subjects "in.*"`,
				"OUT [out.a] missing", "DEAD [dead.a] missing"}, nil},
		{"proposals overlap", nil, []spec.Pipeline{piped("a", "ALL", "in.>", "out.a"), piped("b", "SOME", "in.b.*", "out.b")},
			[]string{"ALL [in.>] missing", "SOME [in.b.*] problem: subject in.b.* of pipeline b overlaps with in.>, which " +
				"stream ALL takes",
				"OUT [out.a out.b] missing", "DEAD [dead.a dead.b] missing"}, nil},
		{"proposals for one stream overlap", nil, []spec.Pipeline{piped("a", "IN", "in.*.x", "out.a"),
			piped("b", "IN", "in.y.*", "out.b")},
			[]string{"IN [in.*.x] missing", "IN [in.y.*] problem: subject in.y.* of pipeline b overlaps with in.*.x",
				"OUT [out.a out.b] missing", "DEAD [dead.a dead.b] missing"}, nil},
		{"a mirror", []jetstream.StreamConfig{{Name: "FIRST", Subjects: []string{"in.a"}}, {Name: "IN",
			Mirror: &jetstream.StreamSource{Name: "FIRST"}}}, []spec.Pipeline{piped("a", "IN", "in.a", "out.a")},
			[]string{"IN [in.a] there", "OUT [out.a] missing", "DEAD [dead.a] missing"},
			[]string{"DEAD [dead.a]", "FIRST [in.a]", "IN []", "OUT [out.a]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := natstest.New(t)
			for _, one := range c.there {
				if _, err := s.JS.CreateStream(t.Context(), one); err != nil {
					t.Fatal(err)
				}
			}
			for _, apply := range []bool{false, true} {
				plans, err := Setup(t.Context(), s.JS, c.pipelines, apply)
				if err != nil {
					t.Fatal(err)
				}
				got := said(plans)
				wants := slices.Clone(c.want)
				for _, b := range bucketsOf(c.pipelines) {
					wants = append(wants, b.Name+" [] missing")
				}
				for i, want := range wants {
					if apply && c.made != nil {
						want = strings.Replace(want, "missing", "there", 1)
					}
					if i >= len(got) || !strings.HasPrefix(got[i], want) {
						t.Errorf("apply %v:\n got %q\nwant %q", apply, got, c.want)
						break
					}
				}
				if len(got) != len(wants) {
					t.Errorf("apply %v: %d plans, want %d: %q", apply, len(got), len(wants), got)
				}
			}
			want := c.made
			if want == nil {
				for _, one := range c.there {
					want = append(want, fmt.Sprintf("%s %v", one.Name, one.Subjects))
				}
			} else {
				for _, b := range bucketsOf(c.pipelines) {
					want = append(want, fmt.Sprintf("KV_%s [$KV.%s.>]", b.Name, b.Name))
				}
			}
			slices.Sort(want)
			var have []string
			infos := s.JS.ListStreams(t.Context())
			for info := range infos.Info() {
				have = append(have, fmt.Sprintf("%s %v", info.Config.Name, info.Config.Subjects))
			}
			slices.Sort(have)
			if infos.Err() != nil || !slices.Equal(have, want) {
				t.Errorf("streams afterwards: %q, want %q (%v)", have, want, infos.Err())
			}
		})
	}
}

// TestSetupAgain: a stream that setup made gets the subjects of a pipeline that comes later, and keeps those it has.
func TestSetupAgain(t *testing.T) {
	s := natstest.New(t)
	first := piped("a", "IN", "new.a", "reduced.a")
	if _, err := Setup(t.Context(), s.JS, []spec.Pipeline{first}, true); err != nil {
		t.Fatal(err)
	}
	second := piped("b", "IN", "new.b", "reduced.b")
	for _, apply := range []bool{false, true} {
		plans, err := Setup(t.Context(), s.JS, []spec.Pipeline{second}, apply)
		if err != nil || plans[0].Outdated == apply || plans[0].Exists != apply {
			t.Errorf("apply %v: %+v %v", apply, plans, err)
		}
	}
	for name, want := range map[string]string{"IN": "[new.a new.b]", "REDUCED": "[reduced.a reduced.b]",
		"DEAD": "[dead.a dead.b]"} {
		one, err := s.JS.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(one.CachedInfo().Config.Subjects); got != want {
			t.Errorf("stream %s takes %s, want %s", name, got, want)
		}
	}
}

// TestSetupsTogether: no setup removes the subject that another adds to the same stream concurrently.
func TestSetupsTogether(t *testing.T) {
	t.Parallel()
	js := natstest.New(t).JS
	if _, err := Setup(t.Context(), js, []spec.Pipeline{piped("a", "IN", "new.a", "reduced.a")}, true); err != nil {
		t.Fatal(err)
	}
	names := []string{"b", "c", "d"}
	processes := natstest.Simultaneous(js, len(names))
	var ended sync.WaitGroup
	for i, name := range names {
		ended.Go(func() {
			p := piped(name, "IN", "new."+name, "reduced.a")
			p.Dead = "dead.a"
			if _, err := Setup(t.Context(), processes[i], []spec.Pipeline{p}, true); err != nil {
				t.Error(err)
			}
		})
	}
	ended.Wait()
	s, err := js.Stream(t.Context(), "IN")
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(slices.Values(s.CachedInfo().Config.Subjects)); fmt.Sprint(got) !=
		"[new.a new.b new.c new.d]" {
		t.Errorf("the stream takes %v", got)
	}
}

// TestSetupLimits: what is made has the limits of the configuration, and the model store is made too.
func TestSetupLimits(t *testing.T) {
	s := natstest.New(t)
	one := piped("a", "IN", "new.a", "reduced.a")
	one.Models = spec.Models{}
	limits := Streams{MaxBytes: 5 << 20, MaxAge: 3e12, Duplicates: 6e10, Replicas: 1}
	plans, err := limits.Setup(t.Context(), s.JS, []spec.Pipeline{one}, true)
	buckets := bucketsOf([]spec.Pipeline{one})
	if err != nil || len(plans) != 3+len(buckets) || !plans[3].Bucket || !plans[3].Exists ||
		plans[3].Name != "EMBEDD_MODELS" {
		t.Fatalf("%+v %v", plans, err)
	}
	have, err := s.JS.Stream(t.Context(), "IN")
	if err != nil {
		t.Fatal(err)
	}
	c := have.CachedInfo().Config
	if c.MaxBytes != limits.MaxBytes || c.MaxAge != limits.MaxAge || c.Duplicates != limits.Duplicates || c.Replicas != 1 {
		t.Errorf("%+v", c)
	}
	for _, bucket := range buckets {
		for _, name := range bucket.Streams {
			if _, err := s.JS.Stream(t.Context(), name); err != nil {
				t.Errorf("%s: %v", bucket.Name, err)
			}
		}
	}
	// Three replicas without a cluster are the server's to refuse.
	limits.Replicas = 3
	two := piped("b", "IN2", "other.b", "reduced.a")
	if _, err := limits.Setup(t.Context(), s.JS, []spec.Pipeline{two}, true); err == nil || !strings.Contains(err.Error(),
		"replicas") {
		t.Errorf("three replicas on one server: %v", err)
	}
}

// TestWithoutServer: what needs a server is an error without one, not a panic.
func TestWithoutServer(t *testing.T) {
	p := piped("p", "in", "in.x", "out.x")
	p.Models = spec.Models{}
	for what, call := range map[string]func() error{
		"setup":                func() error { _, err := Setup(t.Context(), nil, []spec.Pipeline{p}, true); return err },
		"reading the schema":   func() error { _, err := ReadSchema(t.Context(), nil, p); return err },
		"resetting the schema": func() error { _, err := PlanSchemaReset(t.Context(), nil, p); return err },
		"applying a schema reset": func() error {
			_, err := (&SchemaReset{Pipeline: p}).Apply(t.Context(), nil)
			return err
		},
		"resetting the model":      func() error { _, err := PlanModelReset(t.Context(), nil, p); return err },
		"applying a model reset":   func() error { return (&ModelReset{Pipeline: p}).Apply(t.Context(), nil) },
		"comparing configurations": func() error { _, err := CompareConfiguration(t.Context(), nil, p); return err },
	} {
		if err := call(); !errors.Is(err, spec.ErrNoJetStream) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Diagnose(t.Context(), Options{Pipelines: []spec.Pipeline{p}}); err == nil {
		t.Error("a diagnosis without a connection: no error")
	}
}

// TestSetupOfSummaries: the bucket of the summaries is made where blocks are summed up, not at a leaf node whose
// models come from its hub.
func TestSetupOfSummaries(t *testing.T) {
	for hub, want := range map[string]bool{"": true, "hub": false} {
		p := piped("p", "in", "in.x", "out.x")
		p.Models = spec.Models{Hub: hub}
		p.Stage.Training.Block = 100
		plans, err := Setup(t.Context(), nil, []spec.Pipeline{p}, false)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(plans, func(p Plan) bool { return p.Name == summaries.BucketName })
		if got != want {
			t.Errorf("with hub %q the bucket of the summaries is planned: %t, want %t", hub, got, want)
		}
	}
}

// TestOtherSubjects: a stream that stores answers and what others publish is reported, by setup, check and doctor.
func TestOtherSubjects(t *testing.T) {
	t.Parallel()
	p := piped("digits", "IN", "features.digits", "reduced.digits")
	for _, c := range []struct {
		subjects []string
		want     string // part of the warning; "": none
	}{
		{[]string{"reduced.digits", "dead.digits"}, ""},
		{[]string{"reduced.>"}, ""},
		{[]string{"features.>"}, ""},
		{[]string{"reduced.>", "orders.>"}, "stores reduced.digits and also orders.>"},
		{[]string{"features.*", "reduced.*", "dead.*"}, "stores reduced.digits, dead.digits and also features.digits"},
	} {
		s := natstest.New(t)
		name := "OUT"
		if strings.HasPrefix(c.subjects[0], "features.") {
			name = "IN"
		}
		s.Stream(jetstream.StreamConfig{Name: name, Subjects: c.subjects})
		plans, err := Setup(t.Context(), s.JS, []spec.Pipeline{p}, false)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, plan := range plans {
			got += plan.SubjectWarning
		}
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.subjects, got, c.want)
		}
	}
}
