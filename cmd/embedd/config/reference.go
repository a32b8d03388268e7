package config

import (
	"fmt"
	"strings"
)

// Starter is a starter configuration: one pipeline, and all other keys as comments with their defaults. It is valid.
func Starter() []byte {
	var b strings.Builder
	b.WriteString("# Configuration of embedd. `embedd check` checks this file, `embedd run` serves it.\n" +
		"# Lines that begin with # are defaults. Values may contain ${NAME} and ${NAME:-default} from the environment.\n")
	const name = "digits"
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
			if f.start != "" {
				mark, value = "", f.start
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
	for _, f := range spec {
		if f.start != "" && strings.HasPrefix(f.path, path+".") {
			return true
		}
	}
	return false
}

// fieldsOf are the keys directly in a section.
func fieldsOf(path string) []field {
	var in []field
	for _, f := range spec {
		rest, ok := strings.CutPrefix(f.path, path+".")
		if ok && !strings.Contains(rest, ".") && f.to != nil {
			in = append(in, f)
		}
	}
	return in
}

// shown is the default as in a file.
func (f field) shown() string {
	switch {
	case f.value != "":
		return f.value
	case f.or != "":
		return f.or
	}
	if f.form() == "a mapping of parameters" {
		return "{}"
	}
	return `""`
}

// Reference is docs/configuration.md.
func Reference() []byte {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Written from the spec table in cmd/embedd/config. After a change there: go test ./cmd/embedd/config -update -->

Reference of the configuration file: ` + "`embedd run -c embedd.yaml`" + ` reads one YAML file. ` + "`embedd init`" + `
writes a starter file and ` + "`embedd check`" + ` checks a file. Flags override the file, the file overrides defaults.

- An unknown key, a value out of range and two keys that exclude each other are errors with line and column; the daemon
  does not start. All errors are reported together.
- A value may contain ` + "`${NAME}`" + ` or ` + "`${NAME:-default}`" + ` from the environment. A variable that is not
  set and has no default is an error; an empty variable takes the default. ` + "`$${`" + ` is a literal ` + "`${`" + `.
  Variables are expanded after the YAML is parsed: they cannot add keys.
- Sizes are ` + "`512KiB`, `8MiB`" + ` (or ` + "`kB`, `MB`" + `, decimal). Counts are ` + "`500`, `100k`, `2M`" + `.
  Durations are ` + "`30s`, `10m`, `24h`, `7d`" + `.
- The path of a file that is read is relative to the configuration file. If it exists only relative to the working
  directory, it is read there, with a note (as in older versions). Directories that are written, such as
  ` + "`model.store`" + `, are relative to the working directory.
- SIGHUP and ` + "`embedd reload`" + ` make a daemon read its file again
  ([operations](operations.md#reload)). Keys with "yes" under Reload then change without a restart.
- ` + "`NAME`" + ` below is the name of the pipeline.

`)
	for _, s := range sections {
		title := strings.Replace(s.path, each, "pipelines.NAME.", 1)
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", title, s.doc)
		rows := 0
		for _, f := range spec {
			rest, ok := strings.CutPrefix(f.path, s.path+".")
			if !ok || strings.Contains(rest, ".") || strings.HasPrefix(rest, "*") {
				continue
			}
			if rows == 0 {
				b.WriteString("| Key | Value | Default | Reload | |\n|---|---|---|---|---|\n")
			}
			rows++
			form, value := f.form(), ""
			switch {
			case f.to == nil:
				form = "not available yet"
			case f.required:
				value = "required"
			case f.value != "" || f.or != "":
				value = "`" + f.shown() + "`"
			default:
				value = "not set"
			}
			reload := ""
			if f.reload {
				reload = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", rest, form, value, reload, f.doc)
		}
		if rows > 0 {
			b.WriteByte('\n')
		}
	}
	b.WriteString("## Example\n\nWhat `embedd init` writes:\n\n```yaml\n")
	b.Write(Starter())
	b.WriteString("```\n")
	return []byte(b.String())
}
