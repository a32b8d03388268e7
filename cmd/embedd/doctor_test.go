package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/cmd/embedd/cli"
	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/stream/admin"
)

// ward is a configuration, and a server with the streams that it needs.
type ward struct {
	*testing.T
	options server.Options
	server  *server.Server
	js      jetstream.JetStream
	dir     string
	config  string // the text of the file
	clock   func() time.Time
}

const password = "hunter2-of-the-ward"

func newWard(t *testing.T) *ward {
	t.Helper()
	w := &ward{T: t, dir: t.TempDir()}
	w.options = server.Options{Host: "127.0.0.1", Port: carrier.FreePort(t), NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: filepath.Join(w.dir, "jetstream"), NoAuthUser: "test", Users: w.users(nil),
		AuthTimeout: ample.Seconds()}
	w.start()
	t.Cleanup(func() { w.stop() })
	w.config = `nats: {url: "nats://embedd:` + password + `@127.0.0.1:` + strconv.Itoa(w.options.Port) + `", ack_wait: 20s}
http: {listen: 127.0.0.1:0}
pipelines:
  digits:
    input: {stream: FEATURES, subject: features.digits}
    schema: {features: [pixels], label: label}
    output: {subject: reduced.digits, dead: dead.digits}
    model: {method: lda, store: auto}
`
	w.streams()
	return w
}

// streams creates the streams that the configuration needs, in memory.
func (w *ward) streams() {
	w.Helper()
	for _, name := range []string{"FEATURES", "REDUCED", "DEAD"} {
		w.stream(jetstream.StreamConfig{Name: name})
	}
}

func (w *ward) users(rights *server.Permissions) []*server.User {
	return []*server.User{{Username: "test"}, {Username: "embedd", Password: password, Permissions: rights}}
}

func (w *ward) start() {
	w.Helper()
	options := w.options
	var err error
	if w.server, err = server.NewServer(&options); err != nil {
		w.Fatal(err)
	}
	go w.server.Start()
	if !w.server.ReadyForConnections(ample) {
		w.Fatal("the server does not start")
	}
	nc, err := nats.Connect(w.server.ClientURL(), nats.Timeout(ample))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(nc.Close)
	if w.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(ample)); err != nil {
		w.Fatal(err)
	}
}

func (w *ward) stop() {
	w.server.Shutdown()
	w.server.WaitForShutdown()
}

// restart stops the server and starts it with other options.
func (w *ward) restart(change func(*server.Options)) {
	w.Helper()
	w.stop()
	change(&w.options)
	w.start()
}

func (w *ward) grant(rights *server.Permissions) {
	w.Helper()
	options := w.options
	options.Users = w.users(rights)
	if err := w.server.ReloadOptions(&options); err != nil {
		w.Fatal(err)
	}
}

func deny(subjects ...string) *server.Permissions {
	return &server.Permissions{Publish: &server.SubjectPermission{Deny: subjects}}
}

// stream creates or recreates a stream.
func (w *ward) stream(c jetstream.StreamConfig) {
	w.Helper()
	if c.Subjects == nil {
		c.Subjects = []string{strings.ToLower(c.Name) + ".>"}
	}
	if c.Duplicates == 0 {
		c.Duplicates = 2 * time.Minute
	}
	c.Storage = jetstream.MemoryStorage
	w.remove(c.Name)
	if _, err := w.js.CreateStream(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

func (w *ward) remove(name string) { _ = w.js.DeleteStream(w.Context(), name) }

func (w *ward) publish(subject string, data []byte) {
	w.Helper()
	if _, err := w.js.Publish(w.Context(), subject, data); err != nil {
		w.Fatal(err)
	}
}

func (w *ward) path() string { return filepath.Join(w.dir, "embedd.yaml") }

func (w *ward) change(from, to string) {
	w.Helper()
	if !strings.Contains(w.config, from) {
		w.Fatalf("the configuration has no %q", from)
	}
	w.config = strings.Replace(w.config, from, to, 1)
}

// examine runs doctor, checks its exit code, and returns the faults.
func (w *ward) examine() (faults []admin.Finding, text string) {
	w.Helper()
	if err := os.WriteFile(w.path(), []byte(w.config), 0o600); err != nil {
		w.Fatal(err)
	}
	run := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		e := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Clock: w.clock}
		code := dispatch(w.Context(), e, append([]string{"doctor", "-c", w.path()}, args...))
		if said := out.String() + errs.String(); strings.Contains(said, password) {
			w.Errorf("the password is shown:\n%s", said)
		}
		return code, out.String()
	}
	code, report := run("--json")
	for end := time.Now().Add(ample); w.isLate(report) && time.Now().Before(end); {
		code, report = run("--json")
	}
	for line := range strings.Lines(report) {
		var f admin.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			w.Fatalf("%q: %v", line, err)
		}
		if f.Level == admin.LevelFault {
			faults = append(faults, f)
		}
		if f.Text == "" || f.Level == admin.LevelFault && f.Fix+f.Command == "" && !strings.Contains(f.Text, ";") &&
			f.Check != "configuration" {
			w.Errorf("no cause, or no fix: %s", line)
		}
	}
	want := 0
	if len(faults) > 0 {
		want = 3
	}
	if code != want {
		w.Errorf("doctor ended with %d and found %d faults", code, len(faults))
	}
	return faults, report
}

// isLate reports whether doctor found only that the server of a busy machine answers too late.
func (w *ward) isLate(report string) bool {
	isSilent := strings.Contains(report, "no connection within") && strings.Contains(report, "timeout")
	return w.server.Running() && (isSilent || strings.Contains(report, "context deadline exceeded"))
}

// findings runs doctor and returns its findings.
func (w *ward) findings() (all []admin.Finding) {
	w.Helper()
	_, report := w.examine()
	for line := range strings.Lines(report) {
		var f admin.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			w.Fatalf("%q: %v", line, err)
		}
		all = append(all, f)
	}
	return all
}

// nats does what the nats CLI would do with the command of a fix.
func (w *ward) nats(words []string) {
	w.Helper()
	if words[0] == "consumer" && words[1] == "rm" {
		if err := w.js.DeleteConsumer(w.Context(), words[2], words[3]); err != nil {
			w.Fatal(err)
		}
		return
	}
	if words[0] == "consumer" && words[1] == "resume" {
		if _, err := w.js.ResumeConsumer(w.Context(), words[2], words[3]); err != nil {
			w.Fatal(err)
		}
		return
	}
	if words[0] != "stream" || words[1] != "edit" {
		w.Fatalf("the test does not know the fix nats %v", words)
	}
	s, err := w.js.Stream(w.Context(), words[2])
	if err != nil {
		w.Fatal(err)
	}
	c := s.CachedInfo().Config
	for _, flag := range words[3:] {
		name, value, _ := strings.Cut(flag, "=")
		number, numberErr := strconv.ParseInt(value, 10, 64)
		period, periodErr := time.ParseDuration(value)
		err := numberErr
		switch name {
		case "--force":
			err = nil
		case "--ack":
			c.NoAck, err = false, nil
		case "--subjects":
			c.Subjects, err = strings.Split(value, ","), nil
		case "--max-msgs":
			c.MaxMsgs = number
		case "--max-bytes":
			c.MaxBytes = number
		case "--max-msg-size":
			c.MaxMsgSize = int32(number)
		case "--max-msgs-per-subject":
			c.MaxMsgsPerSubject = number
		case "--max-age":
			c.MaxAge, err = period, periodErr
		case "--limit-consumer-max-pending":
			c.ConsumerLimits.MaxAckPending = int(number)
		case "--limit-consumer-inactive":
			c.ConsumerLimits.InactiveThreshold, err = period, periodErr
		case "--dupe-window":
			c.Duplicates, err = period, periodErr
		default:
			w.Fatalf("nats stream edit has no flag that the test knows in %s", flag)
		}
		if err != nil {
			w.Fatalf("%s: %v", flag, err)
		}
	}
	if _, err := w.js.UpdateStream(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

// follow applies the fix of a finding, if it is a command or a key with its value, and reports whether it was.
func (w *ward) follow(f admin.Finding) bool {
	w.Helper()
	words := strings.Fields(strings.ReplaceAll(f.Command, "'", "")) // a shell removes the quotes
	switch {
	case len(words) > 0 && words[0] == "nats":
		w.nats(words[1:])
	case len(words) > 1 && words[0] == "embedd" && words[1] == "setup" && words[2] == "--apply":
		verb(w.T, 0, words[1:]...)
	case f.Key != "" && f.Value != "":
		key := f.Key[strings.LastIndexByte(f.Key, '.')+1:]
		at := strings.Index(w.config, key+": ") + len(key) + 2
		end := at + strings.IndexAny(w.config[at:], ",}")
		value := f.Value
		if strings.HasPrefix(value, "./") {
			value = filepath.Join(w.dir, value) // the test's working directory is not the daemon's
		}
		w.config = w.config[:at] + value + w.config[end:]
	default:
		return false
	}
	return true
}

// TestDoctor plants faults, each in a configuration and a server without others. Doctor finds it, and after its fix it
// is gone. If the fix is a command or a key, the test applies it literally; else repair does it.
func TestDoctor(t *testing.T) {
	t.Parallel()
	full := func(name string) func(*ward) {
		return func(w *ward) {
			w.stream(jetstream.StreamConfig{Name: name, MaxMsgs: 2, Discard: jetstream.DiscardNew})
			w.publish(strings.ToLower(name)+".x", nil)
			w.publish(strings.ToLower(name)+".x", nil)
		}
	}
	missing := func(name string) func(*ward) { return func(w *ward) { w.remove(name) } }
	for _, c := range []struct {
		name   string
		plant  func(*ward)
		check  string // where it is found
		words  string // part of its text
		repair func(*ward)
	}{
		{"a key that does not exist", func(w *ward) { w.change("ack_wait", "akc_wait") }, "configuration", "ack_wait",
			func(w *ward) { w.change("akc_wait", "ack_wait") }},
		{"a value out of range", func(w *ward) { w.change("ack_wait: 20s", "ack_wait: -1s") }, "configuration", "ack_wait",
			func(w *ward) { w.change("-1s", "20s") }},
		{"a model file that is not there", func(w *ward) { w.change("{method: lda, store: auto}", "{file: gone.embedd}") },
			"configuration", "gone.embedd", func(w *ward) { w.change("{file: gone.embedd}", "{method: lda, store: auto}") }},
		{"the port is taken", func(w *ward) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				w.Fatal(err)
			}
			w.Cleanup(func() { l.Close() })
			w.change("listen: 127.0.0.1:0", "listen: "+l.Addr().String())
		}, "port", "in use by another program", nil},
		{"no server", func(w *ward) { w.stop() }, "connection", "no NATS server answers",
			func(w *ward) { w.start(); w.streams() }},
		{"a wrong password", func(w *ward) { w.change(password, "wrong") }, "connection", "refused the credentials",
			func(w *ward) { w.change("wrong", password) }},
		{"no JetStream", func(w *ward) { w.restart(func(o *server.Options) { o.JetStream = false }) }, "jetstream",
			"no JetStream", func(w *ward) {
				w.restart(func(o *server.Options) { o.JetStream = true })
				w.streams()
			}},
		{"messages too small for models", func(w *ward) {
			w.restart(func(o *server.Options) { o.MaxPayload = 64 << 10 })
			w.streams()
		}, "payload", "chunks of 128.0 KiB", nil},
		{"the disk of JetStream is full", func(w *ward) {
			c := `accounts: {A: {jetstream: {max_memory: 100KB, max_file: 1MB},
users: [{user: test}, {user: embedd, password: ` + password + `}]}}
no_auth_user: test`
			path := filepath.Join(w.dir, "server.conf")
			if err := os.WriteFile(path, []byte(c), 0o600); err != nil {
				w.Fatal(err)
			}
			o, err := server.ProcessConfigFile(path)
			if err != nil {
				w.Fatal(err)
			}
			w.restart(func(was *server.Options) {
				o.Host, o.Port, o.NoSigs, o.NoLog, o.JetStream, o.StoreDir = was.Host, was.Port, true, true, true, was.StoreDir
				*was = *o
			})
			w.streams()
			if _, err := w.js.CreateStream(w.Context(), jetstream.StreamConfig{Name: "OTHER",
				Subjects: []string{"other"}}); err != nil {
				w.Fatal(err)
			}
			w.publish("other", make([]byte, 980<<10))
		}, "disk", "of the 1.0 MiB", missing("OTHER")},
		{"no input stream", missing("FEATURES"), "input", "FEATURES does not exist", nil},
		{"another stream has the input", func(w *ward) {
			w.remove("FEATURES")
			w.stream(jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"features.*"}})
		}, "input", "stream OTHER takes features.digits", nil},
		{"no output stream", missing("REDUCED"), "output", "no stream takes reduced.digits", nil},
		{"no stream of dead letters", missing("DEAD"), "dead letters", "no stream takes dead.digits", nil},
		{"no stream of labels", func(w *ward) {
			w.change("subject: features.digits}", "subject: features.digits, labels: labels.digits}")
			w.change("label: label}", "label: label, key: id}")
		}, "labels", "no stream takes labels.digits", nil},
		{"the input stream takes another subject", func(w *ward) {
			w.stream(jetstream.StreamConfig{Name: "FEATURES", Subjects: []string{"features.other"}})
		}, "input", "takes features.other and not features.digits", nil},
		{"the input stream keeps one message of a subject", func(w *ward) {
			w.stream(jetstream.StreamConfig{Name: "FEATURES", MaxMsgsPerSubject: 1})
		}, "input", "only the newest 1 messages", nil},
		{"the input stream forgets", func(w *ward) {
			w.stream(jetstream.StreamConfig{Name: "FEATURES", MaxAge: 10 * time.Second, Duplicates: 10 * time.Second})
		}, "input", "for 10s", nil},
		{"the input stream has no place for a consumer", func(w *ward) {
			w.stream(jetstream.StreamConfig{Name: "FEATURES", MaxConsumers: 1})
			if _, err := w.js.CreateConsumer(w.Context(), "FEATURES", jetstream.ConsumerConfig{Durable: "other"}); err != nil {
				w.Fatal(err)
			}
		}, "consumer", "allows 1 consumers", func(w *ward) {
			if err := w.js.DeleteConsumer(w.Context(), "FEATURES", "other"); err != nil {
				w.Fatal(err)
			}
		}},
		{"the consumer is another pipeline's", func(w *ward) {
			if _, err := w.js.CreateConsumer(w.Context(), "FEATURES", jetstream.ConsumerConfig{Durable: "embedd_digits",
				FilterSubject: "features.other", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
				w.Fatal(err)
			}
		}, "consumer", "features.other", nil},
		{"a full output", full("REDUCED"), "output", "its limit is 2 messages", nil},
		{"full dead letters", full("DEAD"), "dead letters", "its limit is 2 messages", nil},
		{"a sealed output", func(w *ward) {
			s, err := w.js.Stream(w.Context(), "REDUCED")
			if err != nil {
				w.Fatal(err)
			}
			c := s.CachedInfo().Config
			c.Sealed = true
			if _, err := w.js.UpdateStream(w.Context(), c); err != nil {
				w.Fatal(err)
			}
		}, "output", "sealed", func(w *ward) { w.stream(jetstream.StreamConfig{Name: "REDUCED"}) }},
		{"an output that confirms nothing", func(w *ward) {
			w.stream(jetstream.StreamConfig{Name: "REDUCED", NoAck: true})
		}, "output", "confirms nothing", nil},
		{"an output for small messages", func(w *ward) {
			w.stream(jetstream.StreamConfig{Name: "REDUCED", MaxMsgSize: 2000})
		}, "output", "up to 2000 bytes", nil},
		{"an output without a subscriber", func(w *ward) {
			w.stream(jetstream.StreamConfig{Name: "REDUCED", Retention: jetstream.InterestPolicy})
		}, "output", "and it has none", func(w *ward) {
			if _, err := w.js.CreateConsumer(w.Context(), "REDUCED", jetstream.ConsumerConfig{Durable: "reader"}); err != nil {
				w.Fatal(err)
			}
		}},
		{"a short duplicate window", func(w *ward) {
			w.stream(jetstream.StreamConfig{Name: "REDUCED", Duplicates: 5 * time.Second})
		}, "output", "has a duplicate window of 5s", nil},
		{"no right to publish outputs", func(w *ward) { w.grant(deny("reduced.>")) }, "permissions", `"reduced.digits"`,
			func(w *ward) { w.grant(nil) }},
		{"no right to ask for the stream", func(w *ward) { w.grant(deny("$JS.API.STREAM.INFO.FEATURES")) }, "permissions",
			`"$JS.API.STREAM.INFO.FEATURES"`, func(w *ward) { w.grant(nil) }},
		{"no right to make the consumer", func(w *ward) { w.grant(deny("$JS.API.CONSUMER.CREATE.FEATURES.>")) },
			"permissions",
			`"$JS.API.CONSUMER.CREATE.FEATURES.embedd_digits.features.digits"`, func(w *ward) { w.grant(nil) }},
		{"a clock that is wrong", func(w *ward) {
			w.clock = func() time.Time { return time.Now().Add(-3 * time.Hour) }
		}, "clock", "3h0m0s ahead", func(w *ward) { w.clock = nil }},
		{"a store that is no directory", func(w *ward) {
			path := filepath.Join(w.dir, "models")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				w.Fatal(err)
			}
			w.change("store: auto", "store: "+path)
		}, "store", "is not a directory", func(w *ward) {
			w.change("store: "+filepath.Join(w.dir, "models"), "store: auto")
		}},
		{"a damaged pointer to the live model", func(w *ward) {
			dir := filepath.Join(w.dir, "models", "digits")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				w.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "pointer-1.json"), []byte(`{"format":2,"li`), 0o600); err != nil {
				w.Fatal(err)
			}
			w.change("store: auto", "store: "+filepath.Join(w.dir, "models"))
		}, "store", "damaged", func(w *ward) {
			if err := os.RemoveAll(filepath.Join(w.dir, "models")); err != nil {
				w.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			if faults, report := w.examine(); len(faults) > 0 {
				t.Fatalf("a healthy patient has faults:\n%s", report)
			}
			c.plant(w)
			faults, report := w.examine()
			var found *admin.Finding
			for i, f := range faults {
				if f.Check == c.check && strings.Contains(f.Text, c.words) {
					found = &faults[i]
				}
			}
			if found == nil || len(faults) > 1 {
				t.Fatalf("no fault of %s says %q, or there are others:\n%s", c.check, c.words, report)
			}
			if w.follow(*found) {
				if c.repair != nil {
					t.Errorf("the fix should not be a command: %v", *found)
				}
			} else if c.repair == nil {
				t.Fatalf("the fix is neither a command nor a key: %v", *found)
			} else {
				c.repair(w)
			}
			if faults, report := w.examine(); len(faults) > 0 {
				t.Errorf("after the fix %q %q %s=%s there is still a fault:\n%s", found.Fix, found.Command, found.Key,
					found.Value, report)
			}
		})
	}
}

// TestDoctorUsage: a missing file is a usage error, not a fault.
func TestDoctorUsage(t *testing.T) {
	code, _, errs := call(context.Background(), "doctor", "-c", filepath.Join(t.TempDir(), "gone.yaml"))
	if code != 2 || !strings.Contains(errs, "no configuration") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestDoctorOfModelFiles: each fault of a model file, or of the features that it has, is a finding with its own fix.
func TestDoctorOfModelFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := fitted(t, writeFile(t, dir, "rows.csv", "x,y,label\n1,2,a\n2,3,b\n3,1,a\n4,4,b\n"), "pca", "--dim", "1")
	path := writeFile(t, dir, "embedd.yaml", `http: {listen: 127.0.0.1:0}
pipelines:
  a: {schema: {features: [z]}, model: {file: `+m+`}}
  b: {schema: {features: [x, y]}, model: {file: `+writeFile(t, dir, "junk.embedd", "no model")+`}}
`)
	code, stdout, stderr := call(t.Context(), "doctor", "-c", path, "--json")
	var faults []admin.Finding
	for line := range strings.Lines(stdout) {
		var f admin.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%v in %s", err, stdout)
		}
		if f.Level == admin.LevelFault {
			faults = append(faults, f)
		}
	}
	if code != 3 || len(faults) != 2 || !strings.Contains(faults[0].Text, "write features: [") ||
		faults[0].Fix != "" || !strings.Contains(faults[1].Text, "not a model file") ||
		!strings.Contains(faults[1].Fix, "embedd fit") {
		t.Errorf("exit %d: %+v %s", code, faults, stderr)
	}
}
