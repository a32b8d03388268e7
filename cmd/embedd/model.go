package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/stream/registry"
)

func modelCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model ls|show|diff|pin|unpin|rollback|export NAME",
		Short: "the models of pipelines: what there is, what is in one, which of them is live",
	}
	cmd.AddCommand(modelLsCommand(e), modelShowCommand(e), modelDiffCommand(e), modelPinCommand(e),
		modelUnpinCommand(e), modelRollbackCommand(e), modelExportCommand(e))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Usagef("model: say what to do: usage: %s", cmd.UseLine())
	}
	return cmd
}

// findModel reads a model from a file, or where there is no file of that name from the store: a version, or a
// pipeline for its live model.
func findModel(ctx context.Context, e *cli.Env, name string, where *client.Store) (*model.Model, error) {
	m, err := files.ReadModel(name)
	if !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, "/.") {
		return m, err
	}
	store, done, err := where.Open(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("no file is named %s, and the model store cannot be asked: %w", name, err)
	}
	defer done()
	return registry.Read(ctx, store, name)
}
