package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bucket is the name of the object store that holds the models and of the key-value bucket that holds the pointers.
const Bucket = "EMBEDD_MODELS"

// history is how many pointers of a pipeline the server keeps, for who looks what happened.
const history = 8

// chunk is the size of the messages that a model is cut into, the client's default; less where the server takes less.
const chunk = 128 << 10

// pollServer is how long a change may go unseen where the server lost who watches.
const pollServer = time.Minute

// jetStream is the store in JetStream.
type jetStream struct {
	conn     *nats.Conn
	objects  jetstream.ObjectStore
	pointers jetstream.KeyValue
	bytes    jetstream.Stream // of the object store
}

// JetStream is the store of a server, as it is: where the server keeps no models it is ErrMissing.
func JetStream(ctx context.Context, js jetstream.JetStream) (Store, error) {
	objects, err := js.ObjectStore(ctx, Bucket)
	if err == nil {
		var pointers jetstream.KeyValue
		if pointers, err = js.KeyValue(ctx, Bucket); err == nil {
			return jetStreamOf(ctx, js, objects, pointers)
		}
	}
	if absent(err) {
		return nil, fmt.Errorf("the server keeps no models (bucket %s): %w", Bucket, ErrMissing)
	}
	return nil, fmt.Errorf("opening the model store (bucket %s): %w", Bucket, err)
}

func jetStreamOf(ctx context.Context, js jetstream.JetStream, objects jetstream.ObjectStore,
	pointers jetstream.KeyValue) (Store, error) {
	bytes, err := js.Stream(ctx, "OBJ_"+Bucket)
	if err != nil {
		return nil, fmt.Errorf("opening the model store (object store %s): %w", Bucket, err)
	}
	return &jetStream{js.Conn(), objects, pointers, bytes}, nil
}

// MakeJetStream is the store of a server; its buckets are made where they are missing: they are ours, not the user's.
func MakeJetStream(ctx context.Context, js jetstream.JetStream) (Store, error) {
	objects, err := js.ObjectStore(ctx, Bucket)
	if absent(err) {
		objects, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: Bucket,
			Description: "embedd models", Storage: jetstream.FileStorage})
	}
	if err != nil {
		return nil, fmt.Errorf("opening the model store (object store %s): %w", Bucket, err)
	}
	pointers, err := js.KeyValue(ctx, Bucket)
	if absent(err) {
		pointers, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: Bucket,
			Description: "live embedd models", Storage: jetstream.FileStorage, History: history})
	}
	if err != nil {
		return nil, fmt.Errorf("opening the model store (key-value bucket %s): %w", Bucket, err)
	}
	return jetStreamOf(ctx, js, objects, pointers)
}

func absent(err error) bool {
	return errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}

func (s *jetStream) put(ctx context.Context, _, version string, data []byte) error {
	size := uint32(min(chunk, s.conn.MaxPayload()))
	_, err := s.objects.Put(ctx, jetstream.ObjectMeta{Name: version,
		Opts: &jetstream.ObjectMetaOptions{ChunkSize: size}}, bytes.NewReader(data))
	return err
}

func (s *jetStream) get(ctx context.Context, _, version string) (io.ReadCloser, error) {
	info, err := s.objects.GetInfo(ctx, version)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, errAbsent
	}
	if err != nil {
		return nil, err
	}
	// The client waits for ever for a chunk that is not there.
	chunks := "$O." + Bucket + ".C." + info.NUID
	bytes, err := s.bytes.Info(ctx, jetstream.WithSubjectFilter(chunks))
	if err != nil {
		return nil, err
	}
	if have := bytes.State.Subjects[chunks]; have != uint64(info.Chunks) {
		return nil, fmt.Errorf("it is damaged: %d of its %d chunks are there", have, info.Chunks)
	}
	object, err := s.objects.Get(ctx, version)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, errAbsent
	}
	return object, err
}

func (s *jetStream) remove(ctx context.Context, _, version string) error {
	err := s.objects.Delete(ctx, version)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	return err
}

func (s *jetStream) versions(ctx context.Context, pipeline string) ([]stored, error) {
	all, err := s.objects.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []stored
	for _, o := range all {
		if of, ok := PipelineOf(o.Name); ok && of == pipeline {
			out = append(out, stored{o.Name, o.ModTime, int64(o.Size)})
		}
	}
	return out, nil
}

func (s *jetStream) load(ctx context.Context, pipeline string) ([]byte, uint64, error) {
	entry, err := s.pointers.Get(ctx, pipeline)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	return entry.Value(), entry.Revision(), nil
}

func (s *jetStream) swap(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64, error) {
	var next uint64
	var err error
	if revision == 0 {
		next, err = s.pointers.Create(ctx, pipeline, value)
	} else {
		next, err = s.pointers.Update(ctx, pipeline, value, revision)
	}
	var api *jetstream.APIError
	if errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return 0, errMoved
	}
	return next, err
}

func (s *jetStream) wait(ctx context.Context, pipeline string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, pollServer)
	defer cancel()
	w, err := s.pointers.Watch(ctx, pipeline, jetstream.MetaOnly())
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case entry, ok := <-w.Updates():
			if !ok || entry != nil && entry.Revision() != revision {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// most leaves room for headers.
func (s *jetStream) most() int { return int(s.conn.MaxPayload()) - 1<<10 }

func (s *jetStream) pipelines(ctx context.Context) ([]string, error) {
	keys, err := s.pointers.Keys(ctx)
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, nil
	}
	slices.Sort(keys)
	return keys, err
}

func (s *jetStream) String() string {
	return "bucket " + Bucket + " of " + s.conn.ConnectedUrlRedacted()
}
