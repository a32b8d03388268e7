package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/embedd/embedd/internal/spell"
)

// document is a file that is decoded into a Config.
type document struct {
	file     string
	env      func(string) (string, bool)
	files    bool // read the files that it names
	problems []Problem
	notes    []Problem
	places   places
}

type place struct{ line, column int }

// places are the positions of the keys, sections and pipelines in the file, by path.
type places map[string]place

func placeOf(n *yaml.Node) place { return place{max(n.Line, 1), max(n.Column, 1)} }

func (d *document) problemAt(at place, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{d.file, at.line, at.column, path, fmt.Sprintf(format, args...)})
}

// problem reports a problem at path or, if the file does not have it, at the nearest section around it. It ignores a
// key that has a problem already: its value is not the one that the user meant.
func (d *document) problem(path, format string, args ...any) {
	if slices.ContainsFunc(d.problems, func(p Problem) bool { return p.Key == path }) {
		return
	}
	d.problemAt(d.places.nearest(path), path, format, args...)
}

func (d *document) note(path, format string, args ...any) {
	at := d.places.nearest(path)
	d.notes = append(d.notes, Problem{d.file, at.line, at.column, path, fmt.Sprintf(format, args...)})
}

// problemIf reports a problem at path if a rule is broken.
func (d *document) problemIf(isBroken bool, path, format string, args ...any) {
	if isBroken {
		d.problem(path, format, args...)
	}
}

// noteIf adds a note about path if something holds.
func (d *document) noteIf(holds bool, path, format string, args ...any) {
	if holds {
		d.note(path, format, args...)
	}
}

// nearest is the position of a key or, if the file does not have it, of the nearest section around it.
func (p places) nearest(path string) place {
	for {
		if at, ok := p[path]; ok {
			return at
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			return place{1, 1}
		}
		path = path[:i]
	}
}

// has reports whether the file has the key or section.
func (d *document) has(path string) bool {
	_, ok := d.places[path]
	return ok
}

func sortByPlace(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// decode decodes the file into a Config with defaults. What it cannot decode is a problem.
func (d *document) decode(data []byte) *Config {
	c := &Config{}
	d.defaults("", c, nil)
	root := d.read(data)
	if root == nil {
		return c
	}
	d.mapping(root, "", func(key, value *yaml.Node) {
		if key.Value == "pipelines" {
			d.pipelines(c, value)
			return
		}
		d.member(c, nil, "", "", key, value)
	})
	if len(d.problems) == 0 && len(c.Pipelines) == 0 {
		d.problem("pipelines", "no pipeline: add one, or start from `embedd init`")
	}
	return c
}

// read parses the YAML and returns the top node, or nil after a problem.
func (d *document) read(data []byte) *yaml.Node {
	start := place{1, 1}
	if len(data) > maxFile {
		d.problemAt(start, "", "the file has %d bytes, the limit is %d", len(data), maxFile)
		return nil
	}
	if !utf8.Valid(data) {
		d.problemAt(start, "", "the file is not UTF-8 text")
		return nil
	}
	if bytes.ContainsFunc(data, masked) {
		d.problemAt(start, "", "the file has private-use characters (U+E000 to U+E07F): delete them")
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(mask(data)))
	var doc yaml.Node
	switch err := decodeNode(decoder, &doc); {
	case errors.Is(err, io.EOF):
		d.problemAt(start, "", "the file is empty: `embedd init` writes a starter file")
		return nil
	case err != nil:
		d.syntax(data, err)
		return nil
	}
	var more yaml.Node
	if err := decodeNode(decoder, &more); err == nil {
		d.problemAt(placeOf(&more), "", "a second YAML document begins here: one file is one configuration")
		return nil
	} else if !errors.Is(err, io.EOF) {
		d.syntax(data, err)
		return nil
	}
	return doc.Content[0]
}

// decodeNode turns a panic of the YAML package into an error.
func decodeNode(decoder *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	return decoder.Decode(into)
}

var lineOf = regexp.MustCompile(`^yaml: line (\d+): `)

// syntax reports a YAML error. The package reports only the line; the column is that of the first character.
func (d *document) syntax(data []byte, err error) {
	text, at := err.Error(), place{1, 1}
	if m := lineOf.FindStringSubmatch(text); m != nil {
		at.line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
		if lines := strings.Split(string(data), "\n"); at.line >= 1 && at.line <= len(lines) {
			line := lines[at.line-1]
			indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
			at.column = len(indent) + 1
			if strings.Contains(indent, "\t") {
				text += ": indent with spaces, not tabs"
			}
		}
	}
	d.problemAt(at, "", "not valid YAML: %s", unmask(strings.TrimPrefix(text, "yaml: ")))
}

// mapping calls visit for each member of a mapping. Null is an empty mapping.
func (d *document) mapping(n *yaml.Node, path string, visit func(key, value *yaml.Node)) {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		if path == "" {
			d.problemAt(placeOf(n), path, "the file must be a mapping (key: value), not %s", kindName(n))
			return
		}
		d.problemAt(placeOf(n), path, "want a mapping (key: value), not %s", kindName(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), n.Content[i+1]
		key.Value = unmask(key.Value)
		if key.Kind != yaml.ScalarNode {
			d.problemAt(placeOf(key), path, "a key must be a word, not %s", kindName(key))
			continue
		}
		if line, twice := seen[key.Value]; twice {
			d.problemAt(placeOf(key), join(path, key.Value), "set twice: the first is in line %d; keep one", line)
			continue
		}
		seen[key.Value] = key.Line
		visit(key, value)
	}
}

// pipelines decodes the mapping of pipelines.
func (d *document) pipelines(c *Config, n *yaml.Node) {
	d.places["pipelines"] = placeOf(n)
	d.mapping(n, "pipelines", func(key, value *yaml.Node) {
		name, path := key.Value, join("pipelines", key.Value)
		d.places[path] = placeOf(key)
		if !pipelineName.MatchString(name) {
			d.problemAt(placeOf(key), path, "a pipeline's name has 1 to 64 letters, digits, - and _: %q is part of "+
				"consumer and bucket names", name)
			return
		}
		p := Pipeline{Name: name}
		d.defaults(each, c, &p)
		d.mapping(value, path, func(key, value *yaml.Node) { d.member(c, &p, each, path, key, value) })
		for _, f := range spec {
			if f.required && strings.HasPrefix(f.path, each) && !d.has(actual(f.path, name)) {
				d.problem(actual(f.path, name), "missing: set it, such as %s; %s", f.start, f.doc)
			}
		}
		c.Pipelines = append(c.Pipelines, p)
	})
}

// users is the section of the logins that --user chooses from. Each has the keys of nats that are a login.
const users = "nats.users"

// users decodes the mapping of logins.
func (d *document) users(c *Config, n *yaml.Node) {
	c.NATS.Users = map[string]Login{}
	d.mapping(n, users, func(key, value *yaml.Node) {
		role, path := key.Value, join(users, key.Value)
		d.places[path] = placeOf(key)
		if !pipelineName.MatchString(role) {
			d.problemAt(placeOf(key), path, "a role has 1 to 64 letters, digits, - and _")
			return
		}
		one := &Config{}
		d.mapping(value, path, func(key, value *yaml.Node) {
			if slices.Contains(loginKeys, key.Value) {
				d.member(one, nil, "nats.", path, key, value)
				return
			}
			hint, _ := allowed(key.Value, loginKeys)
			d.problemAt(placeOf(key), path, "unknown key %q: %s", key.Value, hint)
		})
		c.NATS.Users[role] = one.NATS.Login
	})
}

// member decodes one key of a section. under is the path of the section in the spec, path that in the file.
func (d *document) member(c *Config, p *Pipeline, under, path string, key, value *yaml.Node) {
	specPath, here := under+key.Value, join(path, key.Value)
	if specPath == users {
		d.users(c, value)
		return
	}
	if isSection(specPath) {
		d.places[here] = placeOf(key)
		d.mapping(value, here, func(k, v *yaml.Node) { d.member(c, p, specPath+".", here, k, v) })
		return
	}
	f, ok := lookup(specPath)
	if !ok {
		d.unknown(under, path, key, value.Tag == "!!null" && value.Value == "")
		return
	}
	d.places[here] = placeOf(resolve(value))
	d.value(f, f.target(c, p), here, resolve(value))
}

// unknown reports an unknown key, with its new name if it was renamed, else with a suggestion. One without a value may
// be an element of a list.
func (d *document) unknown(under, path string, key *yaml.Node, isNull bool) {
	if now, ok := renamedKeys[under+key.Value]; ok {
		d.problemAt(placeOf(key), path, "unknown key %q: it is now %s", key.Value, strings.Replace(now, each,
			"pipelines.NAME.", 1))
		return
	}
	var siblings []string
	elsewhere := ""
	add := func(specPath string) {
		rest, ok := strings.CutPrefix(specPath, under)
		if ok && rest != "" && !strings.Contains(rest, ".") {
			siblings = append(siblings, rest)
		}
		if strings.HasSuffix(specPath, "."+key.Value) && elsewhere == "" {
			elsewhere = strings.Replace(specPath, each, "pipelines.NAME.", 1)
		}
	}
	for _, s := range sections {
		add(s.path)
	}
	for _, f := range spec {
		add(f.path)
	}
	hint, isNear := allowed(key.Value, siblings)
	if !isNear && elsewhere != "" {
		hint = fmt.Sprintf("it belongs to %s; %s", elsewhere, hint)
	}
	if isNull && !isNear {
		hint += "; a list of several is written [a, b]"
	}
	d.problemAt(placeOf(key), path, "unknown key %q: %s", key.Value, hint)
}

// allowed names the key that an unknown one is near to, or else all keys.
func allowed(given string, keys []string) (hint string, isNear bool) {
	if near := spell.Nearest(given, keys); near != "" {
		return fmt.Sprintf("did you mean %q?", near), true
	}
	return "allowed are " + strings.Join(keys, ", "), false
}

// defaults sets the defaults of a pipeline's keys, or of all others.
func (d *document) defaults(prefix string, c *Config, p *Pipeline) {
	for _, f := range spec {
		if (prefix == each) != strings.HasPrefix(f.path, each) || f.value == "" {
			continue
		}
		value := f.value
		if p != nil {
			value = strings.ReplaceAll(value, "NAME", p.Name)
		}
		if err := f.set(f.target(c, p), value); err != nil {
			panic(fmt.Sprintf("default of %s: %v", f.path, err)) // a test sets every default
		}
	}
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return "a single value"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// actual is the path in the file of a path in the spec.
func actual(specPath, pipeline string) string {
	return "pipelines." + pipeline + "." + strings.TrimPrefix(specPath, each)
}
