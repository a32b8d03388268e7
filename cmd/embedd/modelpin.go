package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream/registry"
)

func modelPinCommand(e *cli.Env) *cobra.Command {
	return changeCommand(e, "pin VERSION|PIPELINE", "make a version live and keep it; for a pipeline, its live version",
		func(ctx context.Context, r *registry.Registry, version string) (*registry.Pointer, error) {
			return r.Pin(ctx, version)
		})
}

func modelUnpinCommand(e *cli.Env) *cobra.Command {
	return changeCommand(e, "unpin PIPELINE", "let training promote models again",
		func(ctx context.Context, r *registry.Registry, _ string) (*registry.Pointer, error) {
			return r.Unpin(ctx)
		})
}

func modelRollbackCommand(e *cli.Env) *cobra.Command {
	return changeCommand(e, "rollback PIPELINE|VERSION",
		"make the previous or the named version live; training continues from it",
		func(ctx context.Context, r *registry.Registry, version string) (*registry.Pointer, error) {
			return r.Rollback(ctx, version)
		})
}

// changeCommand is a verb that selects the live version. Running daemons follow within seconds.
func changeCommand(e *cli.Env, use, short string,
	change func(ctx context.Context, r *registry.Registry, version string) (*registry.Pointer, error)) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cli.Arguments(1, 1)}
	f := cli.FlagsOf(cmd)
	where := client.StoreFlags(f)
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		store, done, err := where.Open(ctx, e)
		if err != nil {
			return err
		}
		defer done()
		pipeline, version, err := nameIn(ctx, store, names[0])
		if err != nil {
			return err
		}
		p, err := change(ctx, registry.New(store, pipeline, registry.Options{}), version)
		if err != nil {
			return err
		}
		if out.JSON {
			return out.Object(p.Chosen(pipeline))
		}
		pinned := ""
		if p.Pin != "" {
			pinned = ", pinned"
		}
		out.Printf("%s: %s is live%s; previously %s\n", pipeline, p.Live, pinned, report.OrDash(p.Previous))
		return nil
	}
	return cmd
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
	return "", "", fmt.Errorf("%s has neither a pipeline nor a version %q%s; it has the pipelines %s: %w", s, name,
		cli.DidYouMean(name, there), strings.Join(there, ", "), registry.ErrMissing)
}
