package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

// ModelBucket is the name of the object store that holds the models and of the key-value bucket that points to the
// live ones.
const ModelBucket = "EMBEDD_MODELS"

// storeFormat is the version of the pointer's form. A store that a newer one wrote is refused, never rewritten.
const storeFormat = 1

// pointer says which model of a pipeline is live.
type pointer struct {
	Format    int    `json:"format"`
	Version   string `json:"version"`
	Digest    string `json:"digest"`
	Epoch     int    `json:"epoch"`
	Bootstrap bool   `json:"standin,omitempty"`
	Number    int    `json:"number"` // of versions so far
}

// store keeps the models of one pipeline. An object is written once and never changed; going live is one
// compare-and-swap of the pointer, after the object is there.
type store struct {
	objects  jetstream.ObjectStore
	pointers jetstream.KeyValue
	pipeline string
	last     pointer
	revision uint64
}

// openStore binds the buckets, and makes them where they are missing: they are ours, not the user's.
func openStore(ctx context.Context, js jetstream.JetStream, pipeline string) (*store, error) {
	objects, err := js.ObjectStore(ctx, ModelBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		objects, err = js.CreateObjectStore(ctx,
			jetstream.ObjectStoreConfig{Bucket: ModelBucket, Description: "embedd models",
				Storage: jetstream.FileStorage})
	}
	if err != nil {
		return nil, fmt.Errorf("opening the model store (object store %s): %w", ModelBucket, err)
	}
	pointers, err := js.KeyValue(ctx, ModelBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		pointers, err = js.CreateKeyValue(ctx,
			jetstream.KeyValueConfig{Bucket: ModelBucket, Description: "live embedd models",
				Storage: jetstream.FileStorage, History: 64})
	}
	if err != nil {
		return nil, fmt.Errorf("opening the model store (key-value bucket %s): %w", ModelBucket, err)
	}
	return &store{objects: objects, pointers: pointers, pipeline: pipeline}, nil
}

// load returns the live model, nil where there is none yet.
func (s *store) load(ctx context.Context) (*plugin.Live, error) {
	entry, err := s.pointers.Get(ctx, s.pipeline)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the live model of %s: %w", s.pipeline, err)
	}
	var p pointer
	if err := json.Unmarshal(entry.Value(), &p); err != nil {
		return nil, fmt.Errorf("the pointer to the live model of %s (bucket %s, revision %d) is damaged: %w",
			s.pipeline, ModelBucket, entry.Revision(), err)
	}
	if p.Format > storeFormat {
		return nil, fmt.Errorf("the model store is of format %d and this embedd writes %d; use a newer embedd",
			p.Format, storeFormat)
	}
	m, err := s.get(ctx, p.Version)
	if err != nil {
		return nil, err
	}
	if m.Digest() != p.Digest {
		return nil, fmt.Errorf("model %s has digest %.16s, its pointer says %.16s; the store is damaged", p.Version,
			m.Digest(), p.Digest)
	}
	s.last, s.revision = p, entry.Revision()
	return &plugin.Live{Model: m, Version: p.Version, Epoch: p.Epoch, Bootstrap: p.Bootstrap}, nil
}

func (s *store) get(ctx context.Context, version string) (*model.Model, error) {
	object, err := s.objects.Get(ctx, version)
	if err != nil {
		return nil, fmt.Errorf("reading model %s: %w", version, err)
	}
	defer object.Close()
	m, err := model.Read(object)
	if err != nil {
		return nil, fmt.Errorf("reading model %s: %w", version, err)
	}
	return m, nil
}

// save writes a model, reads it back, and makes it the live one. It fails where somebody else moved the pointer
// meanwhile.
func (s *store) save(ctx context.Context, r *plugin.Release) (string, error) {
	m := r.Model
	next := pointer{Format: storeFormat, Digest: m.Digest(), Epoch: r.Epoch, Bootstrap: r.Bootstrap,
		Number: s.last.Number + 1}
	next.Version = s.pipeline + "-" + strconv.Itoa(next.Number) + "-" + m.Digest()[:8]
	note := m.Note()
	note.Version = next.Version
	var file bytes.Buffer
	if err := model.Write(&file, m.WithNote(note)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := s.objects.Put(ctx, jetstream.ObjectMeta{Name: next.Version, Description: m.Method()},
		bytes.NewReader(file.Bytes())); err != nil {
		return "", fmt.Errorf("writing model %s: %w", next.Version, err)
	}
	back, err := s.objects.GetBytes(ctx, next.Version)
	if err != nil || !bytes.Equal(back, file.Bytes()) {
		return "", fmt.Errorf("model %s does not read back as it was written: %w", next.Version, err)
	}
	value, err := json.Marshal(next)
	if err != nil {
		return "", err
	}
	revision := uint64(0)
	if s.revision == 0 {
		revision, err = s.pointers.Create(ctx, s.pipeline, value)
	} else {
		revision, err = s.pointers.Update(ctx, s.pipeline, value, s.revision)
	}
	if err != nil {
		return "", fmt.Errorf("making model %s the live one (another daemon may run this pipeline): %w",
			next.Version, err)
	}
	s.last, s.revision = next, revision
	return next.Version, nil
}

// ReadModel reads a model from the store: the live one of a pipeline, or a version by its name. Where the store has
// neither it is ErrModelMissing.
func ReadModel(ctx context.Context, js jetstream.JetStream, name string) (*model.Model, error) {
	objects, err := js.ObjectStore(ctx, ModelBucket)
	if err != nil {
		return nil, fmt.Errorf("opening the model store (object store %s): %w", ModelBucket, err)
	}
	s := &store{objects: objects, pipeline: name}
	m, err := s.get(ctx, name)
	if !errors.Is(err, jetstream.ErrObjectNotFound) {
		return m, err
	}
	if s.pointers, err = js.KeyValue(ctx, ModelBucket); err != nil {
		return nil, fmt.Errorf("opening the model store (key-value bucket %s): %w", ModelBucket, err)
	}
	live, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	if live == nil {
		return nil, &because{fmt.Sprintf("the store has neither a model nor a pipeline %q", name), ErrModelMissing}
	}
	return live.Model, nil
}

// windowStart is the sequence number from which the window of a model's fit can be filled again, windowEnd that of
// the last message it saw; 0 where the note does not say.
func windowStart(l *plugin.Live) uint64 { return sourceNumber(l, "first") }
func windowEnd(l *plugin.Live) uint64   { return sourceNumber(l, "last") }

func sourceNumber(l *plugin.Live, key string) uint64 {
	n, _ := strconv.ParseUint(l.Model.Note().Source[key], 10, 64)
	return n
}
