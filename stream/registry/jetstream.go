package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// Bucket is the name of the object store that holds the models and of the key-value bucket that holds the pointers.
const Bucket = "EMBEDD_MODELS"

// Streams are the names of the streams that are behind the buckets.
func Streams() []string { return []string{"OBJ_" + Bucket, "KV_" + Bucket} }

// pointerStream is the stream behind the bucket of pointers.
const pointerStream = "KV_" + Bucket

// pointerSubjects begins the subjects of the pointers.
const pointerSubjects = "$KV." + Bucket + "."

// maxHistory is how many pointers of a pipeline the server keeps, for diagnosis and recovery.
const maxHistory = 8

// chunk is the size of the messages of a model, the client's default; less if the server's max_payload is less.
const chunk = 128 << 10

// jetStream is the store in JetStream.
type jetStream struct {
	js      jetstream.JetStream
	conn    *nats.Conn
	writer  jetstream.ObjectStore
	objects *objects
	bucket  *natsx.Bucket // of the pointers
	streams *natsx.StreamCache
	// recreate creates deleted buckets again; nil if the caller may not.
	recreate func(ctx context.Context) error
}

// JetStream is the store of a server, whose buckets exist; otherwise the error is ErrMissing.
func JetStream(ctx context.Context, js jetstream.JetStream) (Store, error) {
	s, err := openExisting(ctx, js)
	if err != nil {
		return nil, err // not s, which would be a Store that is nil
	}
	return s, nil
}

func openExisting(ctx context.Context, js jetstream.JetStream) (*jetStream, error) {
	s, err := openJetStream(ctx, js, nil)
	if natsx.IsNotFound(err) {
		return nil, fmt.Errorf("the server has no model store (bucket %s): %w", Bucket, ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the model store (bucket %s): %w", Bucket, err)
	}
	return s, nil
}

func openJetStream(ctx context.Context, js jetstream.JetStream, recreate func(context.Context) error) (s *jetStream,
	err error) {
	s = &jetStream{js: js, conn: js.Conn(), streams: natsx.NewStreamCache(), recreate: recreate}
	if s.writer, err = js.ObjectStore(ctx, Bucket); err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, objectStream)
	if err != nil {
		return nil, err
	}
	open := natsx.OpenBucket
	if stream.CachedInfo().Config.Mirror != nil {
		open = natsx.OpenMirroredBucket
	}
	if s.bucket, err = open(ctx, js, Bucket); err != nil {
		return nil, err
	}
	s.objects = &objects{js, stream}
	return s, nil
}

// CreateJetStream is CreateReplicated with one replica.
func CreateJetStream(ctx context.Context, js jetstream.JetStream) (Store, error) {
	return CreateReplicated(ctx, js, 1)
}

// CreateReplicated is the store of a server. It creates missing buckets with a number of replicas (see
// natsx.WithReplicas).
func CreateReplicated(ctx context.Context, js jetstream.JetStream, replicas int) (Store, error) {
	s, err := natsx.Ensure(ctx, func(ctx context.Context) (*jetStream, error) {
		return openJetStream(ctx, js, func(ctx context.Context) error {
			_, err := CreateReplicated(ctx, js, replicas) // requests name buckets, so an open store uses the new ones
			return err
		})
	}, func(ctx context.Context) error {
		err := natsx.WithReplicas(js, replicas, func(n int) error {
			_, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: Bucket, Replicas: n,
				Description: "embedd models", Storage: jetstream.FileStorage})
			return err
		})
		if err != nil && !natsx.IsAlreadyInUse(err) {
			return err
		}
		return natsx.WithReplicas(js, replicas, func(n int) error {
			_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: Bucket, Replicas: n,
				Description: "live embedd models", Storage: jetstream.FileStorage, History: maxHistory})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("opening the model store (bucket %s): %w", Bucket, err)
	}
	s.bucket.AnnounceChanges()
	return s, nil
}

// put stores a model, and starts again when the connection is lost: the client would wait for a lost response until the
// deadline of ctx.
func (s *jetStream) put(ctx context.Context, _, version string, data []byte) error {
	size := uint32(min(chunk, s.conn.MaxPayload()))
	for attempt := 0; ; attempt++ {
		err := natsx.WhileConnected(ctx, s.conn, func(ctx context.Context) error {
			_, err := s.writer.Put(ctx, jetstream.ObjectMeta{Name: version,
				Opts: &jetstream.ObjectMetaOptions{ChunkSize: size}}, bytes.NewReader(data))
			return err
		})
		if !errors.Is(err, nats.ErrDisconnected) || !natsx.Backoff(ctx, attempt) {
			return err
		}
	}
}

func (s *jetStream) get(ctx context.Context, _, version string) (io.ReadCloser, error) {
	info, err := s.objects.info(ctx, version)
	if err != nil {
		return nil, err
	}
	return &chunks{ctx: ctx, js: s.js, subject: chunkPrefix + info.NUID, all: info.Chunks}, nil
}

func (s *jetStream) remove(ctx context.Context, _, version string) error {
	return s.objects.remove(ctx, version)
}

func (s *jetStream) versions(ctx context.Context, pipeline string) ([]stored, error) {
	all, _, err := s.objects.list(ctx, func(name string) bool {
		of, ok := PipelineOf(name)
		return ok && of == pipeline
	})
	if err != nil {
		return nil, err
	}
	var out []stored
	for _, o := range all {
		out = append(out, stored{o.Name, o.ModTime, int64(o.Size)})
	}
	return out, nil
}

func (s *jetStream) tidy(ctx context.Context, _ string, older time.Duration) error {
	return s.objects.tidy(ctx, older)
}

// load reads a pointer at the leader of its stream: a write that was not confirmed is looked for there. A pointer that
// an operator deleted counts as missing.
func (s *jetStream) load(ctx context.Context, pipeline string) ([]byte, uint64, error) {
	value, revision, err := s.bucket.Get(ctx, pipeline)
	if (errors.Is(err, nats.ErrNoResponders) || natsx.IsNotFound(err)) && s.recreate != nil {
		if err := s.recreate(ctx); err != nil {
			return nil, 0, err
		}
		value, revision, err = s.bucket.Get(ctx, pipeline)
	}
	return value, revision, err
}

func (s *jetStream) history(ctx context.Context, pipeline string) ([][]byte, error) {
	return s.bucket.History(ctx, pipeline)
}

func (s *jetStream) compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64, error) {
	next, err := s.bucket.Update(ctx, pipeline, value, revision)
	if errors.Is(err, natsx.ErrConflict) {
		return 0, errMoved
	}
	return next, err
}

func (s *jetStream) refused(pipeline string) []natsx.Refusal { return s.bucket.Refused(pipeline) }

func (s *jetStream) watch(pipeline string) (func(context.Context, uint64) error, func()) {
	key := s.bucket.Watch(pipeline)
	return func(ctx context.Context, revision uint64) error {
		key.Hint(ctx, revision)
		return nil
	}, key.Stop
}

func (s *jetStream) lastSequence(ctx context.Context, _ string) (uint64, time.Time, error) {
	stream, at, err := s.streams.GetAt(ctx, pointerStream, func(ctx context.Context) (jetstream.Stream, error) {
		return natsx.Hedge(ctx, func(ctx context.Context) (jetstream.Stream, error) {
			return s.js.Stream(ctx, pointerStream)
		})
	})
	if natsx.IsNotFound(err) {
		return 0, at, nil // load makes it again
	}
	if err != nil {
		return 0, at, err
	}
	return stream.CachedInfo().State.LastSeq, at, nil
}

func (s *jetStream) created(ctx context.Context) (time.Time, error) {
	stream, err := s.js.Stream(ctx, pointerStream)
	if err != nil {
		return time.Time{}, err
	}
	return stream.CachedInfo().Created, nil
}

// maxPointerBytes leaves room for headers.
func (s *jetStream) maxPointerBytes() int { return int(s.conn.MaxPayload()) - 1<<10 }

// pipelines lists the keys of the pointers without a consumer, which would need permissions on consumers of others.
func (s *jetStream) pipelines(ctx context.Context) (names []string, err error) {
	stream, err := s.js.Stream(ctx, pointerStream)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(pointerSubjects+">"))
	if err != nil {
		return nil, err
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		name := strings.TrimPrefix(subject, pointerSubjects)
		value, _, err := s.bucket.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		if value != nil || len(s.refused(name)) > 0 {
			names = append(names, name)
		}
	}
	return names, nil
}

func (s *jetStream) String() string {
	where := s.conn.ConnectedUrl()
	// Who connects is left out whole: where there is no password, the user is a token.
	return "bucket " + Bucket + " of " + where[strings.LastIndex(where, "@")+1:]
}
