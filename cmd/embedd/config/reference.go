package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Starter is a starter configuration: one pipeline, and all other keys as comments with their defaults. It is valid.
// name is the name of the pipeline; values are by key, such as schema.label, and replace those of the example.
func Starter(name string, values map[string]string) []byte {
	var b strings.Builder
	b.WriteString("# Configuration of embedd. `embedd check` checks this file, `embedd run` serves it.\n" +
		"# Lines that begin with # are defaults. Values may contain ${NAME} and ${NAME:-default} from the environment.\n")
	for _, s := range sections {
		depth := strings.Count(s.path, ".")
		indent := strings.Repeat("  ", depth)
		key := s.path[strings.LastIndexByte(s.path, '.')+1:]
		keys := fieldsOf(s.path)
		mark := ""
		if s.path != "pipelines" && !started(s.path) {
			mark = "#"
		}
		if depth == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s# %s\n%s%s%s:\n", indent, s.doc, mark, indent, key)
		if s.path == "pipelines" {
			fmt.Fprintf(&b, "  %s:\n", name)
		}
		for _, f := range keys {
			key := f.path[strings.LastIndexByte(f.path, '.')+1:]
			mark, value := "#", f.shown()
			set, isSet := values[strings.TrimPrefix(f.path, each)]
			if isSet || f.start != "" {
				mark, value = "", cmp.Or(set, f.start)
			}
			line := fmt.Sprintf("%s%s  %s: %s", mark, indent, key, strings.ReplaceAll(value, "NAME", name))
			brief, _, _ := strings.Cut(f.doc, ". ") // the reference page has the rest
			fmt.Fprintf(&b, "%-44s # %s\n", line, strings.TrimSuffix(brief, "."))
		}
	}
	return []byte(b.String())
}

// started reports whether the starter file sets a key in the section or below it.
func started(path string) bool {
	return slices.ContainsFunc(spec, func(f field) bool { return f.start != "" && strings.HasPrefix(f.path, path+".") })
}

// fieldsOf are the keys directly in a section.
func fieldsOf(path string) []field {
	var in []field
	for _, f := range spec {
		rest, ok := strings.CutPrefix(f.path, path+".")
		if ok && !strings.Contains(rest, ".") {
			in = append(in, f)
		}
	}
	return in
}

// shown is the default as in a file.
func (f field) shown() string {
	none := `""`
	if f.form() == "a mapping of parameters" {
		none = "{}"
	}
	return cmp.Or(f.value, f.unset, none)
}

// word is a text that YAML reads as text without quotes.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// Quoted writes a text as a value of YAML, with quotes unless it is a plain word.
func Quoted(text string) string {
	if word.MatchString(text) && !slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"},
		strings.ToLower(text)) {
		return text
	}
	data, _ := json.Marshal(text) // a text
	return strings.ReplaceAll(string(data), "${", "$${")
}
