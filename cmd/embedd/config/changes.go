package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Change is a key whose value differs between two configurations, or a pipeline that only one of them has.
type Change struct {
	Key     string `json:"key"` // such as pipelines.digits.training.gate.evidence
	Reloads bool   `json:"-"`   // a running daemon can apply it
}

// Changes lists what differs between the configuration that runs and the next one, in the order of the table of keys.
// No change of a pipeline without an input stream can be applied while it runs, because core NATS stores no messages
// meanwhile.
func Changes(now, next *Config) (changes []Change) {
	for _, f := range spec {
		if !strings.HasPrefix(f.path, each) && !f.equal(now, next, nil, nil) {
			changes = append(changes, Change{f.path, f.reload})
		}
	}
	before := byName(now)
	for i := range next.Pipelines {
		p := &next.Pipelines[i]
		old := before[p.Name]
		if delete(before, p.Name); old == nil {
			changes = append(changes, Change{Key: "pipelines." + p.Name})
			continue
		}
		for _, f := range spec {
			if strings.HasPrefix(f.path, each) && !f.equal(now, next, old, p) {
				changes = append(changes, Change{actual(f.path, p.Name), f.reload && old.Input.Stream != ""})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		changes = append(changes, Change{Key: "pipelines." + name})
	}
	return changes
}

// Apply returns the configuration that runs with what the next one changes and a running daemon can apply. names are
// the pipelines that change.
func Apply(now, next *Config) (applied *Config, names []string) {
	c := *now
	c.Pipelines = slices.Clone(now.Pipelines)
	running, wanted := byName(&c), byName(next)
	for _, change := range Changes(now, next) {
		if !change.Reloads {
			continue
		}
		if f, ok := lookup(change.Key); ok {
			f.copy(&c, next, nil, nil)
		}
		for name, p := range running {
			if rest, ok := strings.CutPrefix(change.Key, "pipelines."+name+"."); ok {
				f, _ := lookup(each + rest)
				f.copy(&c, next, p, wanted[name])
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return &c, slices.Compact(names)
}

func byName(c *Config) map[string]*Pipeline {
	pipelines := map[string]*Pipeline{}
	for i := range c.Pipelines {
		pipelines[c.Pipelines[i].Name] = &c.Pipelines[i]
	}
	return pipelines
}

// equal reports whether a key has the same value in two configurations. A key whose target is a function stores its
// value under another key, which is compared.
func (f field) equal(a, b *Config, p, q *Pipeline) bool {
	x, y := reflect.ValueOf(f.target(a, p)), reflect.ValueOf(f.target(b, q))
	return x.Kind() != reflect.Pointer || reflect.DeepEqual(x.Elem().Interface(), y.Elem().Interface())
}

// copy sets the value of a key in one configuration to that in another.
func (f field) copy(to, from *Config, p, q *Pipeline) {
	reflect.ValueOf(f.target(to, p)).Elem().Set(reflect.ValueOf(f.target(from, q)).Elem())
}
