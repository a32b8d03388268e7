package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/durable"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model"
)

// directory is the store in files: a directory for each pipeline with a file for each version, and the pointer, whose
// revision is in its file name. A writer of the pointer holds a file lock; readers need none.
type directory struct{ path string }

const (
	modelEnd    = ".embedd"
	pointerForm = "pointer-%d.json"
	lockName    = "lock"
)

// pollFiles is how often a directory is looked at for a change.
const pollFiles = time.Second

// maxPointer is the maximum size of a pointer.
const maxPointer = 4 << 20

// Directory is the store in a directory, which it creates where it is missing.
func Directory(path string) (Store, error) {
	if path == "" { // filepath.Abs would return the current directory
		return nil, errors.New("the model store has no path; name a directory")
	}
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

func (d *directory) modelFile(pipeline, version string) string {
	return filepath.Join(d.path, pipeline, version+modelEnd)
}

func (d *directory) pointerFile(pipeline string, revision uint64) string {
	return filepath.Join(d.path, pipeline, fmt.Sprintf(pointerForm, revision))
}

func (d *directory) put(_ context.Context, pipeline, version string, data []byte) error {
	return durable.WriteFile(d.modelFile(pipeline, version), data)
}

func (d *directory) get(_ context.Context, pipeline, version string, limit int64) (*model.Model, error) {
	file, err := os.Open(d.modelFile(pipeline, version))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	m, err := model.ReadLimit(file, limit)
	return m, withKind(ErrDamaged, err)
}

func (d *directory) remove(_ context.Context, pipeline, version string) error {
	err := os.Remove(d.modelFile(pipeline, version))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
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

func (d *directory) versions(_ context.Context, pipeline string) (out []*jetstream.ObjectInfo, err error) {
	entries, err := d.entries(pipeline)
	for _, e := range entries {
		name, isModel := strings.CutSuffix(e.Name(), modelEnd)
		info, gone := e.Info()
		if of, _ := PipelineOf(name); gone == nil && isModel && of == pipeline {
			out = append(out, &jetstream.ObjectInfo{ObjectMeta: jetstream.ObjectMeta{Name: name}, ModTime: info.ModTime(),
				Size: uint64(info.Size())})
		}
	}
	return out, err
}

func (d *directory) tidy(_ context.Context, pipeline string, maxIdle time.Duration) error {
	entries, err := d.entries(pipeline)
	for _, e := range entries {
		info, gone := e.Info()
		if gone == nil && strings.HasPrefix(e.Name(), durable.Temporary) && time.Since(info.ModTime()) > maxIdle {
			err = errors.Join(err, os.Remove(filepath.Join(d.path, pipeline, e.Name())))
		}
	}
	return err
}

// revisions are those of the stored pointers, the newest first: it and the one before it.
func (d *directory) revisions(pipeline string) (out []uint64, err error) {
	entries, err := d.entries(pipeline)
	for _, e := range entries {
		var n uint64
		if _, err := fmt.Sscanf(e.Name(), pointerForm, &n); err == nil && e.Name() == fmt.Sprintf(pointerForm, n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b uint64) int { return cmp.Compare(b, a) })
	return out, err
}

// newest is the revision of the pointer; 0 without one.
func (d *directory) newest(pipeline string) (uint64, error) {
	revisions, err := d.revisions(pipeline)
	return append(revisions, 0)[0], err
}

func (d *directory) load(_ context.Context, pipeline string) (value []byte, newest uint64, err error) {
	for {
		before := newest
		if newest, err = d.newest(pipeline); err != nil || newest == 0 {
			return nil, 0, err
		}
		value, err = d.readPointer(pipeline, newest)
		if newest == before || !errors.Is(err, fs.ErrNotExist) { // else there is a newer one by now
			return value, newest, err
		}
	}
}

// readPointer reads at most maxPointer bytes of a stored pointer: a longer file is not this program's, and damaged.
func (d *directory) readPointer(pipeline string, revision uint64) ([]byte, error) {
	file, err := os.Open(d.pointerFile(pipeline, revision))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxPointer))
}

func (d *directory) history(_ context.Context, pipeline string) (out [][]byte, err error) {
	revisions, err := d.revisions(pipeline)
	for _, r := range revisions[min(1, len(revisions)):] {
		if value, err := d.readPointer(pipeline, r); err == nil {
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
	if append(revisions, 0)[0] != revision {
		return 0, natsx.ErrConflict
	}
	if err := durable.WriteFile(d.pointerFile(pipeline, revision+1), value); err != nil {
		return 0, err
	}
	for _, r := range revisions[min(1, len(revisions)):] {
		_ = os.Remove(d.pointerFile(pipeline, r)) // one that stays is older than the newest
	}
	return revision + 1, nil
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

func (d *directory) watch(string, func(natsx.Change)) (time.Duration, func()) {
	return pollFiles, func() {}
}

func (d *directory) state(_ context.Context, pipeline string) (natsx.KeySourceState, time.Time, error) {
	at := time.Now()
	newest, err := d.newest(pipeline)
	return natsx.KeySourceState{Last: newest}, at, err
}

func (d *directory) refused(string) []string { return nil }

func (d *directory) maxPointerBytes() int { return maxPointer }

func (d *directory) pipelines(context.Context) (out []string, err error) {
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		if newest, _ := d.newest(e.Name()); e.IsDir() && newest > 0 {
			out = append(out, e.Name())
		}
	}
	return out, err
}

func (d *directory) String() string { return "directory " + d.path }
