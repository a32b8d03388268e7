package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// TestMistakesInFiles: common mistakes in files and flags get an error that names the place and a fix that works.
func TestMistakesInFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rows := "1.5,2,a\n2,1,b\n1,2,a\n3,1,b\n"
	named := write("named.csv", "x,y,label\n"+rows)
	bare := write("bare.csv", rows)
	wide := write("utf16.csv", "\xff\xfex\x00,\x00y\x00\n\x00")
	comment := write("comment.csv", "# made by hand\nx,y,label\n"+rows)
	region := write("region.csv", "x,y,region,label\n1,2,APAC,a\n2,1,EMEA,b\n1,3,APAC,a\n3,1,EMEA,b\n")
	single := write("single.csv", "x,y,label\n1,2,a\n2,1,a\n1,3,a\n")
	model := filepath.Join(dir, "m.embedd")
	must(t, "fit", "--data", named, "--label", "label", "--method", "lda", "-o", model)
	for _, c := range []struct {
		args  string
		code  int
		words string
	}{
		{"fit --data " + named + " --label label --method LDA -o " + model, 2, "the nearest is lda,"},
		{"fit --data " + named + " --label label --method mfa --set K1=3 -o " + model, 2,
			`has no parameter "K1" (did you mean "k1"?)`},
		{"fit --data " + named + " --label label --method kNN -o " + model, 2, `unknown method "kNN"; the methods are dawge`},
		{"fit --data " + named + " --label label --method lpp --set kNN=3 -o " + model, 2, `(did you mean "k"?)`},
		{"eval --data " + iris + " --label label --methods lda,lpp --set k=3 --splits 2", 0, "4 features"},
		{"eval --data " + iris + " --label label --methods lda --set kk=3", 2, "none of the methods lda has this parameter"},
		{"fit --data " + single + " --label label -o " + model, 0,
			`every row with a label is of class "a", so auto takes pca`},
		{"fit --data " + named + " --label Label --method lda -o " + model, 2, `did you mean "label"?`},
		{"fit --data " + bare + " --label a --method lda -o " + model, 1, "line 1 holds 1.5, so it seems to be a row"},
		{"fit --data " + bare + " --label x2 --method lda --no-header -o " + model, 0, "2 features: x0, x1; label: x2"},
		{"fit --data " + wide + " --label label --method lda -o " + model, 1, "UTF-16: write it as UTF-8"},
		{"fit --data " + comment + " --label label --method lda -o " + model, 1, "line 1 begins with #"},
		{"fit --data " + region + " --label label --method lda -o " + model, 0, `"region" (text)`},
		{"fit --data " + named + " --label label --method lda --features x,y -o " + model, 0, "2 features: x, y"},
		{"transform --data " + named + " --model " + model + " --keep labels -o " + dir + "/y.csv", 2,
			`has no column "labels" for --keep (did you mean "label"?)`},
		{"transform --data " + named + " --model " + model + " --keep l* -o " + dir + "/y.csv", 0, "4 rows"},
		{"plot --data " + named + " --label label --method pca -o " + dir + "/p.png", 0, "4 rows, by pca "},
		{"model export " + model + " -o " + dir + "/m.json", 0, "2 features to 1, to "},
	} {
		code, _, stderr := call(t.Context(), strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stderr, c.words) {
			t.Errorf("embedd %s: exit %d, want %d with %q: %s", c.args, code, c.code, c.words, stderr)
		}
	}
}

// TestStandardInputFormats: standard input may have any format that files have, and gives the same model.
func TestStandardInputFormats(t *testing.T) {
	dir := t.TempDir()
	model := fitted(t, iris, "lda")
	text := filepath.Join(dir, "iris.csv")
	packed, err := os.Open(iris)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	csv, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, csv, 0o600); err != nil {
		t.Fatal(err)
	}
	paths := []string{iris, text}
	for _, suffix := range []string{".parquet", ".arrow", ".arrows"} {
		path := filepath.Join(dir, "x"+suffix)
		must(t, "transform", "--data", iris, "--model", model, "--keep", "all", "-o", path)
		paths = append(paths, path)
	}
	for _, path := range paths {
		rows, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fit := func(data string, in io.Reader) string {
			var errs bytes.Buffer
			out := filepath.Join(dir, "out.embedd")
			e := &cli.Env{Stdin: in, Stdout: io.Discard, Stderr: &errs}
			if code := dispatch(t.Context(), e, []string{"fit", "--data", data, "--label", "label", "--method", "pca", "-o",
				out}); code != 0 {
				t.Fatalf("%s: exit %d: %s", path, code, errs.String())
			}
			stdout, _ := must(t, "model", "show", out, "--format", "json")
			_, digest, _ := strings.Cut(stdout, `"digest"`)
			digest, _, _ = strings.Cut(digest, ",")
			return digest
		}
		if a, b := fit(path, strings.NewReader("")), fit("-", bytes.NewReader(rows)); a != b || a == "" {
			t.Errorf("%s: digest %q, and %q by standard input", path, a, b)
		}
	}
}

// TestDefaultConfiguration: verbs that take a server from a configuration read embedd.yaml of the current directory, as
// run does, unless a server is named.
func TestDefaultConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("embedd.yaml", []byte("nats: {urll: nats://127.0.0.1:1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"status", "model ls p", "dlq ls p", "tail --subject out.x", "retrain p"} {
		_, _, stderr := call(t.Context(), strings.Fields(verb)...)
		if !strings.Contains(stderr, "embedd.yaml") || !strings.Contains(stderr, "urll") {
			t.Errorf("embedd %s: %s", verb, stderr)
		}
		_, _, stderr = call(t.Context(), strings.Fields(verb+" --server nats://127.0.0.1:x")...)
		if strings.Contains(stderr, "embedd.yaml") {
			t.Errorf("embedd %s with --server: %s", verb, stderr)
		}
	}
}
