package embedd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// licences are those that a module of the binary may have, each with words that its text has and others do not, in the
// order in which they are looked for.
var licences = []struct{ name, words string }{
	{"OFL-1.1", "sil open font license version 1.1"},
	{"FTL", "the freetype project license"},
	{"Apache-2.0", "apache license version 2.0, january 2004"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy of this software and " +
		"associated documentation files"},
	{"BSD-3-Clause", "endorse or promote products derived from"},
	{"BSD-2-Clause", "in binary form must reproduce the above copyright notice"},
	{"CC-BY-4.0", "creative commons attribution 4.0"},
}

// TestLicences: every module that the binary links has a licence of a kind that lets it be passed on under embedd's
// own, and docs/dependencies.md lists them.
func TestLicences(t *testing.T) {
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listed, _ := strings.Cut(string(page), "| module of the binary | licence |\n|---|---|\n")
	listed, _, _ = strings.Cut(listed, "\n\n")
	var lines []string
	for _, module := range goList(t, "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}",
		"./cmd/embedd") {
		path, dir, ok := strings.Cut(module, " ")
		if !ok {
			continue
		}
		kinds := licencesIn(t, dir)
		if len(kinds) == 0 {
			t.Errorf("%s has no licence of a kind that is allowed; see %s", path, dir)
		}
		lines = append(lines, fmt.Sprintf("| %s | %s |", path, strings.Join(kinds, ", ")))
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if want := strings.Join(lines, "\n"); strings.TrimSpace(listed) != want {
		t.Errorf("docs/dependencies.md lists other licences; they are\n%s", want)
	}
}

// licencesIn are the kinds of the licence files of a module.
func licencesIn(t *testing.T, dir string) (kinds []string) {
	t.Helper()
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*", "licenses/*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // a directory
			}
			// Of a text in Markdown the marks of a quotation are left out.
			words := strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n> ", " ")), " "))
			for _, l := range licences {
				if strings.Contains(words, l.words) {
					kinds = append(kinds, l.name)
					break
				}
			}
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
