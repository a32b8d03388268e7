package main

import (
	"context"
	"runtime"
	"runtime/debug"
)

// version may be set by the linker (-ldflags "-X main.version=v1.2.3"); otherwise the build information gives it.
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
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	return b
}

func runVersion(_ context.Context, e *env, args []string) error {
	f := newFlags(e)
	out := f.output()
	if _, err := f.parse(args, 0, 0); err != nil {
		return err
	}
	b := buildInfo()
	if out.json {
		return out.object(b)
	}
	out.printf("embedd %s\n", b.Version)
	if b.Revision != "" {
		modified := ""
		if b.Modified {
			modified = " (modified)"
		}
		out.printf("revision %s%s\n", b.Revision, modified)
	}
	out.printf("%s %s\n", b.Go, b.Platform)
	return nil
}
