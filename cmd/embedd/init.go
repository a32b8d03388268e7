package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/embedd/embedd/cmd/embedd/config"
)

func runInit(_ context.Context, e *env, args []string) error {
	f := newFlags(e)
	out := f.output()
	path := f.String("o", "embedd.yaml", "`file` to write; - is standard output")
	force := f.Bool("force", false, "write over a file that is there")
	if _, err := f.parse(args, 0, 0); err != nil {
		return err
	}
	if *path == "-" {
		_, err := e.stdout.Write(config.Starter())
		return err
	}
	// Exclusive creation, and not a look first: nothing can come between.
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if *force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(*path, mode, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: --force writes over it, -o names another", *path)
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
	if out.json {
		return out.object(map[string]string{"file": *path})
	}
	out.printf("wrote %s. Name your feature column in it, then: embedd check -c %s && embedd run -c %s\n", *path, *path, *path)
	return nil
}
