// Package durable writes files that are complete after a crash: the old content or the new one.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Temporary begins the names of files that are being written. A crash can leave them behind.
const Temporary = ".new-"

// WriteFile replaces a file, and creates its directory where it is missing. The new content is durable when it returns.
func WriteFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, Temporary)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDirectory(dir)
}

// syncDirectory makes names durable. Windows has no such call, and keeps names with the files.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// CheckWritable writes to a directory or, where it does not exist, to the one in which it would be created.
func CheckWritable(dir string) (exists bool, err error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	for exists = true; ; exists = false {
		info, err := os.Stat(full)
		switch {
		case errors.Is(err, os.ErrNotExist) && filepath.Dir(full) != full:
			full = filepath.Dir(full)
			continue
		case err != nil:
			return false, err
		case !info.IsDir():
			return false, fmt.Errorf("%s is not a directory", full)
		}
		file, err := os.CreateTemp(full, Temporary)
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			return false, fmt.Errorf("%s: %w", full, p.Err) // without the name of the file
		}
		if err != nil {
			return false, err
		}
		return exists, errors.Join(file.Close(), os.Remove(file.Name()))
	}
}
