package config

import (
	"reflect"
	"slices"
	"testing"
)

// TestChanges: what differs between two files is found, the keys that can change while a daemon runs are applied, and
// the rest stays as it runs.
func TestChanges(t *testing.T) {
	read := func(text string) *Config {
		c, err := Parse("embedd.yaml", []byte(text), none)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	pipeline := func(name, input, more string) string {
		return "  " + name + ": {input: {" + input + "subject: " + name + ".in}, schema: {features: [x], label: y}, " +
			"output: {subject: " + name + ".out, dead: " + name + ".dead}" + more + "}\n"
	}
	before := "pipelines:\n" + pipeline("a", "stream: S, ", "") + pipeline("core", "", "")
	const more = ", limits: {bad: 5 of 10}, model: {dim: 3}, training: {gate: {more_rows: never}}"
	now := read(before)
	next := read("daemon: {log_level: warn}\nnats: {lease: 5s}\npipelines:\n" + pipeline("a", "stream: S, ", more) +
		pipeline("core", "", more) + pipeline("b", "stream: S, ", ""))
	var got []string
	for _, c := range Changes(now, next) {
		key := c.Key
		if c.Reloads {
			key += " reloads"
		}
		got = append(got, key)
	}
	want := []string{"daemon.log_level reloads", "nats.lease", "pipelines.a.model.dim",
		"pipelines.a.training.gate.more_rows reloads", "pipelines.a.limits.bad reloads", "pipelines.core.model.dim",
		"pipelines.core.training.gate.more_rows", "pipelines.core.limits.bad", "pipelines.b"}
	if !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
	applied, names := Apply(now, next)
	if !slices.Equal(names, []string{"a"}) {
		t.Errorf("pipelines %q change", names)
	}
	for _, c := range Changes(applied, next) {
		if c.Reloads {
			t.Errorf("%s was not applied", c.Key)
		}
	}
	if !reflect.DeepEqual(now.Pipelines, read(before).Pipelines) {
		t.Error("the configuration that runs was changed")
	}
}

// TestReloadedKeysAreValues: a key that can change while a daemon runs has a value that can be compared and copied.
func TestReloadedKeysAreValues(t *testing.T) {
	for _, f := range spec {
		if f.reload && reflect.ValueOf(f.target(&Config{}, &Pipeline{})).Kind() != reflect.Pointer {
			t.Errorf("%s is not a value", f.path)
		}
	}
}
