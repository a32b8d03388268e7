package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A Whole is a file that appears under its name when it is complete. Until then it is a temporary file in the same
// directory, because only then is a rename atomic. A device or a pipe is written directly.
type Whole struct {
	file *os.File
	path string
	done bool
}

// CreateWhole creates a file at path.
func CreateWhole(path string) (*Whole, error) {
	w := &Whole{path: path}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a directory: name a file in it", path)
	case err == nil && !info.Mode().IsRegular():
		w.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	default:
		w.file, err = os.OpenFile(fmt.Sprintf("%s.%d.tmp", path, os.Getpid()), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	}
	if _, missing := os.Stat(filepath.Dir(path)); err != nil && errors.Is(missing, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s cannot be created: there is no directory %s: make it, or name another file", path,
			filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be created: %w: name a file in another directory", path, withoutPath(err))
	}
	return w, nil
}

// Write writes to the file. Its errors do not name the file.
func (w *Whole) Write(b []byte) (int, error) {
	n, err := w.file.Write(b)
	if errors.Is(err, syscall.ENOSPC) {
		return n, fmt.Errorf("%w: free space, or name a file on another disk", withoutPath(err))
	}
	return n, withoutPath(err)
}

// Close completes the file.
func (w *Whole) Close() error {
	if w.done {
		return nil
	}
	defer w.Discard()
	if err := w.file.Close(); err != nil {
		return withoutPath(err)
	}
	if w.isTemporary() {
		if err := os.Rename(w.file.Name(), w.path); err != nil {
			return errors.Unwrap(err)
		}
	}
	w.done = true
	return nil
}

// Discard removes what was written. After Close it does nothing.
func (w *Whole) Discard() {
	if w.done {
		return
	}
	w.done = true
	w.file.Close()
	if w.isTemporary() {
		os.Remove(w.file.Name())
	}
}

func (w *Whole) isTemporary() bool { return w.file.Name() != w.path }

// withoutPath removes the path from an error of package os, since the caller names the file, and a temporary one is
// none of the user's.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
