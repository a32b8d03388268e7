package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/internal/natsx"
)

func tailCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("tail", "print the messages of a subject", 0, 0)
	subject := f.String("subject", "", "`SUBJECT` to read; wildcards are allowed")
	pipeline := f.String("pipeline", "", "read what this pipeline, a `NAME` in the file of -c (default embedd.yaml), "+
		"publishes or reads")
	f.Complete("pipeline", client.Pipelines)
	of := f.Choice("of", "with --pipeline, its `SUBJECT`", "output", "dead", "input", "labels")
	limit := f.Int("limit", 0, "stop after this many `MESSAGES`; 0 is no limit")
	rows := f.Int("rows", 3, "`ROWS` of each message to show; -1 is all")
	all := f.Bool("all", false, "start with the first message in the stream of the subject")
	server := client.ServerFlags(f, "")
	out := report.Flag(f, e)
	f.Exclusive("subject", "pipeline")
	cmd.Use += " --subject SUBJECT|--pipeline NAME"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		switch {
		case *pipeline != "":
			p, err := server.Pipeline(*pipeline)
			if err != nil {
				return err
			}
			*subject = map[string]string{"output": p.OutputPattern(), "dead": p.Output.Dead, "input": p.Input.Subject,
				"labels": p.Input.Labels}[*of]
			if *subject == "" {
				return cli.Usagef("tail: pipeline %s has no input.labels: its labels are in the messages of its input", p.Name)
			}
		case *subject == "":
			return cli.Usagef("tail: --subject or --pipeline is required: usage: %s", cmd.UseLine())
		}
		if err := checkSubject("tail", *subject, true); err != nil {
			return err
		}
		if *limit < 0 {
			return cli.Usagef("tail: --limit %d: want 0, which is no limit, or more", *limit)
		}
		nc, err := server.Dial(ctx, e)
		if err != nil {
			return err
		}
		n := 0
		done := make(chan error, 1)
		// show prints a message and reports whether to continue.
		show := func(msg *nats.Msg, at time.Time) bool {
			n++
			err := printMessage(out, message{Subject: msg.Subject, Time: at, Headers: msg.Header, Bytes: len(msg.Data)},
				msg.Data, *rows)
			if err != nil || n == *limit {
				done <- err
				return false
			}
			return true
		}
		if *all {
			js, err := nc.JetStream()
			if err != nil {
				return err
			}
			if err := natsx.Follow(ctx, js, *subject, show); err != nil {
				return err
			}
			return <-done
		}
		// Use a callback: the synchronous API takes messages with a Status header for those of the server.
		more := true
		sub, err := nc.Subscribe(*subject, func(msg *nats.Msg) { more = more && show(msg, time.Now()) })
		if err != nil {
			return err
		}
		defer sub.Unsubscribe()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return cmd
}

// message is one line of `embedd tail --format json`.
type message struct {
	Subject string            `json:"subject"`
	Time    time.Time         `json:"time"`
	Headers nats.Header       `json:"headers"`
	Bytes   int               `json:"bytes"`
	Rows    int               `json:"rows"`
	Schema  []string          `json:"schema"`
	Data    []json.RawMessage `json:"data"`
	Error   string            `json:"error,omitempty"` // why the message cannot be decoded
}

func printMessage(out *report.Output, m message, data []byte, most int) error {
	if err := m.read(data, most); err != nil {
		m.Error = err.Error()
	}
	if out.JSON {
		return out.Object(m)
	}
	out.Printf("%s  %s  %d rows, %d bytes\n", m.Time.Format("15:04:05.000"), m.Subject, m.Rows, m.Bytes)
	for _, k := range slices.Sorted(maps.Keys(m.Headers)) {
		out.Printf("  %s: %s\n", k, strings.Join(m.Headers[k], ", "))
	}
	if len(m.Schema) > 0 {
		out.Printf("  %s\n", strings.Join(m.Schema, ", "))
	}
	if m.Error != "" {
		out.Printf("  not shown: %s\n", m.Error)
		return nil
	}
	for _, row := range m.Data {
		out.Printf("  %s\n", report.Shorten(string(row), 200))
	}
	if len(m.Data) < m.Rows {
		out.Printf("  ... %d more\n", m.Rows-len(m.Data))
	}
	return nil
}

// format returns the format that the headers name, or that the first byte suggests.
func (m *message) format(data []byte) wire.Format {
	if f := wire.FormatOf(m.Headers.Get(wire.HeaderContentType)); f != "" {
		return f
	}
	if f := formatOf(data); f != wire.FormatCSV {
		return f
	}
	return wire.FormatArrow
}

// readText is read for JSON, NDJSON and CSV.
func (m *message) readText(data []byte, f wire.Format, most int) error {
	d, err := arrowio.NewDecoder(arrowio.Spec{Format: f})
	if err != nil {
		return err
	}
	rows, err := d.Decode(data, nil)
	if err != nil {
		return err
	}
	m.Rows = rows.Rows()
	for _, c := range rows.Fields() {
		m.Schema = append(m.Schema, c.Name+": "+c.Holds)
	}
	lines, err := arrowio.Text(rows, wire.FormatNDJSON)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(lines) {
		if most >= 0 && len(m.Data) == most {
			break
		}
		m.Data = append(m.Data, bytes.TrimSpace(line))
	}
	return nil
}

// read fills in the rows, the schema and the first rows as JSON.
func (m *message) read(data []byte, most int) (err error) {
	// Arrow panics when it prints some values, such as NaN in a list.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its values cannot be printed: %v", p)
		}
	}()
	m.Data = []json.RawMessage{}
	if f := m.format(data); f.IsText() {
		return m.readText(data, f, most)
	}
	check, err := arrowio.NewDecoder(arrowio.Spec{})
	if err != nil {
		return err
	}
	if _, err := check.Decode(data, nil); err != nil {
		return err
	}
	schema, records, err := arrowio.Records(data)
	if err != nil {
		return err
	}
	for _, f := range schema.Fields() {
		m.Schema = append(m.Schema, f.Name+": "+f.Type.String())
	}
	for _, r := range records {
		m.Rows += int(r.NumRows())
		if left := int64(most - len(m.Data)); most < 0 || left > 0 {
			n := r.NumRows()
			if most >= 0 {
				n = min(n, left)
			}
			part := r.NewSlice(0, n)
			text, err := part.MarshalJSON()
			part.Release()
			if err != nil {
				return err
			}
			var rows []json.RawMessage
			if err := json.NewDecoder(bytes.NewReader(text)).Decode(&rows); err != nil {
				return err
			}
			m.Data = append(m.Data, rows...)
		}
		r.Release()
	}
	return nil
}
