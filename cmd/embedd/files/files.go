// Package files opens and creates the files that verbs read and write. The name - is standard input or output.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/model"
)

// Open opens the argument of --data: a file of rows, a directory of them, or a pattern of their names, unless a signal
// ends it.
func Open(ctx context.Context, e *cli.Env, path string, how file.Options) (*file.Reader, error) {
	how.Err = ctx.Err
	if path == "-" {
		return how.NewReader(e.Input(ctx), "standard input")
	}
	paths, err := cli.Expand(path)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, check(path)
	}
	return how.OpenAll(paths)
}

// notFound is the error of a name without a file.
type notFound string

func (n notFound) Error() string { return string(n) }
func (notFound) Unwrap() error   { return fs.ErrNotExist }

// check returns an error if there is no file of this name to read.
func check(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if strings.Contains(path, "://") {
			return notFound(fmt.Sprintf("%s is an address, and files are read from this machine: download it first, and name "+
				"the file", path))
		}
		if first, _, found := strings.Cut(path, ","); found && check(first) == nil {
			return notFound(fmt.Sprintf("there is no file %s: %s", path, cli.SeveralFiles))
		}
		var names []string
		entries, _ := os.ReadDir(filepath.Dir(path)) // there may be no such directory
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return notFound(fmt.Sprintf("there is no file %s%s: name one that exists", path,
			cli.DidYouMean(filepath.Base(path), names)))
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory: name a file in it", path)
	}
	return nil
}

// Base is the name of a file without its directory, in messages; a pattern is given as it is.
func Base(path string) string {
	if path == "-" {
		return "standard input"
	}
	if strings.ContainsAny(path, "*?[") {
		return path
	}
	return filepath.Base(path)
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

// WriteWhole writes a file that appears under its name when it is complete.
func WriteWhole(path string, write func(io.Writer) error) error {
	out, err := file.CreateWhole(path)
	if err != nil {
		return err
	}
	defer out.Discard()
	if err := write(out); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// RefuseTerminal returns a usage error if path is a standard output that is a terminal: the output is binary. Verbs
// call it before the work that would be lost.
func RefuseTerminal(e *cli.Env, path string) error {
	if path == "-" && cli.IsTerminal(e.Stdout) {
		return cli.Usagef("standard output is a terminal, and -o - writes binary data: redirect it, or name a file with -o")
	}
	return nil
}

// RefuseNoModel returns a usage error if path is a file with content that is not a model, which a model would replace.
func RefuseNoModel(path string) error {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil // nothing is lost
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	head := make([]byte, len(modelMagic))
	if _, err := io.ReadFull(in, head); err != nil || string(head) != modelMagic {
		return cli.Usagef("fit: -o %s exists and is not a model: name another file, or delete it first", path)
	}
	return nil
}

// modelMagic begins a model file, also one of another version.
const modelMagic = "embedd\r\n"

// ReadModel reads a model file.
func ReadModel(path string) (*model.Model, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	m, err := model.Read(in)
	if err != nil {
		head := make([]byte, 64)
		n, _ := in.ReadAt(head, 0)
		return nil, fmt.Errorf("%s: %w", path, cmp.Or(file.CheckContent(head[:n]), err))
	}
	return m, nil
}
