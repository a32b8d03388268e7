package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/stream/registry"
)

func modelLsCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls [PIPELINE]", Short: "the versions in the model store, and the candidates that were refused",
		Args: arguments(0, 1),
	}
	f := flagsOf(cmd)
	where := f.store()
	out := f.output(e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		store, done, err := where.open(ctx, e)
		if err != nil {
			return err
		}
		defer done()
		there, err := registry.Pipelines(ctx, store)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			names = there
		} else if !slices.Contains(there, names[0]) {
			return fmt.Errorf("%s has no pipeline %q%s: %w", store, names[0], didYouMean(names[0], there),
				registry.ErrMissing)
		}
		var lines []registry.Listed
		for _, name := range names {
			p, err := registry.Of(store, name, registry.Options{}).Pointer(ctx)
			if err != nil {
				return err
			}
			if p.Damage() != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), p.Damage())
			}
			lines = append(lines, p.List(name)...)
		}
		return printListed(out, lines)
	}
	return cmd
}

// printListed shows versions and refused candidates: newest last, where the eye is.
func printListed(out *output, lines []registry.Listed) error {
	if out.json {
		for _, l := range lines {
			if err := out.object(l); err != nil {
				return err
			}
		}
		return nil
	}
	t := out.table("VERSION", "STATE", "EPOCH", "METHOD", "DIM", "ROWS", "SCORE", "CREATED", "WHY")
	for _, l := range lines {
		state := l.State
		if l.Pinned {
			state += ", pinned"
		}
		score := "-"
		if l.Score != nil {
			score = fmt.Sprintf("%.4f", *l.Score)
		}
		created := "-"
		if !l.Created.IsZero() {
			created = l.Created.Format("2006-01-02T15:04:05Z07:00")
		}
		t.row(orDash(l.Name), state, count(l.Epoch), orDash(l.Method), count(l.Dim), count(l.Rows), score, created,
			orDash(l.Why))
	}
	return t.flush()
}

// count is a number that may be unknown.
func count(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func modelPinCommand(e *env) *cobra.Command {
	return changeCommand(e, "pin VERSION|PIPELINE",
		"make a version the live one and keep it so; of a pipeline, its live one",
		func(ctx context.Context, r *registry.Registry, version string) (*registry.Pointer, error) {
			return r.Pin(ctx, version)
		})
}

func modelUnpinCommand(e *env) *cobra.Command {
	return changeCommand(e, "unpin PIPELINE", "let learning go on from the version that is pinned",
		func(ctx context.Context, r *registry.Registry, _ string) (*registry.Pointer, error) {
			return r.Unpin(ctx)
		})
}

func modelRollbackCommand(e *env) *cobra.Command {
	return changeCommand(e, "rollback PIPELINE|VERSION",
		"go back to the version that was live before, or to the one that is named; learning goes on from it",
		func(ctx context.Context, r *registry.Registry, version string) (*registry.Pointer, error) {
			return r.Rollback(ctx, version)
		})
}

// changeCommand is a verb that chooses a version. A running daemon follows within seconds.
func changeCommand(e *env, use, short string,
	change func(ctx context.Context, r *registry.Registry, version string) (*registry.Pointer, error)) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: arguments(1, 1)}
	f := flagsOf(cmd)
	where := f.store()
	out := f.output(e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		store, done, err := where.open(ctx, e)
		if err != nil {
			return err
		}
		defer done()
		pipeline, version, err := nameIn(ctx, store, names[0])
		if err != nil {
			return err
		}
		p, err := change(ctx, registry.Of(store, pipeline, registry.Options{}), version)
		if err != nil {
			return err
		}
		if out.json {
			return out.object(p.Chosen(pipeline))
		}
		pinned := ""
		if p.Pin != "" {
			pinned = ", pinned"
		}
		out.printf("%s: %s is live%s; before it %s\n", pipeline, p.Live, pinned, orDash(p.Previous))
		return nil
	}
	return cmd
}

// nameIn tells whether a name is a pipeline's, or that of a version of one.
func nameIn(ctx context.Context, s registry.Store, name string) (pipeline, version string, err error) {
	there, err := registry.Pipelines(ctx, s)
	if err != nil || slices.Contains(there, name) {
		return name, "", err
	}
	if pipeline, ok := registry.PipelineOf(name); ok && slices.Contains(there, pipeline) {
		return pipeline, name, nil
	}
	return "", "", fmt.Errorf("%s has neither a pipeline nor a version %q%s; it has the pipelines %s: %w", s, name,
		didYouMean(name, there), strings.Join(there, ", "), registry.ErrMissing)
}
