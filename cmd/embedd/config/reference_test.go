package config

import (
	"fmt"
	"strings"

	"github.com/embedd/embedd/stream"
)

// reference is docs/configuration.md.
func reference() []byte {
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
			case f.required:
				value = "required"
			case f.value != "" || f.unset != "":
				value = "`" + f.shown() + "`"
			default:
				value = "not set"
			}
			reload := ""
			if f.reload {
				reload = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", rest, form, value, reload, f.doc+f.resetText())
		}
		if rows > 0 {
			b.WriteByte('\n')
		}
	}
	b.WriteString("## Example\n\nWhat `embedd init` writes:\n\n```yaml\n")
	b.Write(Starter("digits", nil))
	b.WriteString("```\n")
	return []byte(b.String())
}

// resetText says which reset a changed value needs.
func (f field) resetText() string {
	switch f.effect {
	case stream.EffectModelReset:
		return " A changed value needs `embedd model reset`."
	case stream.EffectSchemaReset:
		return " A changed value that the stored schema fits needs `embedd schema reset` to select other columns."
	}
	return ""
}
