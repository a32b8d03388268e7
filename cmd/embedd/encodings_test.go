package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio/wire"
)

// encodedRows are rows with a category of text, one of booleans, and a date. The label depends on the city.
func encodedRows() string {
	var b strings.Builder
	b.WriteString("age,city,vip,when,label\n")
	for i := range 90 {
		city := []string{"Oslo", "Paris", "Rome"}[i%3]
		if i == 30 {
			city = ""
		}
		vip := []string{"True", "False"}[i%2]
		fmt.Fprintf(&b, "%d.%d,%s,%s,2024-0%d-1%d,%v\n", i%7, i%5, city, vip, 1+i%9, i%10, i%3 == 2)
	}
	return b.String()
}

// TestEncodings: transform, a pipeline and each format of messages make the same features of categories and dates as
// the fit. A value that the fit did not see is 0 in all of them and counted, and text that is no date rejects its row.
func TestEncodings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, model := writeFile(t, dir, "rows.csv", encodedRows()), filepath.Join(dir, "m.embedd")
	code, _, said := call(t.Context(), "fit", "--data", data, "--label", "label", "--categories", "city,vip", "--dates",
		"when", "--method", "lda", "-o", model)
	want := "7 features: age, city=Oslo, city=Paris, city=Rome, vip=false, vip=true, when"
	if code != 0 || !strings.Contains(said, want) {
		t.Errorf("fit says %s, want %q", said, want)
	}
	csv := writeFile(t, dir, "new.csv", `age,city,vip,when
1,Rome,True,2024-05-01
1,Berlin,FALSE,2024-05-01T12:00:00Z
1,,true,
`)
	lines := writeFile(t, dir, "new.ndjson", `{"age":1,"city":"Rome","vip":true,"when":"2024-05-01"}
{"vip":false,"age":1,"city":"Berlin","when":"2024-05-01 12:00:00"}
{"age":1,"vip":true}
`)
	var outputs []string
	for _, from := range []string{csv, lines} {
		out := filepath.Join(dir, "out.csv")
		_, _, said := call(t.Context(), "transform", "--model", model, "--data", from, "-o", out)
		if !strings.Contains(said, "1 values of categories") || !strings.Contains(said, "1 of 3 rows") {
			t.Errorf("%s: transform says %s", from, said)
		}
		outputs = append(outputs, string(sure(os.ReadFile(out))))
	}
	if outputs[0] != outputs[1] || strings.Count(outputs[0], "\n") != 4 || strings.Contains(outputs[0], "Rome") {
		t.Errorf("outputs %q of CSV, %q of JSON", outputs[0], outputs[1])
	}

	s := serveNATS(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	path := writeFile(t, dir, "embedd.yaml", fmt.Sprintf(`
nats: {url: '%s'}
http: {listen: 127.0.0.1:0}
pipelines:
  csv: {schema: {features: ["*"]}, input: {stream: FEATURES, format: csv}, output: {format: csv}, model: {file: %s}}
  json:
    {schema: {features: ["*"]}, input: {stream: FEATURES, format: ndjson}, output: {format: csv}, model: {file: %[2]s}}
  arrow: {schema: {features: ["*"]}, input: {stream: FEATURES}, output: {format: csv}, model: {file: %[2]s}}
`, s.ClientURL(), model))
	verb(t, 0, "setup", "--apply", "-c", path)
	nc := sure(nats.Connect(s.ClientURL(), nats.Timeout(ample)))
	defer nc.Close()
	reduced, dead := sure(nc.SubscribeSync("reduced.>")), sure(nc.SubscribeSync("dead.>"))
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	d := startRun(t, path)
	for _, c := range [][2]string{{"csv", csv}, {"json", lines}, {"arrow", csv}, {"arrow", lines}} {
		verb(t, 0, "publish", "-c", path, "--pipeline", c[0], "--data", c[1])
		m, err := reduced.NextMsg(ample)
		if err != nil || strings.ReplaceAll(string(m.Data), "\r", "") != outputs[0] {
			t.Errorf("pipeline %s answers %q, want %q: %v", c[0], m.Data, outputs[0], err)
		}
	}
	if err := nc.Publish("features.json", []byte(`{"age":1,"city":"Rome","vip":true,"when":"05/01/2024"}`)); err != nil {
		t.Fatal(err)
	}
	if m, err := dead.NextMsg(ample); err != nil || m.Header.Get(wire.HeaderCode) != string(wire.NotNumeric) ||
		!strings.Contains(m.Header.Get(wire.HeaderError), `"05/01/2024" is no date`) {
		t.Errorf("a date that is none: %v, %v", m, err)
	}
	const counted = `embedd_unseen_categories_total{pipeline="json"} 1`
	d.until(counted, func() bool {
		_, metrics := d.get("/metrics")
		return strings.Contains(metrics, counted)
	})
	d.stop()
}

// TestEncodingsOfJSON: categories in a JSON file are text, integers and booleans, also in one column, as in messages.
func TestEncodingsOfJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var rows strings.Builder
	for i := range 60 {
		value := []string{`"a"`, "3", "true"}[i%3]
		fmt.Fprintf(&rows, `{"x":%d,"floor":%d,"any":%s,"label":"%d"}`+"\n", i%7, i%2, value, i%2)
	}
	data, model := writeFile(t, dir, "rows.ndjson", rows.String()), filepath.Join(dir, "m.embedd")
	code, _, said := call(t.Context(), "fit", "--data", data, "--label", "label", "--categories", "floor,any", "--method",
		"lda", "-o", model)
	if want := "6 features: x, floor=0, floor=1, any=3, any=a, any=true"; code != 0 || !strings.Contains(said, want) {
		t.Errorf("fit says %s, want %q", said, want)
	}
	out := filepath.Join(dir, "out.csv")
	few := writeFile(t, dir, "few.ndjson", `{"x":1,"floor":1,"any":"a"}`+"\n"+`{"x":1,"floor":0,"any":"3"}`+"\n")
	code, _, said = call(t.Context(), "transform", "--model", model, "--data", few, "-o", out)
	if code != 0 || strings.Contains(said, "none that the fit saw") {
		t.Errorf("transform says %s", said)
	}
}

// TestEncodingMistakes: what cannot be encoded is an error that names the column and what to do.
func TestEncodingMistakes(t *testing.T) {
	dir := t.TempDir()
	var many strings.Builder
	many.WriteString("id,x\n")
	for i := range 1001 {
		fmt.Fprintf(&many, "id-%d,%d\n", i, i%3)
	}
	rows := writeFile(t, dir, "rows.csv", encodedRows())
	for _, c := range []struct {
		data, says string
		flags      []string
	}{
		{rows, `column "age": a column of type floating point`, []string{"--categories", "age"}},
		{rows, `has no column "town" for --categories`, []string{"--categories", "town"}},
		{rows, `has no column "then" for --dates (did you mean`, []string{"--dates", "then"}},
		{rows, `"city" is in --categories and in --dates`, []string{"--categories", "city", "--dates", "city"}},
		{rows, `"label" is in --label and in --categories`, []string{"--label", "label", "--categories", "label"}},
		{rows, `row 1, column "city": "Oslo" is no date such as 2024-05-01`, []string{"--dates", "city"}},
		{"-", "--categories reads the rows twice", []string{"--categories", "city"}},
		{writeFile(t, dir, "many.csv", many.String()), "more than 1000 values", []string{"--categories", "id"}},
		{writeFile(t, dir, "same.csv", "city,city=Rome\nRome,1\nOslo,2\n"), `"city=Rome"`,
			[]string{"--categories", "city"}},
		{writeFile(t, dir, "none.csv", "x,city\n1,\n2,\n"), "has no value", []string{"--categories", "city"}},
	} {
		code, _, stderr := call(t.Context(), append([]string{"fit", "--method", "pca", "-o", filepath.Join(dir, "m"),
			"--data", c.data}, c.flags...)...)
		if code == 0 || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, %s, want %q", c.flags, code, stderr, c.says)
		}
	}
}
