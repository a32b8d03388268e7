package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writers are the functions that may use the standard streams themselves, by file, with what keeps control characters
// out of the text. All else prints through cli.Env and report.Output.
var writers = map[string]string{
	"cli/env.go Print":              "Printable",
	"report/output.go Flag":         "Output prints through Printable, and objects through PrintableJSON",
	"report/output.go MakeRoomFor":  "the same",
	"report/output.go NewProgress":  "the same",
	"run.go newLogger":              "slog quotes text, PrintableJSON",
	"files/files.go Create":         "data that the user wants as it is",
	"files/files.go Write":          "the same",
	"files/files.go RefuseTerminal": "it only asks whether it is a terminal",
	"cli/env.go CheckOutput":        "it only asks which file it is",
	"main.go main":                  "it only passes the streams on",
	"root.go newRoot":               "help, from this program alone",
	"help.go completionCommand":     "the same",
	"root.go printUsage":            "the same",
	"frames.go answer":              "messages in Arrow",
	"init.go initCommand":           "the same",
	"help.go versionCommand":        "the same",
}

// TestVerbsPrintThroughOneWriter fails for a verb that writes to standard output or standard error itself.
func TestVerbsPrintThroughOneWriter(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				switch s.Sel.Name {
				case "Print", "Println", "Printf":
					if x, ok := s.X.(*ast.Ident); !ok || x.Name != "fmt" {
						return true
					}
					fallthrough
				case "Stdout", "Stderr", "OutOrStdout", "ErrOrStderr", "OutOrStderr":
					name := filepath.ToSlash(path) + " " + f.Name.Name
					used[name] = true
					if writers[name] == "" {
						t.Errorf("%s: %s uses %s itself: print through cli.Env or report.Output", set.Position(s.Pos()),
							f.Name.Name, s.Sel.Name)
					}
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range writers {
		if !used[name] {
			t.Errorf("%s does not use the standard streams: delete it from the list", name)
		}
	}
}

// TestControlCharactersInFiles: names of columns, labels, files and flags cannot control the terminal of a verb that
// reads or refuses them. integration has TestControlCharacters, for what publishers write.
func TestControlCharactersInFiles(t *testing.T) {
	const attack = "\x1b[2J\u009b31m\u202e\x7f"
	dir := t.TempDir()
	data := filepath.Join(dir, attack+".csv")
	var rows strings.Builder
	fmt.Fprintf(&rows, "a%s,b%s,note,label%s\n", attack, attack, attack)
	for i := range 60 {
		fmt.Fprintf(&rows, "%d,%d,%s,%s%d\n", i%7, i*i%11, attack, attack, i%2)
	}
	if err := os.WriteFile(data, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(conf, []byte("pipelines: {\"p"+`\e[2J`+"\": {input: {subject: \"x"+`\u009b`+
		"\"}, \"key"+`\u202e`+"\": 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	label, model := "--label=label"+attack, filepath.Join(dir, "m.embedd")
	small := []string{"--method=lda", "--dim=1"}
	for _, args := range [][]string{
		append([]string{"fit", "--data", data, label, "-o", model}, small...),
		append([]string{"fit", "--data", data, "--label=nothing" + attack, "-o", model}, small...),
		append([]string{"fit", "--data", data, label, "-o", model, "--features=c" + attack}, small...),
		{"model", "show", model}, {"model", "show", model, "--format=json"}, {"model", "diff", model, model},
		{"model", "diff", model, model, "--format=json"}, {"model", "show", attack + ".embedd"},
		{"transform", "--model", model, "--data", data, "-o", filepath.Join(dir, attack+".parquet")},
		{"transform", "--model", model, "--data", attack, "-o", filepath.Join(dir, "out.csv")},
		{"eval", "--data", data, label, "--methods=lda", "--dims=1", "--splits=2"},
		{"eval", "--data", data, label, "--methods=lda", "--dims=1", "--splits=2", "--format=json"},
		{"eval", "--data", data, label, "--methods=" + attack, "--dims=1"},
		{"plot", "--data", data, label, "--model", model, "-o", filepath.Join(dir, attack+".svg")},
		{"check", "-c", conf}, {"run", "-c", conf}, {"doctor", "-c", conf}, {"setup", "-c", conf}, {"status", "-c", conf},
		{"methods", attack}, {attack}, {"fit", "--" + attack}, {"help", attack}, {"completion", attack},
	} {
		_, stdout, stderr := call(t.Context(), args...)
		if text := stdout + stderr; strings.ContainsAny(text, attack[:1]+"\u009b\u202e\x7f") {
			t.Errorf("%q prints %q", args, text)
		} else if text == "" {
			t.Errorf("%q prints nothing", args)
		}
	}
}
