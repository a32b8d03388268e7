// Command sbom writes the bill of materials of a Go program as CycloneDX: the modules that its build information names.
//
//	go run ./tools/sbom v1.2.3 ./embedd >embedd.cdx.json
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// document is the part of CycloneDX 1.5 that describes a program.
type document struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
}

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a version and a program, not %d arguments", len(args))
	}
	info, err := buildinfo.ReadFile(args[1])
	if err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	d := document{Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata: metadata{moduleOf("application", info.Main.Path, args[0])}}
	for _, m := range info.Deps {
		d.Components = append(d.Components, moduleOf("library", actual(m).Path, actual(m).Version))
	}
	d.Components = append(d.Components, component{Type: "library", Ref: "go", Name: "std", Version: info.GoVersion})
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// actual is the module that a module is replaced with, or itself.
func actual(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

func moduleOf(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + version
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}
