package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/report"
)

// version is set by the linker (-ldflags "-X main.version=v1.2.3"); otherwise it is that of the build information.
var version string

// build is what `embedd version` prints.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildInfo() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(b.Version, "(devel)")
	return b
}

// String is the text form.
func (b build) String() string {
	text := fmt.Sprintf("embedd %s\n", b.Version)
	if b.Revision != "" {
		modified := ""
		if b.Modified {
			modified = " (modified)"
		}
		text += fmt.Sprintf("revision %s%s\n", b.Revision, modified)
	}
	return text + fmt.Sprintf("%s %s\n", b.Go, b.Platform)
}

func versionCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "print the version of embedd"}
	out := report.Flag(cli.FlagsOf(cmd), e)
	cmd.RunE = func(*cobra.Command, []string) error {
		if out.JSON {
			return out.Object(buildInfo())
		}
		_, err := fmt.Fprint(e.Stdout, buildInfo())
		return err
	}
	return cmd
}
