package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/admin"
)

// send publishes messages of rows with columns id, x, y and label to the input.
func (w *ward) send(messages int) {
	w.Helper()
	rows := writeFile(w.T, w.dir, "rows.csv", labelledRows(2*messages))
	code, _, errs := call(w.Context(), "publish", "--data", rows, "--server", w.server.ClientURL(),
		"--subject", "features.digits", "--label", "label", "--batch", "2")
	if code != 0 {
		w.Fatalf("publish ended with %d: %s", code, errs)
	}
}

// edit changes a stream as `nats stream edit` does.
func (w *ward) edit(name string, change func(*jetstream.StreamConfig)) {
	w.Helper()
	s, err := w.js.Stream(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	c := s.CachedInfo().Config
	change(&c)
	if _, err := w.js.UpdateStream(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

// letters stores dead letters.
func (w *ward) letters(n int) {
	w.Helper()
	for range n {
		msg := &nats.Msg{Subject: "dead.digits", Header: nats.Header{wire.HeaderError: {"the column pixels is missing"}}}
		if _, err := w.js.PublishMsg(w.Context(), msg); err != nil {
			w.Fatal(err)
		}
	}
}

// TestPlantedMistakes: doctor finds each mistake of an operator, and the fix that it prints works when it is applied
// literally; where it prints none that can be, repair does what it says.
func TestPlantedMistakes(t *testing.T) {
	t.Parallel()
	stream := func(c jetstream.StreamConfig) func(*ward) { return func(w *ward) { w.stream(c) } }
	edit := func(name string, change func(*jetstream.StreamConfig)) func(*ward) {
		return func(w *ward) { w.edit(name, change) }
	}
	limits := func(text string) func(*ward) {
		return func(w *ward) { w.account(text); w.streams() }
	}
	for _, c := range []struct {
		name   string
		plant  func(*ward)
		words  string // part of the finding
		repair func(*ward)
	}{
		{"a limit of messages without an acknowledgement", edit("FEATURES", func(c *jetstream.StreamConfig) {
			c.ConsumerLimits.MaxAckPending = 1
		}), "allows 1 messages without an acknowledgement", nil},
		{"a limit of inactive consumers", edit("FEATURES", func(c *jetstream.StreamConfig) {
			c.ConsumerLimits.InactiveThreshold = 10 * time.Second
		}), "nothing pulls from for 10s", nil},
		{"an account with three streams", limits("max_streams: 3"), "raise max_streams of the account to 7",
			limits("max_streams: 7")},
		{"an account with one consumer a stream", func(w *ward) {
			w.account("max_consumers: 1")
			w.streams()
			w.consumer("FEATURES", "other")
		}, "allows 1 consumers", func(w *ward) { _ = w.js.DeleteConsumer(w.Context(), "FEATURES", "other") }},
		{"a server with few subscriptions", func(w *ward) {
			w.restart(func(o *server.Options) { o.MaxSubs = 12 })
			w.streams()
		}, "raise max_subscriptions", func(w *ward) {
			w.restart(func(o *server.Options) { o.MaxSubs = 64 })
			w.streams()
		}},
		{"features that are misspelt", func(w *ward) { w.send(16) },
			"16 of the next 16 messages of features.digits cannot be read", nil},
		{"features that are misspelt, and answered", func(w *ward) {
			w.send(16)
			c := w.consumer("FEATURES", "embedd_digits")
			batch, err := c.Fetch(16, jetstream.FetchMaxWait(ample))
			if err != nil {
				w.Fatal(err)
			}
			for m := range batch.Messages() {
				if err := m.DoubleAck(w.Context()); err != nil {
					w.Fatal(err)
				}
			}
		}, "16 of the newest 16 messages of features.digits cannot be read", nil},
		{"messages that are no Arrow", func(w *ward) {
			for range 16 {
				w.publish("features.digits", []byte("1,2,3\n"))
			}
		}, "16 of the next 16 messages", func(w *ward) { w.stream(jetstream.StreamConfig{Name: "FEATURES"}) }},
		{"a label that is misspelt", func(w *ward) {
			w.change("[pixels], label: label", "[x, y], label: lable")
			w.send(16)
		}, `column "lable": nothing is learned; in addition to features they have id, label`,
			func(w *ward) { w.change("lable", "label") }},
		{"labels without a sender", func(w *ward) {
			w.change("subject: features.digits}", "subject: features.digits, labels: labels.digits}")
			w.change("[pixels], label: label", "[x, y], key: id")
			w.stream(jetstream.StreamConfig{Name: "LABELS"})
			w.send(100)
		}, "has no message of labels on labels.digits", func(w *ward) { w.publish("labels.digits", nil) }},
		{"a minute of inputs", stream(jetstream.StreamConfig{Name: "FEATURES", MaxAge: time.Minute,
			Duplicates: time.Minute}), "keeps messages for 1m0s", nil},
		{"small inputs", stream(jetstream.StreamConfig{Name: "FEATURES", MaxMsgSize: 100}), "up to 100 bytes", nil},
		{"ten inputs", stream(jetstream.StreamConfig{Name: "FEATURES", MaxMsgs: 10}), "only the newest 10 messages", nil},
		{"few bytes of inputs", stream(jetstream.StreamConfig{Name: "FEATURES", MaxBytes: 64 << 10}),
			"only the newest 64.0 KiB", nil},
		{"a full input", func(w *ward) {
			w.stream(jetstream.StreamConfig{Name: "FEATURES", MaxMsgs: 2, Discard: jetstream.DiscardNew})
			w.publish("features.other", nil)
			w.publish("features.other", nil)
		}, "is full: its limit is 2 messages", nil},
		{"a sealed input", edit("FEATURES", func(c *jetstream.StreamConfig) { c.Sealed = true }), "is sealed",
			stream(jetstream.StreamConfig{Name: "FEATURES"})},
		{"an input that confirms nothing", stream(jetstream.StreamConfig{Name: "FEATURES", NoAck: true}),
			"no publisher knows", nil},
		{"a full stream of labels", func(w *ward) {
			w.change("subject: features.digits}", "subject: features.digits, labels: labels.digits}")
			w.change("label: label", "key: id")
			w.stream(jetstream.StreamConfig{Name: "LABELS", MaxMsgs: 1, Discard: jetstream.DiscardNew})
			w.publish("labels.digits", nil)
		}, "is full: its limit is 1 messages", nil},
		{"a paused consumer", func(w *ward) {
			w.consumer("FEATURES", "embedd_digits")
			if _, err := w.js.PauseConsumer(w.Context(), "FEATURES", "embedd_digits", time.Now().Add(time.Hour)); err != nil {
				w.Fatal(err)
			}
		}, "is paused: nothing is answered", nil},
		{"one output of a subject", stream(jetstream.StreamConfig{Name: "REDUCED", MaxMsgsPerSubject: 1}),
			"only the newest 1 messages of a subject", nil},
		{"ten dead letters", stream(jetstream.StreamConfig{Name: "DEAD", MaxMsgs: 10}), "only the newest 10 messages", nil},
		{"seconds of outputs", stream(jetstream.StreamConfig{Name: "REDUCED", MaxAge: 30 * time.Second,
			Duplicates: 30 * time.Second}), "keeps messages for 30s", func(w *ward) {
			w.edit("REDUCED", func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = 24*time.Hour, 2*time.Minute })
		}},
		{"dead letters alone", func(w *ward) { w.letters(20) }, "20 of the 20 answers", func(w *ward) {
			s, err := w.js.Stream(w.Context(), "DEAD")
			if err != nil {
				w.Fatal(err)
			}
			if err := s.Purge(w.Context()); err != nil {
				w.Fatal(err)
			}
		}},
		{"a consumer without acknowledgements", func(w *ward) {
			if _, err := w.js.CreateConsumer(w.Context(), "FEATURES", jetstream.ConsumerConfig{Durable: "embedd_digits",
				FilterSubject: "features.digits", AckPolicy: jetstream.AckNonePolicy}); err != nil {
				w.Fatal(err)
			}
		}, "is not a pull consumer with explicit acknowledgement", nil},
		{"an output that another stream takes in part", func(w *ward) {
			w.remove("REDUCED")
			w.stream(jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"reduced.other"}})
		}, "no stream takes reduced.digits", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			c.plant(w)
			found := w.find(c.words)
			if found == nil {
				_, report := w.examine()
				t.Fatalf("doctor does not say %q:\n%s", c.words, report)
			}
			if c.repair != nil {
				c.repair(w)
			} else if !w.follow(*found) {
				t.Fatalf("the fix cannot be applied: %+v", *found)
			}
			if found := w.find(c.words); found != nil {
				t.Errorf("after the fix doctor says %+v", *found)
			}
			if faults, report := w.examine(); len(faults) > 0 {
				t.Errorf("after the fix there is a fault:\n%s", report)
			}
		})
	}
}

// find runs doctor and returns the note or fault with a text, or nil.
func (w *ward) find(words string) *admin.Finding {
	w.Helper()
	for _, f := range w.findings() {
		if f.Level != admin.LevelOK && strings.Contains(f.Text, words) {
			return &f
		}
	}
	return nil
}

// account restarts the server with an account that has limits of JetStream.
func (w *ward) account(limits string) {
	w.Helper()
	path := writeFile(w.T, w.dir, "server.conf", `accounts: {A: {jetstream: {`+limits+`},
users: [{user: test}, {user: embedd, password: `+password+`}]}}
no_auth_user: test
listen: 127.0.0.1:`+strconv.Itoa(w.options.Port))
	o, err := server.ProcessConfigFile(path)
	if err != nil {
		w.Fatal(err)
	}
	o.NoSigs, o.NoLog, o.JetStream, o.StoreDir = true, true, true, w.TempDir()
	w.restart(func(was *server.Options) { *was = *o })
}

// consumer creates a durable consumer.
func (w *ward) consumer(stream, name string) jetstream.Consumer {
	w.Helper()
	c, err := w.js.CreateConsumer(w.Context(), stream, jetstream.ConsumerConfig{Durable: name,
		FilterSubject: "features.digits", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		w.Fatal(err)
	}
	return c
}
