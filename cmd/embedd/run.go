package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/daemon"
	"github.com/embedd/embedd/cmd/embedd/memory"
)

func runCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "run", Short: "run the daemon until a signal"}
	f := cli.FlagsOf(cmd)
	path := f.StringP("config", "c", "embedd.yaml", "configuration `FILE`")
	where := client.AddressFlags(f, "NATS `URL`; overrides NATS_URL and nats.url")
	role := f.Choice("role", "`ROLE` of this daemon; configured is daemon.role of the file",
		"configured", "all", "transform", "train")
	logFormat := f.Choice("log-format", "`FORMAT` of the log on stderr", "text", "json")
	logLevel := f.Choice("log-level", "minimum `LEVEL` to log", "info", "debug", "warn", "error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		if _, err := os.Stat(*path); errors.Is(err, fs.ErrNotExist) {
			return cli.Usagef("there is no configuration %s: write one with `embedd init`, or name one with -c", *path)
		}
		c, err := client.LoadConfig(*path)
		if err != nil {
			return err
		}
		if c.NATS = where.Apply(c.NATS); c.NATS.Embedded() {
			c.NATS.URL = os.Getenv("NATS_URL")
		}
		if *role != "configured" {
			c.Role = *role
		}
		log := newLogger(e, *logFormat, *logLevel)
		for _, n := range c.Notes {
			log.Info("configuration: "+n.Message, "key", n.Key)
		}
		limit := memory.Limit(c)
		log.Debug("memory limit of the process", "limits.memory", limit)
		defer memory.KeepHeap(limit).End()
		return daemon.Run(ctx, c, log)
	}
	return cmd
}

func newLogger(e *cli.Env, format, level string) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // Choice has validated it
	o := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(e.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(e.Stderr, o))
}
