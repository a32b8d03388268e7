package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/report"
)

func initCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "init", Short: "write a starter configuration"}
	f := cli.FlagsOf(cmd)
	path := f.StringP("output", "o", "embedd.yaml", "`FILE` to write; - is standard output")
	force := f.Bool("force", false, "overwrite an existing file")
	out := report.Flag(f, e)
	cmd.RunE = func(*cobra.Command, []string) error {
		if *path == "-" {
			_, err := e.Stdout.Write(config.Starter())
			return err
		}
		// Create exclusively: checking first would race with another process.
		mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
		if *force {
			mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		}
		file, err := os.OpenFile(*path, mode, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists: --force overwrites it, -o names another file", *path)
		}
		if err != nil {
			return fmt.Errorf("writing the configuration: %w", err)
		}
		if _, err := file.Write(config.Starter()); err != nil {
			file.Close()
			return fmt.Errorf("writing %s: %w", *path, err)
		}
		if err := file.Close(); err != nil {
			return fmt.Errorf("writing %s: %w", *path, err)
		}
		if out.JSON {
			return out.Object(map[string]string{"file": *path})
		}
		out.Printf("wrote %s. Name your feature column in it, then: embedd check -c %s && embedd run -c %s\n", *path,
			*path, *path)
		return nil
	}
	return cmd
}
