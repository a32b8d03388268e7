package config

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/bound"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/registry"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

func none(string) (string, bool) { return "", false }

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// The form that the documentation shows.
const full = `nats:     {url: nats://127.0.0.1:4222, tls: {first: true}, wait: 1m}
http:     {listen: 127.0.0.1:8474}
pipelines:
  digits:
    input:    {stream: FEATURES, subject: features.digits, labels: labels.digits}
    schema:   {features: [pixels], label: label, key: id, nulls: reject}
    output:   {subject: reduced.digits, column: embedding, keep: all, dead: dead.digits}
    model:    {method: lda, dim: 8, scale: standard, ridge: auto}
    training: {window: {rows: 20000, bytes: 1GiB, age: 24h, balance: class},
               every: {rows: 5000, period: 10m, drift: true}, holdout: 0.2,
               gate: {evidence: 1000, margin: 0.0}, align: rigid, until_ready: hold}
    limits:   {message: 8MiB, rows: 100k, in_flight: 256MiB}
`

func TestFull(t *testing.T) {
	c, err := Parse("embedd.yaml", []byte(full), none)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Pipelines[0]
	want := Pipeline{
		Name:  "digits",
		Input: Input{Stream: "FEATURES", Subject: "features.digits", Labels: "labels.digits", Attempts: 5},
		Schema: Schema{arrowio.Spec{Features: []string{"pixels"}, Label: "label", Key: "id", Format: "arrow",
			Limits: arrowio.Limits{Rows: 100_000, Features: 10_000}}, "reject"},
		Output: Output{arrowio.Output{Column: "embedding", Keep: []string{"all"}, Compression: "none", Format: "arrow"},
			"reduced.digits", "dead.digits"},
		Model: Model{Config: fit.Config{Method: "lda", Blend: 1, Dim: 8, Scale: "standard", Landmarks: 300, Width: 1,
			Params: map[string]string{"ridge": "auto"}, Seed: 1}, Features: "linear",
			Store: "auto", Keep: registry.Keep{Versions: 20, Age: 90 * 24 * time.Hour}, Damaged: "previous"},
		Training: Training{Training: plugin.Training{
			Window: plugin.Window{Rows: 20000, Bytes: 1 << 30, Age: 24 * time.Hour, Balance: "class"},
			Quota:  plugin.Quota{By: "none", Share: 0.5}, Every: plugin.Every{Rows: 5000, Period: 10 * time.Minute},
			Holdout: 0.2, Gate: plugin.Gate{Evidence: 1000}, Align: "rigid"},
			Drift: "true", First: "always", UntilReady: "hold", WhenStale: "serve"},
		Limits: Limits{8 << 20, 64 << 20, 256 << 20, 1000, 256 << 20, 256 << 20, 24 * time.Hour, stream.Stop{}},
	}
	if got, want := fmt.Sprintf("%+v", p), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c.NATS.Wait != time.Minute || !c.NATS.TLS.First || c.NATS.Embedded() || c.HTTP.Listen != "127.0.0.1:8474" {
		t.Errorf("nats and http: %+v %+v", c.NATS, c.HTTP)
	}
}

// TestBad: the threshold is two counts.
func TestBad(t *testing.T) {
	for value, want := range map[string][2]int{"50 of 100": {50, 100}, "1 of 1": {1, 1}, "1k of 2k": {1000, 2000},
		"none": {0, 0}, "100 of 50": {-1}, "0 of 5": {-1}, "50": {-1}, "50%": {-1}, "5 of 2M": {-1}, "-1 of 5": {-1}} {
		c, err := Parse("embedd.yaml", []byte("pipelines: {p: {schema: {features: x}, limits: {bad: "+value+"}}}\n"), none)
		switch {
		case want[0] < 0:
			if err == nil || !strings.Contains(err.Error(), "as 50 of 100") {
				t.Errorf("%s: %v", value, err)
			}
		case err != nil:
			t.Errorf("%s: %v", value, err)
		case c.Pipelines[0].Limits.Bad != (stream.Stop{Bad: want[0], Of: want[1]}):
			t.Errorf("%s: %+v", value, c.Pipelines[0].Limits)
		}
	}
}

// A file with only the required keys has every default of the table.
func TestDefaults(t *testing.T) {
	c, err := Parse("embedd.yaml", []byte("pipelines: {p-1: {schema: {features: 'x*'}}}\n"), none)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%+v", c.Pipelines[0])
	want := fmt.Sprintf("%+v", Pipeline{
		Name:  "p-1",
		Input: Input{Subject: "features.p-1", Attempts: 5},
		Schema: Schema{arrowio.Spec{Features: []string{"x*"}, Label: "label", Format: "arrow",
			Limits: arrowio.Limits{Rows: 100_000, Features: 10_000}}, "auto"},
		Output: Output{arrowio.Output{Column: "embedding", Keep: []string{"all"}, Compression: "none", Format: "arrow"},
			"reduced.p-1", "dead.p-1"},
		Model: Model{Config: fit.Config{Method: "auto", Blend: 1, Scale: "standard", Landmarks: 300, Width: 1, Seed: 1},
			Features: "linear", Store: "auto", Keep: registry.Keep{Versions: 20, Age: 90 * 24 * time.Hour},
			Damaged: "previous"},
		Training: Training{Training: plugin.Training{
			Window: plugin.Window{Rows: 20000, Bytes: 1 << 30, Age: 0, Balance: "class"},
			Quota:  plugin.Quota{By: "none", Share: 0.5}, Every: plugin.Every{Rows: 5000, Period: 10 * time.Minute},
			Holdout: 0.2, Gate: plugin.Gate{Evidence: 1000}, Align: "rigid"},
			Drift: "true", First: "always", UntilReady: "hold", WhenStale: "serve"},
		Limits: Limits{8 << 20, 64 << 20, 256 << 20, 1000, 256 << 20, 256 << 20, 24 * time.Hour, stream.Stop{}},
	})
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !c.NATS.Embedded() || c.NATS.Wait != 30*time.Second || c.NATS.AckWait != 10*time.Second {
		t.Errorf("nats: %+v", c.NATS)
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0].Message, "core NATS, at most once") {
		t.Errorf("notes: %v", c.Notes)
	}
}

// Every default of the table must be a valid value.
func TestDefaultsAreAllowed(t *testing.T) {
	for _, f := range spec {
		if f.value == "" {
			continue
		}
		if err := f.set(f.target(&Config{}, &Pipeline{}), f.value); err != nil {
			t.Errorf("%s: default %s: %v", f.path, f.value, err)
		}
	}
}

// pipeline is a file with one pipeline p; its lines begin in line 3, column 5.
func pipeline(lines ...string) string {
	return "pipelines:\n  p:\n    " + strings.Join(lines, "\n    ") + "\n"
}

const features = "schema: {features: [x]}"

func TestProblems(t *testing.T) {
	type bad struct {
		name, file string
		want       []string // LINE:COLUMN: MESSAGE, all of them
	}
	for _, b := range []bad{
		{"empty", "", []string{"1:1: the file is empty: `embedd init` writes a starter file"}},
		{"only a comment", "# nothing\n", []string{"1:1: the file is empty: `embedd init` writes a starter file"}},
		{"no pipeline", "http: {listen: 'localhost:0'}\n",
			[]string{"1:1: pipelines: no pipeline: add one, or start from `embedd init`"}},
		{"pipelines null", "pipelines:\n", []string{"1:11: pipelines: no pipeline: add one, or start from `embedd init`"}},
		{"not a mapping", "- a\n", []string{"1:1: the file must be a mapping (key: value), not a list"}},
		{"syntax", "pipelines:\n  p: [\n", []string{"2:3: not valid YAML: did not find expected node content"}},
		{"tab", "pipelines:\n\tp: 1\n", []string{"2:2: not valid YAML: found character that cannot start any " +
			"token: indent with spaces, not tabs"}},
		{"two documents", "pipelines: {p: {schema: {features: x}}}\n---\na: 1\n",
			[]string{"2:1: a second YAML document begins here: one file is one configuration"}},
		{"unknown key near", pipeline(features, "model: {dimm: 8}"),
			[]string{`4:13: pipelines.p.model: unknown key "dimm": did you mean "dim"?`}},
		{"unknown key at top", "pipelin: {}\n", []string{`1:1: unknown key "pipelin": did you mean "pipelines"?`}},
		{"key in the wrong section", pipeline(features, "until_ready: hold"), []string{
			`4:5: pipelines.p: unknown key "until_ready": it belongs to pipelines.NAME.training.until_ready; ` +
				`allowed are input, schema, output, model, training, limits`}},
		{"unknown key far", pipeline(features, "zzzzzzzzzz: 1"), []string{
			`4:5: pipelines.p: unknown key "zzzzzzzzzz": allowed are input, schema, output, model, training, limits`}},
		{"given twice", pipeline(features, "model:", "  dim: 2", "  dim: 3"),
			[]string{"6:7: pipelines.p.model.dim: set twice: the first is in line 5; keep one"}},
		{"pipeline twice", "pipelines:\n  p: {schema: {features: x}}\n  p: {}\n",
			[]string{"3:3: pipelines.p: set twice: the first is in line 2; keep one"}},
		{"pipeline name", "pipelines:\n  a.b: {}\n",
			[]string{`2:3: pipelines.a.b: a pipeline's name has 1 to 64 letters, digits, ` +
				`- and _: "a.b" is part of consumer and bucket names`}},
		{"required", "pipelines:\n  p:\n    model: {dim: 2}\n", []string{
			"2:3: pipelines.p.schema.features: missing: set it, such as [pixels]; Feature columns: names, globs, or " +
				"{column: NAME, size: N} to fix the number of elements; see wire.md. One fixed-size list of floats is the " +
				"fastest form."}},
		{"several at once", pipeline("schema: {features: [x], nulls: drop}", "model: {dim: -1, sale: none}",
			"limits: {message: 8 apples}"), []string{
			`3:36: pipelines.p.schema.nulls: "drop": want auto, reject, impute or skip`,
			`4:18: pipelines.p.model.dim: "-1": want a count from 1 to 4096 (as 500, 100k, 2M) or auto`,
			`4:22: pipelines.p.model: unknown key "sale": did you mean "scale"?`,
			`5:23: pipelines.p.limits.message: "8 apples": want a size from 1KiB to 64MiB (as 512KiB, 8MiB)`}},
		{"in a value and between values at once",
			pipeline(features, "model: {dim: 0}", "limits: {message: 0, in_flight: 2KiB}",
				"output: {subject: features.p}"), []string{
				`4:18: pipelines.p.model.dim: "0": want a count from 1 to 4096 (as 500, 100k, 2M) or auto`,
				`5:23: pipelines.p.limits.message: "0": want a size from 1KiB to 64MiB (as 512KiB, 8MiB)`,
				"6:23: pipelines.p.output.subject: features.p matches input.subject features.p: a loop; choose a subject " +
					"outside of it"}},
		{"dim zero", pipeline(features, "model:", "  dim: 0"),
			[]string{`5:12: pipelines.p.model.dim: "0": want a count from 1 to 4096 (as 500, 100k, 2M) or auto`}},
		{"dim a fraction", pipeline(features, "model:", "  dim: 2.5"),
			[]string{`5:12: pipelines.p.model.dim: "2.5": want a count from 1 to 4096 (as 500, 100k, 2M) or auto`}},
		{"word near", pipeline(features, "training: {until_ready: holt}"),
			[]string{`4:29: pipelines.p.training.until_ready: "holt": want hold, pca or skip (did you mean "hold"?)`}},
		{"holdout", pipeline(features, "training: {holdout: 0}"),
			[]string{`4:25: pipelines.p.training.holdout: "0": want a number from 0.01 to 0.5`}},
		{"not a number", pipeline(features, "training: {holdout: .nan}"),
			[]string{`4:25: pipelines.p.training.holdout: ".nan": want a number from 0.01 to 0.5`}},
		{"duration", pipeline(features, "training: {every: {period: 10}}"), []string{
			`4:32: pipelines.p.training.every.period: "10": want a duration from 1s to 365d (as 30s, 10m, 24h, 7d) or none`}},
		{"huge size", pipeline(features, "limits: {in_flight: 99999999999TiB}"), []string{
			`4:25: pipelines.p.limits.in_flight: "99999999999TiB": want a size from 1KiB to 1024GiB (as 512KiB, 8MiB)`}},
		{"boolean", pipeline(features, "output: {columns: yes}"),
			[]string{`4:23: pipelines.p.output.columns: "yes": want true or false`}},
		{"mapping for a value", pipeline(features, "model: {dim: {a: 1}}"), []string{
			"4:18: pipelines.p.model.dim: want a count from 1 to 4096 (as 500, 100k, 2M) or auto, not a mapping"}},
		{"value for a mapping", pipeline(features, "model: lda"),
			[]string{"4:12: pipelines.p.model: want a mapping (key: value), not a single value"}},
		{"no value", pipeline(features, "model:", "  dim:"), []string{
			"5:11: pipelines.p.model.dim: the value is missing: want a count from 1 to 4096 (as 500, 100k, 2M) or auto, or " +
				"delete this line"}},
		{"empty list", pipeline("schema: {features: []}"), []string{
			"3:24: pipelines.p.schema.features: the list is empty: Feature columns: names, globs, or {column: NAME, size: " +
				"N} to fix the number of elements; see wire.md. One fixed-size list of floats is the fastest form."}},
		{"glob", pipeline("schema: {features: [a, 'x[']}"),
			[]string{`3:28: pipelines.p.schema.features: "x[": not a valid glob: * ? and [a-z] are wildcards, ` +
				`\[ is a literal bracket`}},
		{"partitions without a key", pipeline(features, "input: {stream: S, partitions: 8}"), []string{
			"4:36: pipelines.p.input.partitions: subject features.p has no key, which is the token at a *: read " +
				"features.p.*, and publish each message with its key as the last token"}},
		{"partitions of no stream", pipeline(features, "input: {subject: 'a.*', partitions: 8}"), []string{
			"4:41: pipelines.p.input.partitions: partitions need a stream: set input.stream, or delete this line"}},
		{"partitions of tokens without end", pipeline(features, "input: {stream: S, subject: 'a.*.>', partitions: 8}"),
			[]string{
				"4:54: pipelines.p.input.partitions: subject a.*.> ends with >, and the stream cannot map a key there: " +
					"write a * for each of its tokens"}},
		{"no partition", pipeline(features, "input: {stream: S, subject: 'a.*', partitions: 0}"), []string{
			`4:52: pipelines.p.input.partitions: "0": want a count from 2 to 256 (as 500, 100k, 2M) or none`}},
		{"one partition", pipeline(features, "input: {stream: S, subject: 'a.*', partitions: 1}"), []string{
			`4:52: pipelines.p.input.partitions: "1": want a count from 2 to 256 (as 500, 100k, 2M) or none`}},
		{"many partitions", pipeline(features, "input: {stream: S, subject: 'a.*', partitions: 10000}"), []string{
			`4:52: pipelines.p.input.partitions: "10000": want a count from 2 to 256 (as 500, 100k, 2M) or none`}},
		{"labels without a key", pipeline(features, "input: {labels: labels.p}"), []string{
			"4:21: pipelines.p.input.labels: labels are joined with rows by key: set schema.key to the key column, which " +
				"rows and labels have"}},
		{"labels without a label", pipeline("schema: {features: [a], key: id, label: ''}", "input: {labels: labels.p}",
			"model: {method: pca}"), []string{
			"4:21: pipelines.p.input.labels: set schema.label to the label column"}},
		{"labels among the rows", pipeline("schema: {features: [a], key: id}",
			"input: {subject: 'a.*.b', labels: 'a.c.>'}"), []string{
			"4:39: pipelines.p.input.labels: input.subject a.*.b matches it too: labels would be read as rows; give them a " +
				"subject outside of it"}},
		{"labels among the dead letters", pipeline("schema: {features: [a], key: id}", "input: {labels: 'dead.*'}"),
			[]string{"4:21: pipelines.p.input.labels: pipeline p writes to dead.p (output.dead), which would be read as " +
				"labels; give labels a separate subject"}},
		{"labels for a fixed model", pipeline("schema: {features: [a], key: id}", "input: {labels: labels.p}",
			"model: {file: m.embedd}"), []string{
			"4:21: pipelines.p.input.labels: has no effect with a fixed model: delete it, or delete model.file"}},
		{"drift", pipeline(features, "training: {every: {drift: maybe}}"), []string{
			`4:31: pipelines.p.training.every.drift: "maybe": want true or false`}},
		{"landmarks without labels", pipeline("schema: {features: [x], label: ''}",
			"model: {method: pca, features: nystroem}"), []string{
			`4:36: pipelines.p.model.features: nystroem needs labels: name the label column in schema.label, or use linear`}},
		{"landmarks of another map", pipeline(features, "model: {method: isomap, features: nystroem}"), []string{
			`4:39: pipelines.p.model.features: the map of isomap is extension already: nystroem is for linear methods, ` +
				`such as lda, pairacc or tnca`}},
		{"another word of features", pipeline(features, "model: {features: rbf}"), []string{
			`4:23: pipelines.p.model.features: "rbf": want linear or nystroem`}},
		{"blocks without a stream", pipeline(features, "training: {block: 64}"), []string{
			`4:23: pipelines.p.training.block: needs input.stream: a block is a range of its messages`}},
		{"blocks of what needs every row", pipeline("input: {stream: S}", features, "model: {scale: unit}",
			"training: {block: 64}"), []string{
			`6:23: pipelines.p.training.block: needs model.scale standard or none: the others need rows`}},
		{"quota by a key that is not named", pipeline(features, "training: {quota: {by: key}}"), []string{
			`4:28: pipelines.p.training.quota.by: a quota by key needs the key column: set schema.key, or use subject`}},
		{"model age", pipeline(features, "training: {max_age: 6 hours, when_stale: help}"), []string{
			`4:25: pipelines.p.training.max_age: "6 hours": want a duration from 1s to 365d (as 30s, 10m, 24h, 7d) or none`,
			`4:46: pipelines.p.training.when_stale: "help": want serve, hold or pass (did you mean "hold"?)`}},
		{"wildcard out", pipeline(features, "output: {subject: reduced.*}"),
			[]string{`4:23: pipelines.p.output.subject: "reduced.*": a subject to publish to has no wildcard`}},
		{"wildcard inside", pipeline(features, "input: {subject: 'a.b*'}"),
			[]string{`4:22: pipelines.p.input.subject: "a.b*": a wildcard is a whole token: "b*" has one inside`}},
		{"wildcard in the middle", pipeline(features, "input: {subject: 'a.>.b'}"),
			[]string{`4:22: pipelines.p.input.subject: "a.>.b": the wildcard > is allowed only at the end`}},
		{"everything", pipeline(features, "input: {subject: '>'}"),
			[]string{`4:22: pipelines.p.input.subject: ">": > would match the output too: name the subject`}},
		{"empty token", pipeline(features, "input: {subject: a..b}"),
			[]string{`4:22: pipelines.p.input.subject: "a..b": a subject has no empty token: check the dots`}},
		{"reserved", pipeline(features, "input: {subject: $JS.API}"),
			[]string{`4:22: pipelines.p.input.subject: "$JS.API": subjects that begin with $ or _INBOX belong to the server`}},
		{"stream name", pipeline(features, "input: {stream: A.B}"), []string{
			`4:21: pipelines.p.input.stream: "A.B": a stream's name has no spaces and none of . * > / \; ` +
				`without a stream delete this line`}},
		{"domain name", pipeline(features) + "nats: {hub: a b}\n", []string{
			`4:13: nats.hub: "a b": a JetStream domain has no spaces and none of . * > / \; without domains delete this line`}},
		{"edges without summaries", pipeline(features) + "nats: {edges: berlin}\n", []string{
			`4:15: nats.edges: no pipeline trains on summaries: set training.block, here and at the hub, or delete this line`}},
		{"an edge that is there twice", pipeline("input: {stream: S}", features, "training: {block: 64}") +
			"nats: {edges: [a, a]}\n", []string{`6:15: nats.edges: a is listed twice; keep one`}},
		{"an edge that is the hub", pipeline("input: {stream: S}", features, "training: {block: 64}") +
			"nats: {hub: h, edges: h}\n", []string{
			`6:23: nats.edges: h is the hub (nats.hub); name the domains of its leaf nodes`}},
		{"name of an edge", pipeline("input: {stream: S}", features, "training: {block: 64}") + "nats: {edges: [a.b]}\n",
			[]string{
				`6:16: nats.edges: "a.b": a JetStream domain has no spaces and none of . * > / \; ` +
					`without domains delete this line`}},
		{"own loop", pipeline(features, "input: {subject: a.b}", "output: {subject: a.b}"), []string{
			"5:23: pipelines.p.output.subject: a.b matches input.subject a.b: a loop; choose a subject outside of it"}},
		{"loop by wildcard", pipeline(features, "input: {subject: 'dead.>'}"), []string{
			"2:3: pipelines.p.output.subject: dead.p matches input.subject dead.>: a loop; choose a subject outside of it"}},
		{"loop of two", "pipelines:\n  a: {schema: {features: x}, input: {subject: s}, output: {subject: t}}\n  b: " +
			"{schema: {features: x}, input: {subject: t}, output: {subject: s}}\n", []string{
			"2:69: pipelines.a.output.subject: the pipelines a -> b -> a are a loop: change a subject"}},
		{"one output for two", "pipelines:\n  a: {schema: {features: x}, output: {subject: t}}\n  b: {schema: {features: " +
			"x}, output: {subject: t}}\n", []string{
			"3:48: pipelines.b.output.subject: pipeline a writes to t too: their coordinates differ, so give each a " +
				"separate subject"}},
		{"reserved output", pipeline(features, "output: {subject: embedd.p.status}"), []string{
			"4:23: pipelines.p.output.subject: embedd.p.status: pipelines answer requests on subjects that begin with " +
				"embedd.; choose another"}},
		{"dead is out", pipeline(features, "output: {dead: reduced.p}"), []string{
			"4:20: pipelines.p.output.dead: the same subject as output.subject: readers could not distinguish outputs and " +
				"dead letters"}},
		{"keep", pipeline(features, "output: {keep: [id, all]}"),
			[]string{"4:20: pipelines.p.output.keep: all and none exclude other entries"}},
		{"label is a feature", pipeline("schema: {features: [x, label]}"), []string{
			`3:24: pipelines.p.schema.features: column "label" is the label too: remove the label from the list`}},
		{"sizes", pipeline("schema: {features: [x, {column: y}, {size: 3}, {column: z, size: 0}, {column: z, size: 3, " +
			"of: 2}, {column: [a], size: 1}]}"), []string{
			"3:28: pipelines.p.schema.features: want {column: NAME, size: N}, with N from 1 to 65536",
			"3:41: pipelines.p.schema.features: want {column: NAME, size: N}, with N from 1 to 65536",
			`3:64: pipelines.p.schema.features: size: "0": want {column: NAME, size: N}, with N from 1 to 65536`,
			`3:95: pipelines.p.schema.features: of: "2": want {column: NAME, size: N}, with N from 1 to 65536`,
			"3:112: pipelines.p.schema.features: want text, not a list"}},
		{"sizes of one column", pipeline("schema: {features: [{column: x, size: 3}, {column: x, size: 4}]}"), []string{
			`3:47: pipelines.p.schema.features: column "x" is given twice; keep one`}},
		{"a size and none", pipeline("schema: {features: [x, {column: x, size: 4}]}"), []string{
			`3:24: pipelines.p.schema.features: column "x" is given twice; keep the one with the size`}},
		{"more than the limit", pipeline("schema: {features: {column: x, size: 20k}}"), []string{
			"3:24: pipelines.p.schema.features: the sizes add up to 20000 elements, and limits.features is 10000; raise it"}},
		{"a size in another list", pipeline(features, "output: {keep: [{column: x, size: 4}]}"), []string{
			"4:21: pipelines.p.output.keep: want a name or a list of names, not a mapping"}},
		{"label is key", pipeline("schema: {features: x, key: label}"), []string{
			`3:32: pipelines.p.schema.key: column "label" is the label too: a key identifies a row, a label its class`}},
		{"in flight", pipeline(features, "limits: {in_flight: 4MiB}"), []string{
			"4:25: pipelines.p.limits.in_flight: 4MiB is less than one message (limits.message is 8MiB)"}},
		{"unknown method", pipeline(features, "model: {method: ldaa}"),
			[]string{`4:21: pipelines.p.model.method: ` + lookupError("ldaa")}},
		{"unknown parameter", pipeline(features, "model: {method: lda, params: {k: 5}}"), []string{
			`4:38: pipelines.p.model.params.k: ` + paramError("lda", "k", "5")}},
		{"blend of nothing", pipeline(features, "model: {method: blend}"), []string{
			"4:5: pipelines.p.model: method blend needs the parameter members, for example lda/standard/2,pca/standard/8"}},
		{"blend of what is no method", pipeline(features, "model: {method: blend, params: {members: "+
			"'lda/standard/2,nca/none/2'}}"), []string{
			`4:46: pipelines.p.model.params.members: ` + paramError("blend", "members", "lda/standard/2,nca/none/2")}},
		{"wrong ridge", pipeline(features, "model: {method: lda, ridge: much}"), []string{
			`4:33: pipelines.p.model.ridge: ` + paramError("lda", "ridge", "much")}},
		{"supervised without label", pipeline("schema: {features: x, label: ''}", "model: {method: lda}"), []string{
			"3:34: pipelines.p.schema.label: method lda needs labels: set the label column, or use method pca"}},
		{"file and method", pipeline(features, "model: {file: m.embedd, method: lda}", "training: {holdout: 0.1}"),
			[]string{
				"4:37: pipelines.p.model.method: has no effect with a fixed model: delete it, or delete model.file",
				"5:25: pipelines.p.training.holdout: has no effect with a fixed model: delete it, or delete model.file"}},
		{"ridge twice", pipeline(features, "model: {ridge: 0.1, params: {ridge: auto}}"), []string{
			"4:34: pipelines.p.model.params.ridge: set twice: under model and under model.params; keep one"}},
		{"ridge twice, other order", pipeline(features, "model: {params: {ridge: auto}, ridge: 0.1}"), []string{
			`4:43: pipelines.p.model.ridge: "0.1": also set under model.params; keep one`}},
		{"url and context", "nats: {url: localhost, context: prod}\n" + pipeline(features), []string{
			"1:33: nats.context: url and context exclude each other: the context has its own URL; delete one"}},
		{"certificate without key", "nats:\n  tls: {cert: a.pem}\n" + pipeline(features),
			[]string{"2:3: nats.tls: cert and key belong together: set both or none"}},
		{"listen", "http: {listen: 8474}\n" + pipeline(features), []string{
			`1:16: http.listen: "8474": want HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8474`}},
		{"unset variable", pipeline("schema: {features: '${COLUMN}'}"), []string{
			"3:24: pipelines.p.schema.features: the environment variable COLUMN is not set: set it, or write " +
				"${COLUMN:-default}"}},
		{"broken variable", pipeline(features, "model: {method: '${1}'}"), []string{
			"4:21: pipelines.p.model.method: a variable is written ${NAME} or ${NAME:-default}; a literal ${ is written $${"}},
		{"private use", "a: \ue001\n", []string{"1:1: the file has private-use characters (U+E000 to U+E07F): delete them"}},
		{"not text", "a: \xff\n", []string{"1:1: the file is not UTF-8 text"}},
	} {
		t.Run(b.name, func(t *testing.T) {
			_, err := Parse("embedd.yaml", []byte(b.file), none)
			want := "embedd.yaml:" + strings.Join(b.want, "\nembedd.yaml:")
			if got := fmt.Sprint(err); got != want {
				t.Errorf("in\n%s\ngot  %s\nwant %s", b.file, got, want)
			}
			var ps Problems
			if !errors.As(err, &ps) {
				t.Errorf("the error is %T, not Problems", err)
			}
		})
	}
}

// What a method reports of itself is worded in model.
func lookupError(method string) string {
	_, err := fit.Lookup(method)
	return err.Error()
}

func paramError(method, name, value string) string {
	return fit.Config{Method: method, Params: map[string]string{name: value}}.Validate().Error()
}

func TestVariables(t *testing.T) {
	env := environment("URL", "nats://u:secret@host:4222", "ROWS", "2k", "EMPTY", "", "YAML", "a, b: [c")
	c, err := Parse("embedd.yaml", []byte(`nats: {url: ${URL}}
http: {listen: ${EMPTY:-127.0.0.1:1}}
pipelines:
  p:
    input: {stream: ${NOT_SET:-}}
    schema: {features: [x], label: ${YAML}, key: "$${ROWS}${ROWS}"}
    training:
      window: {rows: ${ROWS}}
      every:
        rows: ${NOT_SET:-7} # ${NOT_SET} in a comment is nothing
`), env)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Pipelines[0]
	if c.NATS.URL != "nats://u:secret@host:4222" || c.HTTP.Listen != "127.0.0.1:1" || p.Training.Window.Rows != 2000 ||
		p.Training.Every.Rows != 7 || p.Schema.Label != "a, b: [c" || p.Schema.Key != "${ROWS}2k" ||
		p.Input.Stream != "" {
		t.Errorf("%+v", c)
	}
	if got := c.NATS.Redacted(); got != "nats://xxxxx@host:4222" {
		t.Errorf("redacted to %s", got)
	}
}

// Values of the environment and of URLs never appear in an error.
func TestSecretsStaySecret(t *testing.T) {
	env := environment("SECRET", "hunter2")
	for _, file := range []string{
		"nats: {url: 'http://user:hunter2@host'}\n",
		"nats: {url: 'nats://user:hunter2@ho st:%zz'}\n",
		"nats: {url: '${SECRET}://x'}\n",
		"nats: {wait: '${SECRET}'}\n" + pipeline(features, "model: {dim: '${SECRET}', scale: '${SECRET}'}",
			"input: {subject: '${SECRET}..'}"),
	} {
		_, err := Parse("embedd.yaml", []byte(file), env)
		if err == nil {
			t.Errorf("no problem in %s", file)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the secret is in %v", err)
		}
	}
	for in, want := range map[string]string{
		"nats://a:1":                   "nats://a:1",
		"nats://token@a:1,tls://u:p@b": "nats://xxxxx@a:1,tls://xxxxx@b",
		"u:p@a:1":                      "xxxxx@a:1",
		"nats://u:p@q@a:1":             "nats://xxxxx@a:1",
	} {
		if got := Redact(in); got != want {
			t.Errorf("Redact(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNotes(t *testing.T) {
	c, err := Parse("embedd.yaml", []byte(pipeline(features, "input: {stream: S}",
		"training: {window: {rows: 100, age: 1m}, every: {rows: 200}, block: 64}",
		"model: {landmarks: 100, width: 2, method: lda, blend: 3}")+"nats: {edges: a, edge_bytes: 64MiB}\n"), none)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"embedd.yaml:5:46: pipelines.p.training.every.period: 10m0s is more than window.age (1m0s): rows leave the " +
			"window before a fit sees them",
		"embedd.yaml:5:60: pipelines.p.training.every.rows: 200 is more than window.rows (100): rows leave the window " +
			"before a fit sees them",
		"embedd.yaml:6:24: pipelines.p.model.landmarks: has no effect without model.features nystroem",
		"embedd.yaml:6:36: pipelines.p.model.width: has no effect without model.features nystroem",
		"embedd.yaml:6:59: pipelines.p.model.blend: has no effect without model.method auto: the method is lda",
		"embedd.yaml:7:30: nats.edge_bytes: less than training.window.bytes of pipeline p (1GiB), the maximum size of a " +
			"summary: a summary larger than half of edge_bytes is not sent, and the status says so",
	}
	var got []string
	for _, n := range c.Notes {
		got = append(got, n.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestLoadChecksFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "embedd.yaml")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "embedd init -o") {
		t.Errorf("a missing file: %v", err)
	}
	missing := filepath.Join(dir, "m.embedd")
	if err := os.WriteFile(path, []byte(pipeline(features, "model: {file: "+missing+"}")), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	want := path + ":4:19: pipelines.p.model.file: open " + missing + ": no such file or directory: `embedd fit` or " +
		"`embedd model export` writes one"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := os.WriteFile(missing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err != nil {
		t.Error(err)
	}
}

// TestSizes: a feature column may have a size, in a list or alone.
func TestSizes(t *testing.T) {
	const text = `pipelines:
  a:
    input: {subject: in.a}
    schema: {features: [pixels, {column: "x[", size: 64}, {column: y, size: 1}]}
  b:
    input: {subject: in.b}
    schema: {features: {column: pixels, size: ${SIZE}}}
`
	c, err := Parse("embedd.yaml", []byte(text), environment("SIZE", "2k"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"[pixels x[ y] map[x[:64 y:1]", "[pixels] map[pixels:2000]"} {
		s := c.Pipelines[i].Schema
		if got := fmt.Sprint(s.Features, s.Sizes); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestAnchors(t *testing.T) {
	c, err := Parse("embedd.yaml", []byte(
		"pipelines:\n  a: {schema: &s {features: [x, y]}}\n  b: {schema: *s}\n"), none)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Pipelines[1].Schema.Features; len(got) != 2 {
		t.Errorf("features of b: %v", got)
	}
}

func TestStarterIsRight(t *testing.T) {
	c, err := Parse("embedd.yaml", Starter("digits", nil), none)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Notes) != 0 {
		t.Errorf("notes: %v", c.Notes)
	}
	// Without its comment signs the file is the same configuration.
	var lines []string
	for line := range strings.Lines(string(Starter("digits", nil))) {
		if rest, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(rest, " ") ||
			strings.HasPrefix(rest, "  ") {
			line = rest
		}
		lines = append(lines, line)
	}
	all, err := Parse("embedd.yaml", []byte(strings.Join(lines, "")), none)
	if err != nil {
		t.Fatal(err)
	}
	all.Pipelines[0].Model.Params = nil // given and empty
	all.places, c.places = nil, nil
	if got, want := fmt.Sprintf("%+v", all), fmt.Sprintf("%+v", c); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReferenceIsFresh(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "configuration.md")
	if *update {
		if err := os.WriteFile(path, reference(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, reference()) {
		t.Error("docs/configuration.md is stale: go test ./cmd/embedd/config -update")
	}
}

// For any bytes, Parse returns a configuration, or problems with a line and column; it does not panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add(Starter("digits", nil))
	f.Add([]byte("a: &a [*a]\n<<: *a\n"))
	f.Add([]byte("pipelines: &p {p: *p}\n"))
	f.Add([]byte("{? [a] : b, ${X}: ${Y:-{}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		bound.Check(t, 64<<20+1024*uint64(len(data)), func() { parsed(t, data) })
	})
}

// parsed checks that bytes result in a configuration, or in problems with a line and column.
func parsed(t *testing.T, data []byte) {
	c, err := Parse("f", data, environment("X", "1"))
	if err == nil {
		if len(c.Pipelines) == 0 {
			t.Fatal("passed without a pipeline")
		}
		return
	}
	var ps Problems
	if !errors.As(err, &ps) || len(ps) == 0 {
		t.Fatalf("error %T %v", err, err)
	}
	for _, p := range ps {
		if p.Line < 1 || p.Column < 1 || p.Message == "" {
			t.Fatalf("problem %+v", p)
		}
	}
}
