package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/embedd/embedd/internal/durable"
	"github.com/embedd/embedd/internal/natsx"
)

// directory is the store in files: a directory for each pipeline with a file for each version, and the pointer, whose
// revision is in its file name. A writer of the pointer holds a file lock, which the system releases if it crashes.
// Readers need no lock.
type directory struct{ path string }

const (
	modelEnd    = ".embedd"
	pointerEnd  = ".json"
	pointerName = "pointer-"
	lockName    = "lock"
)

// pollFiles is how often a directory is looked at for a change.
const pollFiles = time.Second

// maxPointer bounds a pointer's file.
const maxPointer = 4 << 20

// Directory is the store in a directory, which it creates where it is missing.
func Directory(path string) (Store, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(full, 0o777); err != nil {
		return nil, fmt.Errorf("the model store %s cannot be created: %w; set model.store to a directory that can be "+
			"written, or to none", full, err)
	}
	return &directory{full}, nil
}

func (d *directory) put(_ context.Context, pipeline, version string, data []byte) error {
	return durable.WriteFile(filepath.Join(d.path, pipeline, version+modelEnd), data)
}

func (d *directory) get(_ context.Context, pipeline, version string) (io.ReadCloser, error) {
	file, err := os.Open(filepath.Join(d.path, pipeline, version+modelEnd))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errAbsent
	}
	return file, err
}

func (d *directory) remove(_ context.Context, pipeline, version string) error {
	err := os.Remove(filepath.Join(d.path, pipeline, version+modelEnd))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *directory) versions(_ context.Context, pipeline string) (out []stored, err error) {
	entries, err := d.entries(pipeline)
	for _, e := range entries {
		name, isModel := strings.CutSuffix(e.Name(), modelEnd)
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		if of, ok := PipelineOf(name); isModel && ok && of == pipeline {
			out = append(out, stored{name, info.ModTime(), info.Size()})
		}
	}
	return out, err
}

func (d *directory) tidy(_ context.Context, pipeline string, older time.Duration) error {
	entries, err := d.entries(pipeline)
	for _, e := range entries {
		info, gone := e.Info()
		if gone == nil && strings.HasPrefix(e.Name(), durable.Temporary) && time.Since(info.ModTime()) > older {
			err = errors.Join(err, os.Remove(filepath.Join(d.path, pipeline, e.Name())))
		}
	}
	return err
}

func (d *directory) entries(pipeline string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, pipeline))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

func (d *directory) pointerFile(pipeline string, revision uint64) string {
	return filepath.Join(d.path, pipeline, pointerName+strconv.FormatUint(revision, 10)+pointerEnd)
}

// revisions are those of the stored pointers, ascending: the newest and the one before it.
func (d *directory) revisions(pipeline string) (out []uint64, err error) {
	entries, err := d.entries(pipeline)
	for _, e := range entries {
		name, begins := strings.CutPrefix(e.Name(), pointerName)
		number, ends := strings.CutSuffix(name, pointerEnd)
		if n, err := strconv.ParseUint(number, 10, 64); begins && ends && err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, err
}

// newest is the revision of the pointer; 0 without one.
func (d *directory) newest(pipeline string) (uint64, error) {
	revisions, err := d.revisions(pipeline)
	if err != nil || len(revisions) == 0 {
		return 0, err
	}
	return revisions[len(revisions)-1], nil
}

func (d *directory) load(ctx context.Context, pipeline string) ([]byte, uint64, error) {
	for {
		newest, err := d.newest(pipeline)
		if err != nil || newest == 0 {
			return nil, 0, err
		}
		file, err := os.Open(d.pointerFile(pipeline, newest))
		if errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
			continue // there is a newer one by now
		}
		if err != nil {
			return nil, 0, err
		}
		value, err := io.ReadAll(io.LimitReader(file, maxPointer))
		return value, newest, errors.Join(err, file.Close())
	}
}

func (d *directory) refused(string) []natsx.Refusal { return nil }

func (d *directory) history(_ context.Context, pipeline string) (out [][]byte, err error) {
	revisions, err := d.revisions(pipeline)
	for i := len(revisions) - 2; i >= 0; i-- {
		if value, err := os.ReadFile(d.pointerFile(pipeline, revisions[i])); err == nil && len(value) <= maxPointer {
			out = append(out, value)
		}
	}
	return out, err
}

func (d *directory) compareAndSet(_ context.Context, pipeline string, value []byte, revision uint64) (uint64, error) {
	unlock, err := d.lock(pipeline)
	if err != nil {
		return 0, err
	}
	defer unlock()
	revisions, err := d.revisions(pipeline)
	if err != nil {
		return 0, err
	}
	if last := append([]uint64{0}, revisions...); last[len(revisions)] != revision {
		return 0, errMoved
	}
	next := revision + 1
	if err := durable.WriteFile(d.pointerFile(pipeline, next), value); err != nil {
		return 0, err
	}
	for _, r := range revisions[:max(len(revisions)-1, 0)] {
		_ = os.Remove(d.pointerFile(pipeline, r)) // one that stays is older than the newest
	}
	return next, nil
}

// lock locks the pointer of a pipeline against other processes. The operating system releases it when the process ends.
func (d *directory) lock(pipeline string) (unlock func(), err error) {
	dir := filepath.Join(d.path, pipeline)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := lockFile(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return func() { file.Close() }, nil
}

func (d *directory) watch(pipeline string) (func(context.Context, uint64) error, func()) {
	return func(ctx context.Context, revision uint64) error {
		for natsx.Sleep(ctx, pollFiles) {
			if newest, err := d.newest(pipeline); err != nil || newest != revision {
				return err
			}
		}
		return nil
	}, func() {}
}

func (d *directory) lastSequence(_ context.Context, pipeline string) (uint64, time.Time, error) {
	begin := time.Now()
	newest, err := d.newest(pipeline)
	return newest, begin, err
}

func (d *directory) created(context.Context) (time.Time, error) { return time.Time{}, nil }

func (d *directory) maxPointerBytes() int { return maxPointer }

func (d *directory) pipelines(context.Context) (out []string, err error) {
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		if revisions, _ := d.revisions(e.Name()); e.IsDir() && len(revisions) > 0 {
			out = append(out, e.Name())
		}
	}
	return out, err
}

func (d *directory) String() string { return "directory " + d.path }
