package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A Whole is a file that appears under its name when it is complete. Until then it is a temporary file in the same
// directory, because only then is a rename atomic. A device or a pipe is written directly, and so is standard output
// that is redirected to a file, by a name such as /dev/stdout. Other links stay, and the file that they lead to is
// replaced.
type Whole struct {
	file     *os.File
	path     string // that file gets, unless it is written directly
	isDirect bool
	done     bool
}

// CreateWhole creates a file at path.
func CreateWhole(path string) (*Whole, error) {
	if path == "" {
		return nil, errors.New("a file without a name cannot be created")
	}
	w := &Whole{path: path}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a directory: name a file in it", path)
	case err == nil && isStandardOutput(path, info):
		w.file, w.isDirect = os.Stdout, true
	case err == nil && !info.Mode().IsRegular():
		w.isDirect = true
		w.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	default:
		if end, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
			w.path = end
		} else if end, linkErr = os.Readlink(path); linkErr == nil { // to a file that does not exist yet
			if w.path = end; !filepath.IsAbs(end) {
				w.path = filepath.Join(filepath.Dir(path), end)
			}
		}
		w.file, err = createTemporary(w.path, info)
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

// isStandardOutput reports whether a path is a link to the file that standard output is redirected to, as /dev/stdout
// is. A rename would put a file in place of the link.
func isStandardOutput(path string, info os.FileInfo) bool {
	link, err := os.Lstat(path)
	if err != nil || link.Mode()&fs.ModeSymlink == 0 {
		return false
	}
	out, err := os.Stdout.Stat()
	return err == nil && os.SameFile(info, out)
}

// createTemporary creates a file next to path that no other process writes: those of containers have equal numbers. It
// has the permissions of the file that it replaces; nil: none.
func createTemporary(path string, replaced os.FileInfo) (*os.File, error) {
	file, err := os.OpenFile(fmt.Sprintf("%s.%s.tmp", path, rand.Text()[:8]), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil && replaced != nil {
		_ = file.Chmod(replaced.Mode().Perm()) // some file systems have no permissions
	}
	return file, err
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
	if err := w.close(); err != nil {
		return withoutPath(err)
	}
	if !w.isDirect {
		if err := os.Rename(w.file.Name(), w.path); err != nil {
			return errors.Unwrap(err)
		}
	}
	w.done = true
	return nil
}

// close closes the file, unless it is that of the process.
func (w *Whole) close() error {
	if w.file == os.Stdout {
		return nil
	}
	return w.file.Close()
}

// Discard removes what was written. After Close it does nothing.
func (w *Whole) Discard() {
	if w.done {
		return
	}
	w.done = true
	w.close()
	if !w.isDirect {
		os.Remove(w.file.Name())
	}
}
