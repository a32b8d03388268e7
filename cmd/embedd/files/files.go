// Package files opens and creates the files that verbs read and write. The name - is standard input or output.
package files

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/model"
)

// Open opens a file of rows, the argument of --data.
func Open(e *cli.Env, path string, how file.Options) (*file.Reader, error) {
	if path == "-" {
		return how.NewReader(e.Stdin, "standard input")
	}
	return how.Open(path)
}

// Create creates a file of rows, the argument of -o.
func Create(e *cli.Env, path string) (*file.Writer, error) {
	if path != "-" {
		return file.Create(path)
	}
	if err := RefuseTerminal(e, path); err != nil {
		return nil, err
	}
	return file.NewWriter(e.Stdout, "standard output"), nil
}

// Write writes the argument of -o. A file appears under its name when it is complete.
func Write(e *cli.Env, path string, write func(io.Writer) error) error {
	if path != "-" {
		return WriteWhole(path, write)
	}
	if err := RefuseTerminal(e, path); err != nil {
		return err
	}
	return write(e.Stdout)
}

// WriteWhole writes a temporary file next to path and renames it to path.
func WriteWhole(path string, write func(io.Writer) error) (err error) {
	out, err := os.OpenFile(fmt.Sprintf("%s.%d.tmp", path, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return fmt.Errorf("%s cannot be created: %w", filepath.Clean(path), err)
	}
	defer func() {
		if err != nil {
			out.Close()
			os.Remove(out.Name())
		}
	}()
	if err := write(out); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(out.Name(), path)
}

// RefuseTerminal returns a usage error if path is a standard output that is a terminal: the output is binary. Verbs
// call it before the work that would be lost.
func RefuseTerminal(e *cli.Env, path string) error {
	if path == "-" && cli.IsTerminal(e.Stdout) {
		return cli.Usagef("standard output is a terminal, and -o - writes binary data: redirect it, or name a file with -o")
	}
	return nil
}

// ReadModel reads a model file.
func ReadModel(path string) (*model.Model, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	m, err := model.Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}
