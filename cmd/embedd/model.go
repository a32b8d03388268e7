package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/stream/registry"
)

func modelCommand(e *cli.Env) *cobra.Command {
	return cli.Group("model ls|show|diff|pin|unpin|rollback|reset|export NAME",
		"list, show, compare, pin, roll back, reset and export models", modelLsCommand(e), modelShowCommand(e),
		modelDiffCommand(e), changeCommand(e, "pin VERSION|PIPELINE",
			"make a version live and keep it; for a pipeline, its live version", (*registry.Registry).Pin),
		changeCommand(e, "unpin PIPELINE", "let training promote models again", (*registry.Registry).Unpin),
		changeCommand(e, "rollback PIPELINE|VERSION",
			"make the previous or the named version live; training continues from it", (*registry.Registry).Rollback),
		modelResetCommand(e), modelExportCommand(e))
}

func modelLsCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls [PIPELINE]", Short: "list the versions in the model store and the rejected candidates",
		Long: "List the versions in the model store and the rejected candidates. DOOR says how a version went live:\n\n" +
			doorsText(), Args: cli.Arguments(0, 1),
		ValidArgsFunction: cli.CompleteArguments(client.Pipelines),
	}
	f := cli.FlagsOf(cmd)
	where := client.StoreFlags(f)
	out := report.TableFlag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		store, err := where.Open(ctx, e, append(names, "")[0])
		if err != nil {
			return err
		}
		there, err := registry.Pipelines(ctx, store)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			names = there
		} else if !slices.Contains(there, names[0]) {
			return fmt.Errorf("%s has no pipeline %q%s: %w", store, names[0], cli.DidYouMean(names[0], there),
				registry.ErrMissing)
		}
		var lines []registry.Listed
		for _, name := range names {
			p, err := registry.New(store, name, registry.Options{}).Pointer(ctx)
			if err != nil {
				return err
			}
			if p.Damage() != "" {
				e.Print(p.Damage() + "\n")
			}
			lines = append(lines, p.List(name)...)
		}
		return printListed(out, lines)
	}
	return cmd
}

// doorsText lists the doors by which versions go live.
func doorsText() string {
	var b strings.Builder
	t := report.NewTable(&b)
	for _, name := range policy.TrainedDoors() {
		d := policy.DoorNamed(name)
		t.Row("    "+d.Name, d.Key, strings.ReplaceAll(d.Models, "`", ""))
	}
	t.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// printListed prints versions and rejected candidates, the newest last.
func printListed(out *report.Output, lines []registry.Listed) error {
	if out.JSON {
		return report.Objects(out, lines)
	}
	t := out.Table("VERSION", "STATE", "EPOCH", "METHOD", "DIM", "ROWS", "SCORE", "DOOR")
	for _, l := range lines {
		state := l.State
		if l.Pinned {
			state += ", pinned"
		}
		if l.WasReset {
			state += ", reset"
		}
		score := "-"
		if l.Score != nil {
			score = fmt.Sprintf("%.4f", *l.Score)
		}
		why := l.Why
		if !l.Created.IsZero() {
			why = strings.TrimSuffix(l.Created.Format(time.RFC3339)+": "+why, ": ")
		}
		t.Row(report.OrDash(l.Name), state, epochText(l.Epoch, l.SameAs, l.Undecided), report.OrDash(l.Method),
			count(l.Dim), count(l.Rows), score, report.OrDash(l.Door))
		t.Below(why)
	}
	return t.Flush()
}

// epochText is an epoch, and the first epoch that is recorded as one with it or may be comparable with it.
func epochText(epoch, sameAs, undecided int) string {
	switch {
	case sameAs > 0:
		return fmt.Sprintf("%d, same as %d", epoch, sameAs)
	case undecided > 0:
		return fmt.Sprintf("%d, undecided with %d", epoch, undecided)
	}
	return count(epoch)
}

func modelShowCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("show NAME", "show a model: a file, or a version or pipeline in the store", 1, 1)
	where := client.StoreFlags(f)
	cmd.ValidArgsFunction = where.CompleteModels
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		m, err := findModel(ctx, e, names[0], where)
		if err != nil {
			return err
		}
		if out.JSON {
			return out.Object(m)
		}
		return printModel(out, m)
	}
	return cmd
}

func printModel(out *report.Output, m *model.Model) error {
	t := out.Table()
	if v := m.Note().Version; v != "" {
		t.Row("version", v)
	}
	t.Row("digest", m.Digest())
	t.Row("method", m.Method()+settings(m.Params()))
	t.Row("map", fmt.Sprintf("%s, %d features to %d", m.Map(), m.M(), m.Dim()))
	t.Row("informative", fmt.Sprintf("%d of %d outputs", min(m.InformativeRank(), m.Dim()), m.Dim()))
	t.RowIf(len(m.Eigenvalues()) > 0, "eigenvalues", numbers(m.Eigenvalues(), 8))
	t.Row("rows", m.Rows())
	if classes := m.Classes(); len(classes) > 0 {
		t.Row("classes", fmt.Sprintf("%d: %s", len(classes), cli.Listed(classes)))
	}
	note := m.Note()
	t.RowIf(!note.Created.IsZero(), "created", note.Created.Format(time.RFC3339))
	t.RowIf(note.Nulls != "", "nulls", note.Nulls+": what becomes of rows with a missing feature")
	t.RowIf(len(note.Categories) > 0, "categories", cli.Listed(note.Categories)+": columns of text with a feature for "+
		"each value")
	t.RowIf(len(note.Dates) > 0, "dates", cli.Listed(note.Dates)+": columns that become days since 1970")
	t.RowIf(note.Epoch > 0, "epoch", epochText(int(note.Epoch), int(note.SameAs), 0))
	if c := note.Conversion; c != nil {
		t.Row("conversion", fmt.Sprintf("from the outputs of epoch %d: y Matrix + Shift, %d x %d, residual %.3g; "+
			"--format json has it", c.FromEpoch, len(c.Matrix), len(c.Shift), c.Residual))
	}
	for _, key := range slices.Sorted(maps.Keys(note.Source)) {
		t.Row("source "+key, note.Source[key])
	}
	t.RowIf(m.Unit(), "scale", "unit: each row is divided by its Euclidean norm")
	for _, n := range m.Report().Notes {
		t.Row("note", n)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	components, d := m.Components(), m.Dim()
	if components == nil {
		return nil
	}
	const maxRows, maxColumns = 20, 5
	out.Printf("\n")
	header := []any{"FEATURE", "MEAN", "SCALE"}
	for k := range min(d, maxColumns) {
		header = append(header, fmt.Sprintf("EMBEDDING_%d", k))
	}
	t = out.Table(header...)
	mean, scale := m.Mean(), m.Scale()
	for j, name := range m.Features() {
		if j == maxRows {
			t.Row(fmt.Sprintf("... %d more", m.M()-maxRows))
			break
		}
		row := []any{name, fmt.Sprintf("%.6g", mean[j]), fmt.Sprintf("%.6g", scale[j])}
		for k := range min(d, maxColumns) {
			row = append(row, fmt.Sprintf("% .6g", components[j*d+k]))
		}
		t.Row(row...)
	}
	return t.Flush()
}

// changeCommand is a verb that selects the live version. Running daemons follow within seconds.
func changeCommand(e *cli.Env, use, short string,
	change func(*registry.Registry, context.Context, registry.Request) (*registry.Pointer, error)) *cobra.Command {
	cmd, f := cli.Verb(use, short, 1, 1)
	where := client.StoreFlags(f)
	live := f.String("live", "", "change nothing unless `VERSION` is live")
	cmd.ValidArgsFunction = cli.CompleteArguments(where.Models)
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		store, err := where.Open(ctx, e, names[0])
		if err != nil {
			return err
		}
		pipeline, version, err := nameIn(ctx, store, names[0])
		if err != nil {
			return err
		}
		p, err := change(registry.New(store, pipeline, registry.Options{}), ctx,
			registry.Request{Version: version, Live: *live, By: requester()})
		if err != nil {
			return err
		}
		pinned := ""
		if p.Pin != "" {
			pinned = ", pinned"
		}
		return out.Result(p.Chosen(pipeline), "%s: %s is live%s; previously %s\n", pipeline, p.Live, pinned,
			report.OrDash(p.Previous))
	}
	return cmd
}

// requester is the user of this process and its machine, for the record of the change.
func requester() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// nameIn resolves a name to a pipeline, and a version if it names one.
func nameIn(ctx context.Context, s registry.Store, name string) (pipeline, version string, err error) {
	there, err := registry.Pipelines(ctx, s)
	if err != nil || slices.Contains(there, name) {
		return name, "", err
	}
	if pipeline, ok := registry.PipelineOf(name); ok && slices.Contains(there, pipeline) {
		return pipeline, name, nil
	}
	near := cli.DidYouMean(name, there)
	for _, pipeline := range there {
		if !strings.HasPrefix(name, pipeline+"-") {
			continue
		}
		p, err := registry.New(s, pipeline, registry.Options{}).Pointer(ctx)
		if err != nil {
			continue
		}
		for _, v := range p.Versions {
			if strings.HasPrefix(v.Name, name) {
				near = fmt.Sprintf(" (did you mean %q?)", v.Name)
			}
		}
	}
	return "", "", fmt.Errorf("%s has neither a pipeline nor a version %q%s; it has the pipelines %s, and `embedd model "+
		"ls` lists their versions: %w", s, name, near, strings.Join(there, ", "), registry.ErrMissing)
}

// findModel reads a model from a file or, if there is no file of that name, from the store: a version, or the live
// model of a pipeline.
func findModel(ctx context.Context, e *cli.Env, name string, where *client.Store) (*model.Model, error) {
	m, err := files.ReadModel(name)
	if !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, "/.") {
		return m, err
	}
	store, err := where.Open(ctx, e, name)
	if err != nil {
		return nil, fmt.Errorf("there is no file %s, and the model store cannot be opened: %w", name, err)
	}
	return registry.Read(ctx, store, name)
}
