package client

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/stream/registry"
)

// completionTimeout is how long a shell waits for the names that a server has.
const completionTimeout = time.Second

// configOf is the configuration of a command line that is being typed; empty if it cannot be read.
func configOf(cmd *cobra.Command) *config.Config {
	path := DefaultConfig
	if d := cmd.Flags().Lookup("config"); d != nil && d.Value.String() != "" {
		path = d.Value.String()
	}
	if c, err := config.Load(path); err == nil {
		return c
	}
	return &config.Config{}
}

// Pipelines completes a word with the pipelines of the configuration.
func Pipelines(cmd *cobra.Command) []string { return configOf(cmd).Names() }

// Models completes a word with the pipelines of the configuration, and the versions in the model store.
func (s *Store) Models(cmd *cobra.Command) []string {
	all := Pipelines(cmd)
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	quiet := &cli.Env{Stdout: io.Discard, Stderr: io.Discard, Verb: "model show"}
	defer quiet.End()
	store, err := s.Open(ctx, quiet, "")
	if err != nil {
		return all
	}
	there, err := registry.Pipelines(ctx, store)
	if err != nil {
		return all
	}
	for _, name := range there {
		p, err := registry.New(store, name, registry.Options{}).Pointer(ctx)
		if err != nil {
			continue
		}
		for _, l := range p.List(name) {
			all = append(all, l.Name)
		}
	}
	return all
}

// CompleteModels completes an argument with the models, and with files.
func (s *Store) CompleteModels(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	return s.Models(cmd), cobra.ShellCompDirectiveDefault
}
