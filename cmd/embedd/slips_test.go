package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// slipFiles are the files of TestSlips: rows, and what people have in their place.
func slipFiles(t *testing.T, dir string) {
	t.Helper()
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "%d.%02d,%d.%02d,%d.5,%c\n", i%3, i*37%100, 2-i%3, i*53%100, i*7%11, 'a'+i%3)
	}
	rows, head := b.String(), "x,y,z,label\n"
	zip := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(s))
		w.Close()
		return b.String()
	}
	wide := "\xff\xfe"
	for _, u := range utf16.Encode([]rune(head)) {
		wide += string([]byte{byte(u), byte(u >> 8)})
	}
	each := func(change func(i int, line string) string) string {
		lines := strings.Split(strings.TrimSpace(rows), "\n")
		for i := range lines {
			lines[i] = change(i, lines[i])
		}
		return strings.Join(lines, "\n") + "\n"
	}
	ids := each(func(i int, _ string) string { return fmt.Sprintf("%d,%c", i, 'a'+i%2) })
	for name, text := range map[string]string{
		"ok.csv": head + rows, "empty.csv": "", "head.csv": head, "twoheads.csv": head + head + rows, "utf16.csv": wide,
		"latin1.csv": "gr\xf6\xdfe,y,z,label\n" + rows, "cr.csv": strings.ReplaceAll(head+rows, "\n", "\r"),
		"semi.csv": strings.NewReplacer(",", ";", ".", ",").Replace(head + rows), "dup.csv": "x,x,z,label\n" + rows,
		"noname.csv": ",y,z,label\n" + rows, "inf.csv": head + rows + "inf,1,1,a\n", "far.csv": head + rows + "1e300,1,1,a\n",
		"nan.csv": head + rows + ",1,1,a\n", "bare.csv": rows, "comment.csv": "# by hand\n" + head + rows,
		"one.csv": head + "1,2,3,a\n", "class.csv": head + "1,2,3,a\n2,1,3,a\n4,5,6,a\n", "const.csv": head +
			strings.Repeat("1,1,1,a\n1,1,1,b\n", 9), "text.csv": "n,label\nbob,a\nann,b\n",
		"fraction.csv": head + each(func(i int, s string) string { return s[:len(s)-1] + fmt.Sprint(i%3) + ".5" }),
		"unique.csv":   head + each(func(i int, s string) string { return s + fmt.Sprint(i) }),
		"quote.csv":    head + rows + "1,2,3,\"a\n", "bare-quote.csv": head + rows + "1,2,3,a\"b\"\n",
		"short.csv": head + rows + "1,2,3\n", "long.csv": head + rows + "1,2,3,a,\n", "gzip.csv": zip(head + rows),
		"plain.csv.gz": head + rows, "cut.csv.gz": zip(head + rows)[:99], "rows.txt": head + rows, "rows": head + rows,
		"sheet.xlsx": "PK\x03\x04", "packed.csv.bz2": "BZh9", "text.parquet": head + rows,
		"sheet.csv":     "PK\x03\x04aaaa",
		"thousands.csv": "x,y,label\n" + strings.Repeat("\"1,234.5\",1_000,a\n0.5,0x1F,b\n", 9),
		"european.csv":  "x;label\n" + strings.Repeat("1.234,5;a\n", 9), "decimals.csv": "x,label\n" + strings.Repeat(
			"\"0,25\",a\n", 9), "numbers.csv": "id,label\n" + ids, "excel.csv": "sep=,\n" + head + rows,
		"page.csv": "<!DOCTYPE html><html>404</html>\n", "nul.csv": head + rows + "1,2,\x00,a\n",
		"lfs.csv": "version https://git-lfs.github.com/spec/v1\n", "twice.csv.gz": zip(zip(head + rows)),
		"on.csv": "x,on,label\n1,true,a\n2,false,b\n3,false,a\n", "rows.json": `[{"x":1},`,
		"rows.ndjson": "{\"x\":1}\n{\"x\"\n",
		"json.csv":    `[{"x":1}]`, "narrow.csv": "x,label\n1,a\n2,b\n", "words.csv": "x,y,z,label\nhi,1,1,a\n",
		"title.csv":    "Measurements\n\n" + head + rows,
		"trailing.csv": strings.ReplaceAll(head+rows, "\n", ",\n"), "fixed.csv": "  x  y  label\n  1  2  a\n",
		"none.ndjson": "{}\n",
		"page.csv.gz": zip("\n<HTML>"), "lfs.embedd": "version https://git-lfs.github.com/spec/v1\n",
		"list.yaml":   "pipelines: {p: {schema: {features: a,b}}}\n",
		"dollar.yaml": "nats: {url: $NATS}\npipelines: {p: {schema: {features: [x]}}}\n",
		"junk.embedd": "junk", "key.yaml": "pipelines: {p: {inputt: {}}}\n", "tab.yaml": "pipelines:\n\tp: {}\n",
		"empty.yaml": "", "value.yaml": "pipelines: {p: {schema: {features: [x], nulls: drop}}}\n",
		"two.yaml":  "pipelines:\n  p: {schema: {features: [x]}}\n  p: {schema: {features: [x]}}\n",
		"file.yaml": "pipelines: {p: {schema: {features: [x]}, model: {file: none.embedd}}}\n",
		"good.yaml": "pipelines: {p: {schema: {features: [x]}, input: {subject: in.p}, output: {subject: out.p}}}\n",
		"loop.yaml": "pipelines: {p: {schema: {features: [x]}, input: {subject: in.p}, output: {subject: in.p}}}\n",
	} {
		writeFile(t, dir, name, text)
	}
	for _, name := range []string{"folder", "folder.csv"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	verb(t, 0, "fit", "--data", "ok.csv", "--label", "label", "--method", "lda", "-o", "m.embedd")
	m := string(sure(os.ReadFile("m.embedd")))
	writeFile(t, dir, "newer.embedd", m[:8]+"\x09"+m[9:])
	writeFile(t, dir, "cut.embedd", m[:300])
	writeFile(t, dir, "bit.embedd", m[:200]+"~"+m[201:])
}

// TestSlips runs each mistake in testdata/slips.txt and compares the exit code and the message, which has the cause,
// the place and the fix. No mistake changes a file. -update writes the sentences: read the difference.
func TestSlips(t *testing.T) {
	path := sure(filepath.Abs("testdata/slips.txt"))
	dir := t.TempDir()
	t.Chdir(dir)
	slipFiles(t, dir)
	files := func() map[string]string {
		all := map[string]string{}
		for _, e := range sure(os.ReadDir(dir)) {
			if !e.IsDir() {
				all[e.Name()] = string(sure(os.ReadFile(e.Name())))
			} else {
				all[e.Name()] = fmt.Sprint(len(sure(os.ReadDir(e.Name()))))
			}
		}
		return all
	}
	before := files()
	var got strings.Builder
	count := 0
	for line := range strings.Lines(string(sure(os.ReadFile(path)))) {
		args, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ embedd ")
		if !ok {
			continue
		}
		count++
		var words []string
		for _, word := range strings.Split(args, " ") {
			words = append(words, strings.Trim(word, "'"))
		}
		code, _, stderr := call(t.Context(), words...)
		said := strings.Split(strings.TrimSpace(strings.ReplaceAll(stderr, dir, "DIR")), "\n")
		fmt.Fprintf(&got, "$ embedd %s\n%d %s\n", args, code, said[len(said)-1])
		if code == 0 {
			t.Errorf("embedd %s: exit 0", args)
		}
		now := files()
		for name, text := range now {
			if was, known := before[name]; !known || was != text {
				t.Errorf("embedd %s: %s was changed", args, name)
			}
		}
		if len(now) != len(before) {
			t.Errorf("embedd %s: a file was removed", args)
		}
	}
	want := string(sure(os.ReadFile(path)))
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if count < 120 {
		t.Errorf("%d mistakes", count)
	}
	a, b := strings.Split(want, "\n"), strings.Split(got.String(), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Errorf("got  %s\nwant %s", b[i], a[i])
		}
	}
}

// TestServerSlips: mistakes about a server get the cause and the fix.
func TestServerSlips(t *testing.T) {
	t.Parallel()
	plain := serveNATS(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	locked := serveNATS(t, server.Options{Username: "alice", Password: "secret"})
	rows := writeFile(t, t.TempDir(), "rows.csv", "x,y\n1,2\n")
	config := writeFile(t, t.TempDir(), "embedd.yaml", "pipelines: {digits: {schema: {features: [x]}}}\n")
	at := " --server " + plain.ClientURL()
	for args, want := range map[string]string{
		"status --server " + withUser(locked, "alice:wrong"): "refused the credentials: user and password",
		"status --server " + locked.ClientURL():              "credentials",
		"status --server tls://" + plain.Addr().String():     "the server has no TLS",
		"status" + at:                                  "start one with `embedd run`",
		"model ls" + at:                                "EMBEDD_MODELS",
		"model show p" + at:                            "EMBEDD_MODELS",
		"dlq ls" + at:                                  "no stream has dead letters",
		"dlq ls digts -c " + config + at:               `the configuration has no pipeline "digts" (did you mean "digits"?)`,
		"tail --all --subject a" + at:                  "no stream takes a, so there is nothing stored to read",
		"publish --data " + rows + " --subject a" + at: "nothing receives a: no stream stores it",
		"retrain p" + at:                               "start one with `embedd run`",
	} {
		code, _, stderr := call(t.Context(), strings.Fields(args)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("embedd %s: %d %s, want %s", args, code, stderr, want)
		}
	}

	// A request without an answer, as of a user without its permission, does not mean that nothing is there.
	silent := serveNATS(t, server.Options{})
	nc := sure(nats.Connect(silent.ClientURL(), nats.Timeout(ample)))
	t.Cleanup(nc.Close)
	sure(nc.SubscribeSync("$JS.API.>"))
	if err := nc.FlushTimeout(ample); err != nil {
		t.Fatal(err)
	}
	for args, wrong := range map[string]string{"tail --all --subject a": "no stream takes a", "model ls": "--store"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		code, _, stderr := call(ctx, append(strings.Fields(args), "--server", silent.ClientURL())...)
		cancel()
		if code != 1 || !strings.Contains(stderr, "deadline exceeded") || strings.Contains(stderr, wrong) {
			t.Errorf("embedd %s without an answer: %d %s", args, code, stderr)
		}
	}
}
