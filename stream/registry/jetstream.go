package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model"
)

// Bucket is the name of the object store that holds the models and of the key-value bucket that holds the pointers.
const Bucket = "EMBEDD_MODELS"

// The streams behind the two buckets. The metadata of an object is on a subject that begins with metadataPrefix, and
// its bytes on one with chunkPrefix; what follows is the name of the object, encoded, or the identity of one write.
const (
	pointerStream  = "KV_" + Bucket
	objectStream   = "OBJ_" + Bucket
	metadataPrefix = "$O." + Bucket + ".M."
	chunkPrefix    = "$O." + Bucket + ".C."
)

// Streams returns the names of the JetStream streams of the object store and of the key-value bucket.
func Streams() []string { return []string{objectStream, pointerStream} }

// maxHistory is how many pointers of a pipeline the server keeps, for diagnosis and recovery.
const maxHistory = 8

// maxChunk is the size of the messages of a model in bytes, the client's default; less if the server's max_payload is.
const maxChunk = 128 << 10

// jetStream is the store in JetStream. Models are written by the client's object store. They are read and removed here:
// at the leader of the stream, without a consumer, without waiting for a chunk that is not there, and by metadata that
// was written as such, since any client can have an answer of the server stored under its subject.
type jetStream struct {
	js      jetstream.JetStream
	objects jetstream.ObjectStore       // to write models; nil: none are
	bucket  *natsx.Bucket               // of the pointers
	create  func(context.Context) error // creates the buckets if they are missing; nil: nothing does
}

// JetStream opens the store of a server. It creates nothing: if a bucket is missing, the error is ErrMissing.
func JetStream(ctx context.Context, js jetstream.JetStream) (Store, error) {
	s, err := openJetStream(ctx, js, func(context.Context) error {
		return withKind(ErrMissing, fmt.Errorf("the server has no model store (bucket %s)", Bucket))
	})
	if err != nil {
		return nil, err // not s, which would be a Store that is nil
	}
	return s, nil
}

// CreateReplicated opens the store of a server. It creates missing buckets with a number of replicas (see
// natsx.WithReplicas), also when they are deleted later.
func CreateReplicated(ctx context.Context, js jetstream.JetStream, replicas int) (Store, error) {
	s, err := openJetStream(ctx, js, func(ctx context.Context) error {
		return natsx.WithReplicas(js, replicas, func(n int) error {
			_, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: Bucket, Replicas: n,
				Description: "embedd models", Storage: jetstream.FileStorage})
			if err == nil || natsx.IsAlreadyInUse(err) {
				_, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: Bucket, Replicas: n,
					Description: "live embedd models", Storage: jetstream.FileStorage, History: maxHistory})
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	s.bucket.AnnounceChanges()
	return s, nil
}

// openJetStream opens the two buckets. If one is missing, now or later, it calls create, whose error it returns.
func openJetStream(ctx context.Context, js jetstream.JetStream, create func(context.Context) error) (*jetStream,
	error) {
	open := func(ctx context.Context) (jetstream.ObjectStore, error) { return js.ObjectStore(ctx, Bucket) }
	objects, err := natsx.Ensure(ctx, open, create)
	var bucket *natsx.Bucket
	if err == nil {
		bucket, err = natsx.EnsureBucketBy(ctx, js, Bucket, create)
	}
	if errors.Is(err, ErrMissing) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("opening the model store (bucket %s): %w", Bucket, err)
	}
	return &jetStream{js, objects, bucket, natsx.Recreating(open, create)}, nil
}

// The first attempt to store a model may take putWait, plus the time to send the model at putRate bytes per second.
// Each further attempt may take twice as long, so that a model is also stored over a slower link.
const (
	putWait = 5 * time.Second
	putRate = 100 << 10
)

// put stores a model. It retries if the connection or a publish acknowledgement is lost, and once if the object store
// was deleted. Without a timeout of each attempt the client waits for the acknowledgement until the deadline of ctx.
func (s *jetStream) put(ctx context.Context, _, version string, data []byte) error {
	size := uint32(min(maxChunk, s.js.Conn().MaxPayload()))
	wait := putWait + time.Duration(len(data))*time.Second/putRate
	for attempt := 0; ; attempt++ {
		err := natsx.WhileConnected(ctx, s.js.Conn(), func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			_, err := s.objects.Put(ctx, jetstream.ObjectMeta{Name: version,
				Opts: &jetstream.ObjectMetaOptions{ChunkSize: size}}, bytes.NewReader(data))
			return err
		})
		switch {
		case isUnanswered(err) && natsx.Backoff(ctx, attempt):
			wait *= 2
		case errors.Is(err, nats.ErrNoResponders) && attempt == 0:
			if err := s.create(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// isUnanswered reports whether the server did not answer in time, or the connection was lost.
func isUnanswered(err error) bool {
	return errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, context.DeadlineExceeded)
}

func (s *jetStream) get(ctx context.Context, _, version string, limit int64) (*model.Model, error) {
	info, err := s.info(ctx, version)
	if err != nil {
		return nil, err
	}
	object := chunkReader{ctx: ctx, js: s.js, subject: chunkPrefix + info.NUID, all: info.Chunks}
	m, err := model.ReadLimit(&object, limit)
	if object.failed != nil {
		return nil, object.failed
	}
	return m, withKind(ErrDamaged, err)
}

// info returns the metadata of an object; the error is ErrMissing if there is none.
func (s *jetStream) info(ctx context.Context, name string) (*jetstream.ObjectInfo, error) {
	for seq := uint64(1); ; {
		msg, err := natsx.NextMessage(ctx, s.js, objectStream, metadataSubject(name), seq)
		if err != nil {
			return nil, err
		}
		if msg == nil {
			return nil, ErrMissing
		}
		if natsx.IsCopy(msg.Header) || msg.Header.Get(jetstream.MsgRollup) == "" {
			seq = msg.Sequence + 1
			continue
		}
		var info jetstream.ObjectInfo
		if err := json.Unmarshal(msg.Data, &info); err != nil || info.Name != name {
			return nil, withKind(ErrDamaged, fmt.Errorf("the metadata of %s: %w", name, jetstream.ErrBadObjectMeta))
		}
		if info.Deleted {
			return nil, ErrMissing
		}
		info.ModTime = msg.Time
		return &info, nil
	}
}

func metadataSubject(name string) string {
	return metadataPrefix + base64.URLEncoding.EncodeToString([]byte(name))
}

// chunkReader reads the bytes of an object, one chunk after another.
type chunkReader struct {
	ctx       context.Context
	js        jetstream.JetStream
	subject   string // of the chunks
	all, read uint32 // chunks
	last      uint64 // sequence number of the last chunk that was read
	rest      []byte // of that chunk
	failed    error  // of a request for a chunk: the server did not answer, which says nothing about the object
}

func (c *chunkReader) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.read == c.all {
			return 0, io.EOF
		}
		msg, err := natsx.NextMessage(c.ctx, c.js, objectStream, c.subject, c.last+1)
		if c.failed = err; err != nil {
			return 0, err
		}
		if msg == nil {
			return 0, fmt.Errorf("it is damaged or was removed meanwhile: %d of its %d chunks are there", c.read, c.all)
		}
		c.rest, c.last, c.read = msg.Data, msg.Sequence, c.read+1
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// remove removes an object, its metadata last: an object that is removed in part is listed and removed again.
func (s *jetStream) remove(ctx context.Context, _, version string) error {
	info, err := s.info(ctx, version)
	if err == nil {
		err = s.purge(ctx, chunkPrefix+info.NUID)
	}
	if err != nil && !isUnreadable(err) {
		return err
	}
	return s.purge(ctx, metadataSubject(version))
}

func (s *jetStream) purge(ctx context.Context, subject string) error {
	stream, err := natsx.Stream(ctx, s.js, objectStream)
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
}

// names returns the names of the versions of a pipeline, or of all objects if pipeline is "", with one request.
func (s *jetStream) names(ctx context.Context, pipeline string) (names []string, err error) {
	encoded, err := natsx.SubjectEnds(ctx, s.js, objectStream, metadataPrefix)
	if natsx.IsNotFound(err) && s.create != nil {
		return nil, errors.Join(err, s.create(ctx)) // the next call finds the new bucket
	}
	for _, e := range encoded {
		name, err := base64.URLEncoding.DecodeString(e)
		if of, _ := PipelineOf(string(name)); err == nil && (pipeline == "" || of == pipeline) {
			names = append(names, string(name))
		}
	}
	return names, err
}

// versions returns the metadata of what names returns, with a request for each. It leaves out what cannot be read.
func (s *jetStream) versions(ctx context.Context, pipeline string) (all []*jetstream.ObjectInfo, err error) {
	names, err := s.names(ctx, pipeline)
	for _, name := range names {
		info, err := s.info(ctx, name)
		if err == nil {
			all = append(all, info)
		} else if !isUnreadable(err) {
			return nil, err
		}
	}
	return all, err
}

// tidy purges the chunks of objects without metadata, which is written last. Their age is by the clock of the server
// that has dated them: by another one, a model that is being written may look abandoned.
func (s *jetStream) tidy(ctx context.Context, _ string, maxIdle time.Duration) error {
	stream, err := natsx.Stream(ctx, s.js, objectStream)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	now := info.TimeStamp
	if info.Config.Mirror != nil {
		now = info.State.LastTime // the messages of a mirror have the times of its origin
	}
	writes, err := natsx.SubjectEnds(ctx, s.js, objectStream, chunkPrefix)
	if err != nil {
		return err
	}
	all, err := s.versions(ctx, "")
	if err != nil {
		return err
	}
	for _, id := range writes {
		if slices.ContainsFunc(all, func(i *jetstream.ObjectInfo) bool { return i.NUID == id }) {
			continue
		}
		last, err := natsx.NewestMessage(ctx, s.js, objectStream, chunkPrefix+id)
		if err == nil && last != nil && now.Sub(last.Time) > maxIdle {
			err = s.purge(ctx, chunkPrefix+id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// load reads a pointer at the leader of its stream, which has every write. One that an operator deleted is missing.
func (s *jetStream) load(ctx context.Context, pipeline string) ([]byte, uint64, error) {
	return s.bucket.Get(ctx, pipeline)
}

func (s *jetStream) history(ctx context.Context, pipeline string) ([][]byte, error) {
	return s.bucket.History(ctx, pipeline)
}

func (s *jetStream) compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64, error) {
	return s.bucket.Update(ctx, pipeline, value, revision)
}

func (s *jetStream) watch(pipeline string, notify func(natsx.Change)) (time.Duration, func()) {
	return math.MaxInt64, s.bucket.Watch(pipeline, notify).Stop
}

func (s *jetStream) state(ctx context.Context, _ string) (natsx.KeySourceState, time.Time, error) {
	return s.bucket.State(ctx)
}

func (s *jetStream) refused(pipeline string) []string { return s.bucket.Refused(pipeline) }

// maxPointerBytes leaves room for headers.
func (s *jetStream) maxPointerBytes() int { return int(s.js.Conn().MaxPayload()) - 1<<10 }

// pipelines lists the keys of the pointers without a consumer, which would need permissions on consumers of others.
func (s *jetStream) pipelines(ctx context.Context) (names []string, err error) {
	keys, err := s.bucket.Names(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, name := range keys {
		value, _, err := s.load(ctx, name)
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
	url := s.js.Conn().ConnectedUrl()
	// The user is left out with the password: without one, it is a token.
	return "bucket " + Bucket + " of " + url[strings.LastIndex(url, "@")+1:]
}
