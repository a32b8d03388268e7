package main

import (
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/daemon"
	"github.com/embedd/embedd/cmd/embedd/memory"
)

func runCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("run", "run the daemon until a signal", 0, 0)
	path := f.StringP("config", "c", "embedd.yaml", "configuration `FILE`")
	where := client.AddressFlags(f, "NATS `URL`; overrides NATS_URL and nats.url")
	role := f.Choice("role", "`ROLE` of this daemon; configured is daemon.role of the file",
		"configured", "all", "transform", "train")
	logFormat := f.Choice("log-format", "`FORMAT` of the log on stderr", "text", "json")
	logLevel := f.Choice("log-level", "minimum `LEVEL` to log; configured is daemon.log_level of the file",
		"configured", "debug", "info", "warn", "error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		load := func() (*config.Config, error) {
			c, err := client.LoadConfig(*path)
			if err != nil {
				return nil, err
			}
			if c.NATS, err = where.Apply(c.NATS); err != nil {
				return nil, err
			}
			if c.NATS.Embedded() {
				c.NATS.URL = os.Getenv("NATS_URL")
			}
			if *role != "configured" {
				c.Role = *role
			}
			if *logLevel != "configured" {
				c.LogLevel = *logLevel
			}
			return c, nil
		}
		c, err := load()
		if err != nil {
			return err
		}
		var level slog.LevelVar
		var heap memory.Heap
		log := newLogger(e, *logFormat, &level)
		var current atomic.Pointer[config.Config]
		apply := func(c *config.Config) {
			current.Store(c)
			_ = level.UnmarshalText([]byte(c.LogLevel)) // the file is checked
			heap.Reset()
			log.Debug("memory limit of the process", "limits.memory", memory.Limit(c))
			heap.CollectOften()
		}
		apply(c)
		defer heap.Reset()
		for _, n := range c.Notes {
			log.Info("configuration: "+n.Message, "key", n.Key)
		}
		return daemon.Run(ctx, daemon.Options{Config: c, Log: log, Build: buildInfo(), Load: load, Apply: apply,
			Hangups: e.Hangups, OnMemory: func(bytes int64) {
				heap.Control()
				memory.Follow(current.Load(), bytes)
			}})
	}
	return cmd
}

func newLogger(e *cli.Env, format string, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(cli.PrintableJSON{Writer: e.Stderr}, o))
	}
	return slog.New(slog.NewTextHandler(e.Stderr, o)) // it quotes and escapes what is not printable
}
