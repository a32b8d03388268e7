// Package durable writes files that are complete after a crash: the old content or the new one.
package durable

import (
	"errors"
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
