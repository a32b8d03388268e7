package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/embedd/embedd/internal/spell"
	"github.com/embedd/embedd/stream"
)

// value decodes a value into the target of the field.
func (d *document) value(f field, target any, path string, n *yaml.Node) {
	switch t := target.(type) {
	case *[]string:
		*t, _ = d.list(f, path, n)
	case *Schema:
		t.Features, t.Sizes = d.list(f, path, n)
	case *map[string]string:
		if *t == nil {
			*t = map[string]string{}
		}
		d.mapping(n, path, func(key, value *yaml.Node) {
			value = resolve(value)
			d.places[join(path, key.Value)] = placeOf(value)
			if s, ok := d.scalar(f, join(path, key.Value), value); ok {
				if _, twice := (*t)[key.Value]; twice {
					d.problemAt(placeOf(key), join(path, key.Value), "set twice: under model and under model.params; keep one")
				}
				(*t)[key.Value] = s
			}
		})
	default:
		s, ok := d.scalar(f, path, n)
		if !ok {
			return
		}
		if err := f.set(target, s); err != nil {
			d.problemAt(placeOf(n), path, "%s", f.explain(n, err))
			return
		}
		if f.content != nil && s != "" && d.files {
			s = d.resolvePath(path, s)
			*target.(*string) = s
			if err := f.content(s); err != nil {
				d.problemAt(placeOf(n), path, "%v", err)
			}
		}
	}
}

// list reads a list of names; a single one needs no list. The features of a schema may have sizes.
func (d *document) list(f field, path string, n *yaml.Node) (list []string, sizes map[string]int) {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	list = make([]string, 0, len(nodes))
	for _, e := range nodes {
		e = resolve(e)
		if _, ok := f.target(&Config{}, &Pipeline{}).(*Schema); ok && e.Kind == yaml.MappingNode {
			name, size := d.sized(path, e)
			switch _, twice := sizes[name]; {
			case size == 0: // the error is reported
			case twice:
				d.problemAt(placeOf(e), path, "column %q is given twice; keep one", name)
			default:
				if sizes == nil {
					sizes = map[string]int{}
				}
				list, sizes[name] = append(list, name), size
			}
			continue
		}
		s, ok := d.scalar(f, path, e)
		if !ok || s == "" && f.value == "" && !f.required && n.Kind == yaml.ScalarNode { // not set, as a single text
			continue
		}
		if f.check != nil {
			if err := f.check(s); err != nil {
				d.problemAt(placeOf(e), path, "%s", f.explain(e, err))
				continue
			}
		}
		list = append(list, s)
	}
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		d.problemAt(placeOf(n), path, "the list is empty: %s", f.doc)
	}
	return list, sizes
}

// sized reads a feature column with a size. The size is 0 where something is wrong, which it reports.
func (d *document) sized(path string, n *yaml.Node) (name string, size int) {
	const form = "want {column: NAME, size: N}, with N from 1 to 65536"
	good := true
	d.mapping(n, path, func(key, value *yaml.Node) {
		value = resolve(value)
		var err error
		switch s, ok := d.scalar(field{}, path, value); {
		case !ok:
			good = false
		case key.Value == "column" && s != "":
			name = s
		case key.Value == "size":
			var n int64
			if n, err = parseCount(s); err == nil && 1 <= n && n <= 1<<16 {
				size = int(n)
				break
			}
			fallthrough
		default:
			good = false
			d.problemAt(placeOf(key), path, "%s: %q: %s", key.Value, unmask(value.Value), form)
		}
	})
	if good && (name == "" || size == 0) {
		d.problemAt(placeOf(n), path, form)
	}
	if !good || name == "" {
		return "", 0
	}
	return name, size
}

// scalar is the text of a value with its environment variables filled in.
func (d *document) scalar(f field, path string, n *yaml.Node) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		d.problemAt(placeOf(n), path, "want %s, not %s", f.form(), kindName(n))
	case n.Tag == "!!null":
		d.problemAt(placeOf(n), path, "the value is missing: want %s, or delete this line", f.form())
	default:
		s, err := expand(unmask(n.Value), d.env)
		if err != nil {
			d.problemAt(placeOf(n), path, "%v", err)
			return "", false
		}
		return s, true
	}
	return "", false
}

// explain adds to an error the value as it is in the file, before variables are expanded, so that no value of the
// environment is printed.
func (f field) explain(n *yaml.Node, err error) string {
	if f.secret {
		return err.Error()
	}
	return fmt.Sprintf("%q: %v", unmask(n.Value), err)
}

// set parses text into the target. The error has the allowed values and does not contain the text.
func (f field) set(target any, text string) error {
	if f.unset != "" && text == f.unset {
		text = "" // not set
	}
	switch t := target.(type) {
	case *string:
		if text == "" && f.value == "" { // not set: ${NAME:-} makes a key optional
			*t = ""
			return nil
		}
		if len(f.words) > 0 && !slices.Contains(f.words, text) {
			return fmt.Errorf("want %s%s", f.form(), spell.Suggest(text, f.words))
		}
		if f.check != nil {
			if err := f.check(text); err != nil {
				return err
			}
		}
		*t = text
		return nil
	case *[]string: // a default
		*t = []string{text}
		return nil
	case *stream.Stop:
		return setStop(t, text)
	case func(string) error:
		return t(text)
	}
	if text == "" && f.unset != "" {
		reflect.ValueOf(target).Elem().SetZero()
		return nil
	}
	var (
		number float64
		err    error
	)
	switch t := target.(type) {
	case *bool:
		switch text {
		case "true", "false":
			*t = text == "true"
			return nil
		}
		err = errors.New("not a boolean")
	case *uint64:
		if *t, err = strconv.ParseUint(text, 10, 64); err == nil {
			return nil // a seed: any number will do
		}
	case *int:
		var n int64
		n, err = parseCount(text)
		*t, number = int(n), float64(n)
	case *int64:
		*t, err = parseSize(text)
		number = float64(*t)
	case *float64:
		if slices.Contains(f.words, text) { // never
			*t = math.Inf(1)
			return nil
		}
		*t, err = strconv.ParseFloat(text, 64)
		number = *t
	case *time.Duration:
		*t, err = parseDuration(text)
		number = t.Seconds()
	default:
		return fmt.Errorf("no way to read a %T", target)
	}
	if err != nil || math.IsNaN(number) || number < f.low || number > f.high {
		return fmt.Errorf("want %s", f.form())
	}
	return nil
}

// form describes the allowed values.
func (f field) form() string {
	alternative := ""
	if f.unset != "" {
		alternative = " or " + f.unset
	}
	switch f.target(&Config{}, &Pipeline{}).(type) {
	case *bool:
		return "true or false"
	case *[]string:
		return "a name or a list of names"
	case *Schema:
		return "a name, {column: NAME, size: N}, or a list of these"
	case *map[string]string:
		return "a mapping of parameters"
	case *uint64:
		return "a whole number from 0"
	case *int:
		return fmt.Sprintf("a count from %s to %s (as 500, 100k, 2M)%s", countText(f.low), countText(f.high), alternative)
	case *int64:
		return fmt.Sprintf("a size from %s to %s (as 512KiB, 8MiB)%s", sizeText(f.low), sizeText(f.high), alternative)
	case *float64:
		if len(f.words) > 0 {
			return fmt.Sprintf("a number from %g to %g%s or %s", f.low, f.high, alternative, f.words[0])
		}
		return fmt.Sprintf("a number from %g to %g%s", f.low, f.high, alternative)
	case *time.Duration:
		return fmt.Sprintf("a duration from %s to %s (as 30s, 10m, 24h, 7d)%s", durationText(f.low),
			durationText(f.high), alternative)
	default:
		if len(f.words) == 1 {
			return f.words[0]
		}
		if n := len(f.words); n > 1 {
			return strings.Join(f.words[:n-1], ", ") + " or " + f.words[n-1]
		}
		if f.content != nil {
			return "a path"
		}
		return "text"
	}
}

// units are the units of counts and sizes; longer suffixes come first.
var units = []struct {
	suffix string
	factor int64
	bytes  bool
}{
	{"KiB", 1 << 10, true}, {"MiB", 1 << 20, true}, {"GiB", 1 << 30, true}, {"TiB", 1 << 40, true},
	{"kB", 1e3, true}, {"KB", 1e3, true}, {"MB", 1e6, true}, {"GB", 1e9, true}, {"B", 1, true},
	{"k", 1e3, false}, {"M", 1e6, false}, {"G", 1e9, false},
}

func parseCount(s string) (int64, error) { return parseUnits(s, false) }

// parseSize parses a size. A plain number is in bytes; k, M and G are decimal.
func parseSize(s string) (int64, error) { return parseUnits(s, true) }

func parseUnits(s string, bytes bool) (int64, error) {
	factor := int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok && (bytes || !u.bytes) {
			s, factor = strings.TrimRight(rest, " "), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil {
		return 0, err
	}
	if n < 0 || n > math.MaxInt64/factor {
		return 0, errors.New("out of range")
	}
	return n * factor, nil
}

// parseDuration is time.ParseDuration plus whole days.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 0 || n > 100*365 {
			return 0, errors.New("not a number of days")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	if s == "0" {
		return 0, nil
	}
	return time.ParseDuration(s)
}

// unit is a unit in which a number is written.
type unit struct {
	name string
	size float64
}

// textIn formats a number in the first unit that divides it, without a unit if there is none.
func textIn(n float64, one string, units ...unit) string {
	for _, u := range units {
		if n >= u.size && math.Mod(n, u.size) == 0 {
			return fmt.Sprintf("%.0f%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f%s", n, one)
}

func countText(n float64) string {
	if n < 1e5 {
		return textIn(n, "")
	}
	return textIn(n, "", unit{"M", 1e6}, unit{"k", 1e3})
}

func sizeText(n float64) string {
	return textIn(n, "B", unit{"GiB", gib}, unit{"MiB", mib}, unit{"KiB", kib})
}

func durationText(seconds float64) string {
	return textIn(seconds, "s", unit{"d", day}, unit{"h", 3600}, unit{"m", 60})
}

// variable is ${NAME} or ${NAME:-default}; $${ is a literal ${.
var variable = regexp.MustCompile(`\$?\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}\n]*)?\}`)

// expand expands variables. An empty variable counts as not set, as with ":-" in a shell.
func expand(s string, env func(string) (string, bool)) (string, error) {
	var failed error
	out := variable.ReplaceAllStringFunc(s, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name, fallback, has := strings.Cut(m[2:len(m)-1], ":-")
		if v, ok := env(name); ok && (v != "" || !has) {
			return v
		}
		if !has && failed == nil {
			failed = fmt.Errorf("the environment variable %s is not set: set it, or write ${%s:-default}", name, name)
		}
		return fallback
	})
	if failed == nil && strings.Contains(variable.ReplaceAllString(s, ""), "${") {
		failed = errors.New("a variable is written ${NAME} or ${NAME:-default}; a literal ${ is written $${")
	}
	return out, failed
}

// The braces of ${NAME} have a meaning in YAML, so that variables would not work in {flow: mappings}. They are passed
// to the YAML parser as private-use characters, one for one, which keeps lines and columns.
const maskBase = 0xE000

func masked(r rune) bool { return r >= maskBase && r < maskBase+0x80 }

func mask(data []byte) []byte {
	return variable.ReplaceAllFunc(data, func(m []byte) []byte {
		out := make([]byte, 0, 3*len(m))
		for _, r := range string(m) {
			if r != '$' && r < 0x80 && strings.ContainsRune("{}[],:#&*!|>%@` ", r) {
				r += maskBase
			}
			out = utf8.AppendRune(out, r)
		}
		return out
	})
}

func unmask(s string) string {
	return strings.Map(func(r rune) rune {
		if masked(r) {
			return r - maskBase
		}
		return r
	}, s)
}
