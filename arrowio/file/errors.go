package file

import (
	"errors"
	"fmt"
	"io/fs"
)

var (
	errSchema  = errors.New("the schema changes between batches: one file holds one schema")
	errNothing = errors.New("nothing was written, not even a schema")
	errNoBatch = errors.New("there is no batch to write: the record is nil")
)

// recoverTo converts a panic of a format's library into an error (Invariant 6).
func recoverTo(name string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: the file is damaged or its content is not supported (%v): write it again with "+
			"another tool", name, p)
	}
}

// withoutPath removes the path from an error of package os, since the caller names the file, and a temporary one is
// none of the user's.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
