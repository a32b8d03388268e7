package config

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/embedd/embedd/stream"
)

// Settings are the keys of a pipeline with their values, given or by default, in the order of the reference. None of
// them is a secret.
func (p *Pipeline) Settings() (settings []stream.Setting) {
	for _, f := range spec {
		key, ok := strings.CutPrefix(f.path, each)
		if !ok || f.secret {
			continue
		}
		target := f.target(&Config{}, p)
		if _, isSet := target.(func(string) error); isSet {
			continue // its value is in another key
		}
		settings = append(settings, stream.Setting{Key: key, Value: valueText(f, target), Effect: f.effect,
			IsLearning: isLearning(f)})
	}
	return settings
}

// isLearning reports whether only training uses a key.
func isLearning(f field) bool {
	return strings.HasPrefix(f.path, each+"training.") || strings.HasPrefix(f.path, each+"model.") && f.path != each+
		"model.file"
}

// maxValue is the maximum number of bytes of a value's text; of a longer one a digest shows whether it has changed.
const maxValue = 200

func valueText(f field, target any) string {
	text := fullText(f, target)
	if len(text) > maxValue {
		text = fmt.Sprintf("%s... (SHA-256 %.8x)", strings.ToValidUTF8(text[:maxValue/2], ""), sha256.Sum256([]byte(text)))
	}
	return text
}

func fullText(f field, target any) string {
	switch t := target.(type) {
	case *string:
		return *t
	case *[]string:
		return listText(*t, nil)
	case *Schema:
		return listText(t.Features, t.Sizes)
	case *map[string]string:
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(*t)) {
			pairs = append(pairs, name+": "+(*t)[name])
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	case *stream.Stop:
		if t.Of == 0 {
			return f.unset
		}
		return fmt.Sprintf("%d of %d", t.Bad, t.Of)
	case *bool:
		return strconv.FormatBool(*t)
	case *uint64:
		return strconv.FormatUint(*t, 10)
	case *int:
		return numberText(f, float64(*t), strconv.Itoa(*t))
	case *int64:
		return numberText(f, float64(*t), sizeText(float64(*t)))
	case *float64:
		if len(f.words) > 0 && math.IsInf(*t, 1) {
			return f.words[0]
		}
		return numberText(f, *t, strconv.FormatFloat(*t, 'g', -1, 64))
	case *time.Duration:
		return numberText(f, t.Seconds(), t.String())
	}
	panic(fmt.Sprintf("config: no text for a %T", target)) // a test formats every value
}

// numberText is the text of a number, or the word for none.
func numberText(f field, number float64, text string) string {
	if number == 0 {
		return cmp.Or(f.unset, text)
	}
	return text
}

// listText is a list as in a file.
func listText(names []string, sizes map[string]int) string {
	entries := make([]string, len(names))
	for i, name := range names {
		if entries[i] = name; sizes[name] > 0 {
			entries[i] = fmt.Sprintf("{column: %s, size: %d}", name, sizes[name])
		}
	}
	return "[" + strings.Join(entries, ", ") + "]"
}

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
