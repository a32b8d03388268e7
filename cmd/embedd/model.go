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
		Short: "list, show, compare, pin, roll back and export models",
	}
	cmd.AddCommand(modelLsCommand(e), modelShowCommand(e), modelDiffCommand(e), modelPinCommand(e),
		modelUnpinCommand(e), modelRollbackCommand(e), modelExportCommand(e))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Usagef("model: say what to do: usage: %s", cmd.UseLine())
	}
	return cmd
}

// findModel reads a model from a file or, if there is no file of that name, from the store: a version, or the live
// model of a pipeline.
func findModel(ctx context.Context, e *cli.Env, name string, where *client.Store) (*model.Model, error) {
	m, err := files.ReadModel(name)
	if !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, "/.") {
		return m, err
	}
	store, done, err := where.Open(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("there is no file %s, and the model store cannot be opened: %w", name, err)
	}
	defer done()
	return registry.Read(ctx, store, name)
}
