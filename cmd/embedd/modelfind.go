package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/stream/registry"
)

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
