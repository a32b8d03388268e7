package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/embedd/embedd/stream/registry"
)

// storeFlags say where the models are.
type storeFlags struct {
	server    *serverFlags
	directory *string
}

// store declares the flags of a verb that reads or changes the model store.
func (f *flags) store() *storeFlags {
	return &storeFlags{
		f.server(" of the model store"),
		f.String("store", "", "`DIRECTORY` of the model store, where model.store names one"),
	}
}

// open opens the store that the flags name; done closes what it needed.
func (s *storeFlags) open(ctx context.Context, e *env) (store registry.Store, done func(), err error) {
	if *s.directory != "" {
		if _, err := os.Stat(*s.directory); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, usagef("--store %s: there is no such directory", *s.directory)
		}
		store, err = registry.Directory(*s.directory)
		return store, func() {}, err
	}
	nc, err := s.server.dial(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	js, err := nc.JetStream()
	if err == nil {
		store, err = registry.JetStream(ctx, js)
	}
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("%w; a pipeline without input.stream keeps its models in a directory: name it by --store", err)
	}
	return store, nc.Close, nil
}
