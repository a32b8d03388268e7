package main

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/engine"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

func schemaCommand(e *cli.Env) *cobra.Command {
	return cli.Group("schema show|reset", "show and reset the stored schema of a pipeline", schemaShowCommand(e),
		schemaResetCommand(e))
}

// deploymentFlags are the flags of verbs that work on a configuration and its server.
type deploymentFlags struct {
	path  *string
	where *client.Address
}

func deploymentFlagsOf(f *cli.Flags) deploymentFlags {
	return deploymentFlags{f.StringP("config", "c", "embedd.yaml", "configuration `FILE`"),
		client.AddressFlags(f, "NATS `URL`, instead of NATS_URL and nats.url of the file")}
}

// read returns the configuration, its pipelines, and the server that it or the command line names.
func (s deploymentFlags) read() (c *config.Config, pipelines []stream.Pipeline, n config.NATS, err error) {
	if c, err = client.LoadConfig(*s.path); err != nil {
		return nil, nil, n, err
	}
	if pipelines, err = engine.Pipelines(c); err != nil {
		return nil, nil, n, cli.Usagef("%w", err)
	}
	n, err = s.where.Apply(c.NATS)
	return c, pipelines, n, err
}

// open returns the pipeline with a name and a connection to the server; js is nil for a pipeline on core NATS.
func (s deploymentFlags) open(ctx context.Context, e *cli.Env, name string) (p stream.Pipeline, nc *connection.Conn,
	js jetstream.JetStream, err error) {
	c, pipelines, n, err := s.read()
	if err != nil {
		return p, nil, nil, err
	}
	at := slices.IndexFunc(pipelines, func(one stream.Pipeline) bool { return one.Name == name })
	if at < 0 {
		return p, nil, nil, client.UnknownPipeline(*s.path, name, c)
	}
	p = pipelines[at]
	nc, err = client.Dial(ctx, e, client.WithDefaultURL(n))
	if p.Stream == "" || err != nil {
		if p.Stream == "" {
			err = nil // the schema is a file; a daemon is only needed for its count
		}
		return p, nc, nil, err
	}
	js, err = nc.JetStream()
	return p, nc, js, err
}

// shownSchema is the output of `embedd schema show --format json`.
type shownSchema struct {
	admin.Schema
	Counting *stream.SchemaCount `json:"counting,omitempty"` // of a running daemon
}

func schemaShowCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("show PIPELINE", "show the stored schema of a pipeline, or how far the count of its messages is",
		1, 1)
	cmd.ValidArgsFunction = cli.CompleteArguments(client.Pipelines)
	flags := deploymentFlagsOf(f)
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		p, nc, js, err := flags.open(ctx, e, names[0])
		if err != nil {
			return err
		}
		shown := shownSchema{}
		if shown.Schema, err = admin.ReadSchema(ctx, js, p); err != nil {
			return err
		}
		if shown.Contract == nil && nc != nil {
			shown.Counting = runningCount(ctx, nc, p.Name)
		}
		if out.JSON {
			return out.Object(shown)
		}
		return printSchema(out, shown)
	}
	return cmd
}

// runningCount is the count of the trainer, or of any daemon that runs the pipeline; nil if none answers.
func runningCount(ctx context.Context, nc *connection.Conn, name string) (count *stream.SchemaCount) {
	reports, _ := client.Reports(ctx, nc.Conn, name)
	for _, r := range reports {
		if r.Schema.Counting != nil && (count == nil || r.IsTrainer) {
			count = r.Schema.Counting
		}
	}
	return count
}

func printSchema(out *report.Output, s shownSchema) error {
	t := out.Table()
	t.Row("pipeline", s.Pipeline)
	t.RowIf(s.Generation > 0, "generation", s.Generation)
	t.RowIf(s.After > 0, "since", fmt.Sprintf("message %d of the input stream", s.After+1))
	c := s.Contract
	if c == nil {
		t.Row("state", "not known yet: messages are counted, and the most frequent schema is stored with the first model")
		if err := t.Flush(); err != nil {
			return err
		}
		return printCount(out, s.Counting)
	}
	t.Row("label", report.OrDash(c.Label()))
	t.Row("key", report.OrDash(c.Key()))
	t.Row("features", c.Len())
	if err := t.Flush(); err != nil {
		return err
	}
	out.Printf("\n")
	t = out.Table("COLUMN", "ELEMENTS", "NUMBERS")
	const maxRows = 40
	columns := c.Columns()
	for i, column := range columns {
		if i == maxRows {
			t.Row(fmt.Sprintf("... %d more", len(columns)-maxRows))
			break
		}
		t.Row(column.Name, max(1, column.Size), report.OrDash(column.Number))
	}
	return t.Flush()
}

// printCount prints the candidates for a schema that a daemon reported.
func printCount(out *report.Output, count *stream.SchemaCount) error {
	if count == nil {
		out.Printf("no running daemon reports a count\n")
		return nil
	}
	out.Printf("\n")
	t := out.Table("COLUMNS", "FEATURES", "MESSAGES", "ROWS", "FIRST MESSAGE")
	for _, c := range count.Candidates {
		t.Row(c.Columns, c.Features, c.Messages, c.Rows, c.First)
	}
	t.RowIf(count.Other > 0, "others", "-", count.Other)
	if err := t.Flush(); err != nil {
		return err
	}
	out.Printf("messages counted: %d\n", count.Messages)
	return nil
}

// resetSchema is the output of `embedd schema reset --format json`.
type resetSchema struct {
	Before admin.Schema `json:"before"`
	After  admin.Schema `json:"after"`
}

func schemaResetCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset PIPELINE",
		Short: "replace the stored schema of a pipeline, and begin a new epoch",
		Long: "Replace the stored schema of a pipeline. The next one is counted from the messages that come after now, or " +
			"is the one\n" +
			"that schema.features fixes with sizes. The live model is retired and the next one begins a new epoch; inputs " +
			"wait until\n" +
			"it exists (see training.until_ready). Running daemons follow. The command says what it will do, and asks.",
	}
	return resetting(e, cmd, "schema", func(ctx context.Context, r resetRun) error {
		plan, err := admin.PlanSchemaReset(ctx, r.js, r.p)
		if err != nil {
			return err
		}
		if plan.Contract != nil && plan.Contract.Equal(plan.Before.Contract) {
			return r.out.Result(resetSchema{plan.Before, plan.Before},
				"%s: the stored schema is the one that schema.features fixes: nothing to do\n", r.p.Name)
		}
		if err := r.confirm(resetText(plan)); err != nil {
			return err
		}
		after, err := plan.Apply(ctx, r.js)
		if err != nil {
			return err
		}
		return r.out.Result(resetSchema{plan.Before, after}, "%s: the schema was reset, generation %d\n", r.p.Name,
			after.Generation)
	})
}

// resetRun is a run of a verb that resets what is stored of a pipeline.
type resetRun struct {
	p       stream.Pipeline
	nc      *connection.Conn // nil for a pipeline on core NATS that no server was found for
	js      jetstream.JetStream
	out     *report.Output
	confirm func(text string) error // asks whether to do what the text describes
}

// resetting completes a verb that resets something of a pipeline.
func resetting(e *cli.Env, cmd *cobra.Command, what string, run func(context.Context, resetRun) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cli.Arguments(1, 1), cli.CompleteArguments(client.Pipelines)
	f := cli.FlagsOf(cmd)
	flags := deploymentFlagsOf(f)
	yes := f.Bool("yes", false, "do not ask")
	out := report.Flag(f, e)
	verb := what + " reset"
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if !*yes && !cli.IsTerminal(e.Stdin) {
			return cli.Usagef("%s: the standard input is not a terminal, so there is no one to confirm: add --yes", verb)
		}
		p, nc, js, err := flags.open(cmd.Context(), e, names[0])
		if err != nil {
			return err
		}
		confirm := func(text string) error {
			e.Print(text)
			if *yes {
				return nil
			}
			return confirmed(cmd.Context(), e, what)
		}
		return run(cmd.Context(), resetRun{p, nc, js, out, confirm})
	}
	return cmd
}

// confirmed asks whether to reset something of a pipeline. A signal ends the question.
func confirmed(ctx context.Context, e *cli.Env, what string) error {
	e.Print("Reset the " + what + "? [y/N] ")
	answer, _ := bufio.NewReader(e.Input(ctx)).ReadString('\n')
	if err := ctx.Err(); err != nil {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return cli.Checkf("%s reset: nothing was changed", what)
	}
	return nil
}

// resetText describes what a reset will do.
func resetText(plan *admin.SchemaReset) string {
	var b strings.Builder
	p := &plan.Pipeline
	if c := plan.Before.Contract; c != nil {
		fmt.Fprintf(&b, "The schema of pipeline %s is %v.\n", p.Name, c)
	} else {
		fmt.Fprintf(&b, "The schema of pipeline %s is not known yet, or cannot be read.\n", p.Name)
	}
	switch {
	case plan.Contract != nil:
		fmt.Fprintf(&b, "- The new schema is %v, from schema.features.\n", plan.Contract)
	case p.Stream == "":
		fmt.Fprintf(&b, "- The new schema is counted from the messages that arrive after the next start.\n")
	default:
		fmt.Fprintf(&b, "- The new schema is counted from message %d of stream %s on.\n", plan.After+1, p.Stream)
	}
	b.WriteString("- A model of the old schema is retired, and the next one begins a new epoch.\n")
	fmt.Fprintf(&b, "- Until a first model exists, inputs are treated as training.until_ready says (%s).\n", untilText(p))
	b.WriteString("- Messages that do not fit the new schema become dead letters with the code schema_changed.\n")
	if p.Stream == "" {
		b.WriteString("- Start the daemon again afterwards: it reads the file of the schema only then.\n")
	}
	return b.String()
}

// untilText explains how inputs are handled while there is no model.
func untilText(p *stream.Pipeline) string {
	switch string(p.Stage.Until) {
	case "skip":
		return "skip: they are acknowledged without an output"
	case "pca":
		return "pca: a PCA answers them as soon as it can be fitted"
	}
	return "hold: they wait"
}
