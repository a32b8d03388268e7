package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/report"
)

func initCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "init", Short: "write a starter configuration", Long: "Write a starter configuration. " +
		"With a file or a subject it has the columns of the file, or of one message of the subject: features, label, and " +
		"the number of outputs. The pipeline has the name of the file, or the last token of the subject. " +
		"On a terminal init asks for one of them; otherwise it writes an example."}
	f := cli.FlagsOf(cmd)
	var from example
	f.Data(&from.file, "`FILE` of rows whose columns to fill in")
	f.StringVar(&from.subject, "subject", "", "`SUBJECT` of the messages whose columns to fill in; the newest stored one "+
		"is read, or the next")
	f.Exclusive("data", "subject")
	server := client.ServerFlags(f, " that has the subject")
	path := f.StringP("output", "o", "embedd.yaml", "`FILE` to write; - is standard output")
	force := f.Bool("force", false, "overwrite an existing file")
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		exists := fmt.Errorf("%s exists: --force overwrites it, -o names another file", *path)
		if _, err := os.Lstat(*path); err == nil && *path != "-" && !*force { // before a question
			return exists
		}
		if cli.IsTerminal(e.Stdin) && cli.IsTerminal(e.Stderr) {
			if err := from.ask(cmd.Context(), e); err != nil {
				return err
			}
		}
		values, err := from.values(cmd.Context(), e, server)
		if err != nil {
			return err
		}
		text := config.Starter(from.name(), values)
		if *path == "-" {
			_, err := e.Stdout.Write(text)
			return err
		}
		if *force { // the file that exists stays until the new one is complete
			err = files.WriteWhole(*path, func(w io.Writer) error {
				_, err := w.Write(text)
				return err
			})
		} else {
			err = writeNew(*path, text)
		}
		if errors.Is(err, fs.ErrExist) {
			return exists
		}
		if err != nil {
			return fmt.Errorf("writing the configuration: %w", err)
		}
		todo := "Name your feature column in it, then"
		if values != nil {
			todo = "Next"
		}
		return out.Result(map[string]string{"file": *path}, "wrote %s. %s: embedd check -c %s && embedd run -c %s\n", *path,
			todo, *path, *path)
	}
	return cmd
}

// writeNew writes a file that must not exist. Checking first would race with another process. What cannot be completed
// is removed.
func writeNew(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(path)
	}
	return err
}
