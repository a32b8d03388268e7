package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/engine"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream/admin"
)

// finding is one line of `embedd check --format json`.
type finding struct {
	Level string `json:"level"` // error or note
	config.Problem
}

// verdict is the last line of `embedd check --format json`.
type verdict struct {
	File      string   `json:"file"`
	Valid     bool     `json:"valid"`
	Errors    int      `json:"errors"`
	Notes     int      `json:"notes"`
	Server    string   `json:"server,omitempty"`
	Pipelines []string `json:"pipelines"`
}

func checkCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("check", "check a configuration file", 0, 0)
	path := f.StringP("config", "c", "embedd.yaml", "`FILE` to check")
	where := client.AddressFlags(f, "NATS `URL`: compare with the streams of this server; without a value, of the "+
		"configured one").OrConfigured(f)
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := client.LoadConfig(*path)
		if err == nil {
			err = compare(cmd.Context(), e, where, *path, c)
		}
		var problems config.Problems
		if err != nil && (!errors.As(err, &problems) || !out.JSON) {
			return err
		}
		if out.JSON {
			v := verdict{File: *path, Valid: err == nil, Errors: len(problems), Pipelines: []string{}}
			level, found := "error", problems
			if v.Valid {
				level, found, v.Notes, v.Server = "note", c.Notes, len(c.Notes), serverOf(c.NATS)
				v.Pipelines = c.Names()
			}
			for _, p := range found {
				if err := out.Object(finding{level, p}); err != nil {
					return err
				}
			}
			if err := out.Object(v); err != nil || v.Valid {
				return err
			}
			return cli.Usagef("%s: errors: %d", *path, len(problems))
		}
		for _, n := range c.Notes {
			out.Printf("%s:%d:%d: note: %s: %s\n", n.File, n.Line, n.Column, n.Key, n.Message)
		}
		out.Printf("%s is valid. server: %s\n", *path, serverOf(c.NATS))
		t := out.Table("PIPELINE", "READS", "STREAM", "WRITES", "MODEL")
		for _, p := range c.Pipelines {
			stream, what := cmp.Or(p.Input.Stream, "(core NATS)"), p.Model.Method
			switch {
			case p.Model.File != "":
				what = p.Model.File
			case p.Model.Dim > 0:
				what = fmt.Sprintf("%s, %d dimensions", what, p.Model.Dim)
			}
			t.Row(p.Name, p.Input.Subject, stream, p.Output.Subject, what)
		}
		return t.Flush()
	}
	return cmd
}

// compare compares the configuration with the model files that it names and, if the command line names a server, with
// its streams and with the configuration that the pipelines last had: it adds a note for each that does not match.
func compare(ctx context.Context, e *cli.Env, where *client.Address, path string, c *config.Config) error {
	pipelines, err := engine.Pipelines(c)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	if !where.IsSet() {
		return nil
	}
	n, err := where.Apply(c.NATS)
	if err != nil {
		return err
	}
	js, err := client.JetStream(client.Dial(ctx, e, client.WithDefaultURL(n)))
	if err != nil {
		return err
	}
	for _, p := range pipelines {
		changes, err := admin.CompareConfiguration(ctx, js, p)
		if err != nil {
			return err
		}
		for _, change := range changes {
			c.Notes = append(c.Notes, c.Problem(p.Name, change.Key, "%s", strings.TrimPrefix(change.NextText(p.Name),
				change.Key+" ")))
		}
	}
	plans, err := engine.Streams(c.NATS).Setup(ctx, js, pipelines, false)
	for _, p := range plans {
		for _, text := range []string{p.Problem, warningOf(c.NATS, p)} {
			if text != "" {
				c.Notes = append(c.Notes, config.Problem{File: path, Line: 1, Column: 1, Key: "nats", Message: text})
			}
		}
	}
	return err
}

// serverOf names the configured server, without secrets.
func serverOf(n config.NATS) string {
	switch {
	case n.Context != "":
		return "context " + n.Context
	case n.URL != "":
		return n.Redacted()
	}
	return "embedded"
}
