package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// Edge is the store of a leaf node, whose models are those of its hub, another JetStream domain. It reads from the
// hub, and while the hub does not answer from the mirrors of the hub's buckets: after an outage a mirror may need a
// minute to catch up. Nothing is stored at an edge; a choice, such as a pin, is written at the hub.
type Edge struct {
	*jetStream // the mirrors
	domain     string
	hubJS      jetstream.JetStream
	answeredAt atomic.Int64 // see Heard, in nanoseconds

	mu         sync.Mutex
	hub        *jetStream       // nil until it has answered once
	lastAnswer map[string]entry // the hub's last answer, by pipeline: a mirror may be behind it
}

// entry is a pointer as it was read.
type entry struct {
	value    []byte
	revision uint64
}

// hubWait is how long the hub may take to answer. A leaf node that is disconnected fails at once.
const hubWait = 2 * time.Second

// MissingMirrors are the mirrors of a hub's buckets that do not exist. A stream of the name that is no mirror is an
// error.
func MissingMirrors(ctx context.Context, js jetstream.JetStream, domain string) (missing []string, err error) {
	for _, name := range Streams() {
		s, err := js.Stream(ctx, name)
		if natsx.IsNotFound(err) {
			missing = append(missing, name)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("opening the mirror of the model store (stream %s): %w", name, err)
		}
		m := s.CachedInfo().Config.Mirror
		if m == nil || m.External == nil || m.External.APIPrefix != natsx.DomainPrefix(domain) {
			return nil, fmt.Errorf("%w %s: stream %s exists and holds other models; if those are not needed, 'nats stream rm "+
				"%s', and it is created as a mirror", ErrNoMirror, domain, name, name)
		}
	}
	return missing, nil
}

// CreateEdge is the store of a leaf node whose hub has the models. It creates missing mirrors with a number of
// replicas (see natsx.WithReplicas). The hub need not answer.
func CreateEdge(ctx context.Context, js jetstream.JetStream, domain string, replicas int) (*Edge, error) {
	if err := makeMirrors(ctx, js, domain, replicas); err != nil {
		return nil, err
	}
	mirror, err := natsx.Await(ctx, func(ctx context.Context) (*jetStream, error) {
		return openJetStream(ctx, js, func(ctx context.Context) error { return makeMirrors(ctx, js, domain, replicas) })
	})
	if err != nil {
		return nil, fmt.Errorf("opening the mirror of the model store (bucket %s): %w", Bucket, err)
	}
	hub, err := jetstream.NewWithAPIPrefix(js.Conn(), natsx.DomainPrefix(domain))
	if err != nil {
		return nil, err
	}
	return &Edge{jetStream: mirror, domain: domain, hubJS: hub, lastAnswer: map[string]entry{}}, nil
}

func makeMirrors(ctx context.Context, js jetstream.JetStream, domain string, replicas int) error {
	missing, err := MissingMirrors(ctx, js, domain)
	if err != nil {
		return err
	}
	for _, name := range missing {
		hub := &jetstream.ExternalStream{APIPrefix: natsx.DomainPrefix(domain)}
		c := jetstream.StreamConfig{Name: name, Description: "embedd models of domain " + domain,
			Storage: jetstream.FileStorage, AllowRollup: true, Mirror: &jetstream.StreamSource{Name: name, External: hub}}
		if name == pointerStream {
			c.MaxMsgsPerSubject = maxHistory // without it a client does not recognise the stream as a bucket
		}
		if err := natsx.CreateStream(ctx, js, c, replicas); err != nil {
			return fmt.Errorf("creating the mirror of the model store (stream %s of domain %s): %w", name, domain, err)
		}
	}
	return nil
}

// Domain is the JetStream domain of the hub.
func (e *Edge) Domain() string { return e.domain }

// HubAnsweredAt is when the hub last answered what is live; zero if it has not.
func (e *Edge) HubAnsweredAt() time.Time {
	if at := e.answeredAt.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// atHub returns what the hub's store answers within hubWait.
func atHub[T any](ctx context.Context, e *Edge, request func(context.Context, *jetStream) (T, error)) (answer T,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, hubWait)
	defer cancel()
	e.mu.Lock()
	hub := e.hub
	e.mu.Unlock()
	if hub == nil {
		if hub, err = openExisting(ctx, e.hubJS); err == nil {
			e.mu.Lock()
			e.hub = hub
			e.mu.Unlock()
		}
	}
	if err == nil {
		answer, err = request(ctx, hub)
	}
	if err != nil && !errors.Is(err, errMoved) && !errors.Is(err, errAbsent) {
		err = fmt.Errorf("requesting from the hub (domain %s): %w", e.domain, err)
	}
	return answer, err
}

func (e *Edge) load(ctx context.Context, pipeline string) (value []byte, revision uint64, err error) {
	begin := time.Now()
	answer, err := atHub(ctx, e, func(ctx context.Context, hub *jetStream) (one entry, err error) {
		one.value, one.revision, err = hub.load(ctx, pipeline)
		return one, err
	})
	e.mu.Lock()
	had := e.lastAnswer[pipeline]
	if err == nil {
		e.lastAnswer[pipeline] = answer
	}
	e.mu.Unlock()
	if err == nil {
		advance(&e.answeredAt, begin)
		return answer.value, answer.revision, nil
	}
	value, revision, err = e.jetStream.load(ctx, pipeline)
	if had.revision > 0 && (err != nil || had.revision > revision) {
		return had.value, had.revision, nil
	}
	return value, revision, err
}

func (e *Edge) lastSequence(ctx context.Context, pipeline string) (number uint64, at time.Time, err error) {
	number, err = atHub(ctx, e, func(ctx context.Context, hub *jetStream) (number uint64, err error) {
		number, at, err = hub.lastSequence(ctx, pipeline)
		return number, err
	})
	if err == nil {
		advance(&e.answeredAt, at)
		return number, at, nil
	}
	number, _, err = e.jetStream.lastSequence(ctx, pipeline)
	return number, e.HubAnsweredAt(), err
}

func (e *Edge) created(ctx context.Context) (time.Time, error) {
	at, err := atHub(ctx, e, func(ctx context.Context, hub *jetStream) (time.Time, error) { return hub.created(ctx) })
	if err != nil {
		return e.jetStream.created(ctx)
	}
	return at, nil
}

// get reads from the mirror, and from the hub what the mirror lacks.
func (e *Edge) get(ctx context.Context, pipeline, version string) (io.ReadCloser, error) {
	r, err := e.jetStream.get(ctx, pipeline, version)
	if err != nil {
		return e.getAtHub(ctx, pipeline, version, err)
	}
	return &mirrorFirst{ReadCloser: r, rest: func(err error) (io.ReadCloser, error) {
		return e.getAtHub(ctx, pipeline, version, err)
	}}, nil
}

func (e *Edge) getAtHub(ctx context.Context, pipeline, version string, near error) (io.ReadCloser, error) {
	r, err := atHub(ctx, e, func(_ context.Context, hub *jetStream) (io.ReadCloser, error) {
		return hub.get(ctx, pipeline, version) // longer than an ordinary request
	})
	if err != nil {
		return nil, near
	}
	return r, nil
}

// mirrorFirst reads from the mirror, and the rest from the hub if that fails.
type mirrorFirst struct {
	io.ReadCloser
	rest func(error) (io.ReadCloser, error)
	read int64
}

func (f *mirrorFirst) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && f.rest != nil {
		hub, errHub := f.rest(err)
		f.rest = nil
		if errHub != nil {
			return n, err
		}
		// An end of this copy is not the end of the model.
		if _, errHub := io.CopyN(io.Discard, hub, f.read+int64(n)); errHub != nil {
			return n, errors.Join(err, hub.Close())
		}
		_ = f.ReadCloser.Close() // its error is known already
		f.ReadCloser, err = hub, nil
	}
	f.read += int64(n)
	return n, err
}

func (e *Edge) put(ctx context.Context, pipeline, version string, data []byte) error {
	return fmt.Errorf("version %s: models are stored at the hub (domain %s) alone", version, e.domain)
}

func (e *Edge) compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64, error) {
	return atHub(ctx, e, func(ctx context.Context, hub *jetStream) (uint64, error) {
		return hub.compareAndSet(ctx, pipeline, value, revision)
	})
}

// Deleting an object here would publish on subjects of the hub.
func (e *Edge) remove(context.Context, string, string) error      { return nil }
func (e *Edge) tidy(context.Context, string, time.Duration) error { return nil }

// versions returns those at the hub, none while it is unreachable: the mirror of the models may be ahead of the mirror
// of the pointers.
func (e *Edge) versions(ctx context.Context, pipeline string) ([]stored, error) {
	there, err := atHub(ctx, e, func(ctx context.Context, hub *jetStream) ([]stored, error) {
		return hub.versions(ctx, pipeline)
	})
	if err != nil {
		return nil, nil
	}
	return there, nil
}

// Sweep deletes from the mirror the versions that the hub has deleted, which a mirror keeps. If the pipeline has no
// model at the hub, it deletes nothing.
func (e *Edge) Sweep(ctx context.Context, pipeline string) error {
	mirrored, err := e.jetStream.versions(ctx, pipeline)
	if err != nil {
		return err
	}
	there, err := e.versions(ctx, pipeline)
	if err != nil || len(there) == 0 {
		return err
	}
	for _, one := range mirrored {
		if slices.ContainsFunc(there, func(s stored) bool { return s.name == one.name }) {
			continue
		}
		if err := e.jetStream.objects.remove(ctx, one.name); err != nil {
			return err
		}
	}
	return e.jetStream.tidy(ctx, pipeline, maxWriteIdle)
}

func (e *Edge) refused(pipeline string) []natsx.Refusal {
	e.mu.Lock()
	hub := e.hub
	e.mu.Unlock()
	all := e.jetStream.refused(pipeline)
	if hub != nil {
		all = append(all, hub.refused(pipeline)...)
	}
	return all
}

func (e *Edge) String() string { return e.jetStream.String() + ", a mirror of domain " + e.domain }
