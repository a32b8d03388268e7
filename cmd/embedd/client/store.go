package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/stream/registry"
)

// Store is the model store of a verb.
type Store struct {
	server    *Server
	directory *string
}

// StoreFlags declares the flags of a verb that reads or changes the model store.
func StoreFlags(f *cli.Flags) *Store {
	return &Store{
		ServerFlags(f, " of the model store"),
		f.String("store", "", "`DIRECTORY` of the model store, where model.store names one"),
	}
}

// Open opens the store that the flags name. The caller calls done.
func (s *Store) Open(ctx context.Context, e *cli.Env) (store registry.Store, done func(), err error) {
	if *s.directory != "" {
		if _, err := os.Stat(*s.directory); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, cli.Usagef("--store %s: no such directory", *s.directory)
		}
		store, err = registry.Directory(*s.directory)
		return store, func() {}, err
	}
	nc, err := s.server.Dial(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	js, err := nc.JetStream()
	if err == nil {
		store, err = registry.JetStream(ctx, js)
	}
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("%w; a pipeline without input.stream keeps its models in a directory: name it with "+
			"--store", err)
	}
	return store, nc.Close, nil
}
