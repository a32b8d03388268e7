package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/embedded"
	"github.com/embedd/embedd/cmd/embedd/report"
	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/stream/admin"
)

// TestDoctorOfTheEmbeddedServer: doctor examines the server that a running daemon embeds, and reports no fault.
// A server of another program on that port is a fault.
func TestDoctorOfTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), carrier.FreePort(t)
	listen := fmt.Sprint("127.0.0.1:", carrier.FreePort(t))
	config := writeFile(t, dir, "embedd.yaml", "http: {listen: \""+listen+`"}
pipelines:
  digits:
    input: {stream: FEATURES, subject: features.digits}
    schema: {features: [pixels], label: label}
    output: {subject: reduced.digits}
    model: {method: lda, store: auto}
`)
	examine := func() (faults int, text string) {
		var out bytes.Buffer
		e := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Verb: "doctor"}
		f := cli.FlagsOf(&cobra.Command{})
		d := &doctor{out: report.Flag(f, e), path: config, port: port, count: map[admin.Level]int{}}
		if err := d.look(t.Context(), e, client.AddressFlags(f, "")); err != nil {
			t.Fatal(err)
		}
		return d.count[admin.LevelFault], out.String()
	}
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		t.Fatal(err)
	}
	if faults, text := examine(); faults != 1 || !strings.Contains(text, "another program uses its port") {
		t.Errorf("%d faults with another program on the port:\n%s", faults, text)
	}
	l.Close()
	other, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	go other.Start()
	other.ReadyForConnections(ample)
	if faults, text := examine(); faults != 1 || !strings.Contains(text,
		"use that server\n       nats.url: nats://127.0.0.1:") {
		t.Errorf("%d faults with another server on the port:\n%s", faults, text)
	}
	embedded.Stop(other)

	s, err := embedded.Start(dir+"/data", port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { embedded.Stop(s) })
	url := s.ClientURL()
	if code, _, errs := call(t.Context(), "setup", "--apply", "-c", config, "--server", url); code != 0 {
		t.Fatal(errs)
	}
	startRun(t, config, "--server", url)
	faults, text := examine()
	if faults > 0 || !strings.Contains(text, "a running daemon embeds it") || !strings.Contains(text, "daemon (digits)") {
		t.Errorf("%d faults of the embedded server of a running daemon:\n%s", faults, text)
	}
}

// TestStoreThatCannotBeWritten: run and doctor name the directory of the embedded server, or that of its JetStream.
func TestStoreThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeFile(t, dir, "embedd.yaml", `
http: {listen: "127.0.0.1:0"}
pipelines: {digits: {input: {stream: FEATURES, subject: features.digits}, schema: {features: [pixels]}}}
`)
	for _, store := range []string{filepath.Join(dir, embedded.Store), filepath.Join(dir, embedded.Store, "jetstream")} {
		if err := os.MkdirAll(filepath.Dir(store), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Dir(store), filepath.Base(store), "")
		want := "cannot write its store: " + store + " is not a directory"
		if code, _, errs := call(t.Context(), "run"); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("run: %d %s", code, errs)
		}
		if code, out, _ := call(t.Context(), "doctor"); code != 3 || !strings.Contains(out,
			"fault  disk: embedd-data cannot be written:") {
			t.Errorf("doctor: %d %s", code, out)
		}
		if err := os.Remove(store); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDoctorWithoutPermission: a user that may not ask for running daemons does not get the answer that none runs.
func TestDoctorWithoutPermission(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	listen := fmt.Sprint("127.0.0.1:", carrier.FreePort(t))
	w.change("127.0.0.1:0", `"`+listen+`"`)
	w.examine()
	startRun(t, w.path())
	w.grant(deny("$SRV.PING", "embedd.digits.status"))
	faults, text := w.examine()
	if len(faults) != 1 || faults[0].Check != "permissions" || strings.Contains(text, "none is running") ||
		!strings.Contains(text, "one answers on http.listen, and this user may not ask") {
		t.Errorf("%v\n%s", faults, text)
	}
	w.grant(deny("$SRV.PING"))
	if _, text := w.examine(); strings.Contains(text, "none is running") || !strings.Contains(text, `"check":"daemon"`) {
		t.Errorf("with the permission to ask for the status:\n%s", text)
	}
}

// TestSetupSaysWhatItDid: what setup has created is not said to exist before.
func TestSetupSaysWhatItDid(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.remove("DEAD")
	w.examine() // writes the configuration
	for _, c := range []struct {
		want    []string
		against string
	}{{[]string{"stream FEATURES for features.digits exists\n", "stream DEAD for dead.digits created\n",
		"store of state EMBEDD_STATE created\n"}, ""}, {[]string{"stream DEAD for dead.digits exists\n"}, "created"}} {
		code, text, errs := call(t.Context(), "setup", "--apply", "-c", w.path())
		if code != 0 || c.against != "" && strings.Contains(text, c.against) {
			t.Errorf("setup ends with %d: %s%s", code, text, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("setup does not say %q:\n%s", want, text)
			}
		}
	}
}

// TestDoctorReportsConditions: what needs attention in a running daemon is a fault, also while it is ready.
func TestDoctorReportsConditions(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.change("model: {method: lda, store: auto}", "model: {method: lda, store: auto}\n    training: {until_ready: skip}")
	w.examine() // writes the configuration
	d := startRun(t, w.path())
	w.send(16)
	d.until("nearly all of the messages are dead letters", func() bool {
		_, body := d.get("/readyz")
		return storedIn(t, w.js, "DEAD") >= 16 && strings.Contains(body, "degraded")
	})
	faults, text := w.examine()
	if !strings.Contains(text, `"check":"daemon","pipeline":"digits","level":"fault","text":"condition dead_share`) {
		t.Errorf("%v\n%s", faults, text)
	}
}

// TestReportFindings: each condition is one fault, and a halted pipeline is one, with the verb that resumes it.
func TestReportFindings(t *testing.T) {
	for _, c := range []struct{ status, want string }{
		{`{"state":"ready","ready":true}`, "ok"},
		{`{"state":"degraded","conditions":[{"name":"a","reason":"x"},{"name":"b","reason":"y"}]}`, "note fault fault"},
		{`{"state":"blocked","conditions":[{"name":"server","reason":"x"}]}`, "note fault"},
		{`{"state":"blocked","reason":"x"}`, "fault"},
		{`{"state":"waiting_for_model","reason":"1 of 2 labelled rows"}`, "note"},
		{`{"state":"halted","reason":"x"}`, "fault embedd resume digits"},
		{`not JSON`, "fault"},
	} {
		var got []string
		for _, f := range reportFindings("digits", &nats.Msg{Data: []byte(c.status)}) {
			got = append(got, strings.TrimSpace(string(f.Level)+" "+f.Command))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %s", c.status, got, c.want)
		}
	}
}
