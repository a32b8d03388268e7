package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/model"
)

// Edge is the store of a leaf node, whose models are those of its hub, another JetStream domain. It reads from the
// hub, and while the hub does not answer from the mirrors of the hub's buckets: after an outage a mirror may need a
// minute to catch up. Nothing is stored at an edge; a choice, such as a pin, is written at the hub.
type Edge struct {
	*jetStream // the mirrors
	hub        *jetStream
	domain     string
	answeredAt latestTime // see HubAnsweredAt
	answers    sync.Map   // by pipeline, the entry that the hub answered last: a mirror may be behind it
}

// entry is a pointer as it was read.
type entry struct {
	value    []byte
	revision uint64
}

// hubWait is how long the hub may take to answer. A leaf node that is disconnected fails at once.
const hubWait = 2 * time.Second

// MissingMirrors returns the streams of a hub's buckets that have no mirror; ErrNoMirror if a name is that of another.
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

// CreateEdge opens the store of a leaf node whose hub has the models. It creates missing mirrors with a number of
// replicas (see natsx.WithReplicas). The hub need not answer. The error is ErrNoMirror if the leaf node has a store.
func CreateEdge(ctx context.Context, js jetstream.JetStream, domain string, replicas int) (*Edge, error) {
	create := func(ctx context.Context) error { return createMirrors(ctx, js, domain, replicas) }
	if err := create(ctx); err != nil {
		return nil, err
	}
	mirror, err := openJetStream(ctx, js, create)
	if err != nil {
		return nil, err
	}
	hub, err := jetstream.NewWithAPIPrefix(js.Conn(), natsx.DomainPrefix(domain))
	if err != nil {
		return nil, err
	}
	return &Edge{jetStream: mirror, domain: domain, hub: &jetStream{js: hub, bucket: natsx.NewBucket(hub, Bucket)}}, nil
}

func createMirrors(ctx context.Context, js jetstream.JetStream, domain string, replicas int) error {
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
func (e *Edge) HubAnsweredAt() time.Time { return e.answeredAt.load() }

func (e *Edge) load(ctx context.Context, pipeline string) (value []byte, revision uint64, err error) {
	begin := time.Now()
	within, cancel := context.WithTimeout(ctx, hubWait)
	defer cancel()
	if value, revision, err = e.hub.load(within, pipeline); err == nil {
		e.answers.Store(pipeline, entry{value, revision})
		e.answeredAt.advance(begin)
		return value, revision, nil
	}
	value, revision, err = e.jetStream.load(ctx, pipeline)
	answered, _ := e.answers.Load(pipeline)
	if last, _ := answered.(entry); last.revision > 0 && (err != nil || last.revision > revision) {
		return last.value, last.revision, nil
	}
	return value, revision, err
}

func (e *Edge) compareAndSet(ctx context.Context, pipeline string, value []byte, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, hubWait)
	defer cancel()
	next, err := e.hub.compareAndSet(ctx, pipeline, value, revision)
	if err != nil && !errors.Is(err, natsx.ErrConflict) {
		err = fmt.Errorf("requesting from the hub (domain %s): %w", e.domain, err)
	}
	return next, err
}

func (e *Edge) state(ctx context.Context, pipeline string) (natsx.KeySourceState, time.Time, error) {
	within, cancel := context.WithTimeout(ctx, hubWait)
	defer cancel()
	s, at, err := e.hub.state(within, pipeline)
	if err == nil && s.Created != 0 {
		e.answeredAt.advance(at)
		return s, at, nil
	}
	s, _, err = e.jetStream.state(ctx, pipeline)
	return s, e.HubAnsweredAt(), err
}

// get reads from the mirror, and from the hub what the mirror lacks.
func (e *Edge) get(ctx context.Context, pipeline, version string, limit int64) (*model.Model, error) {
	m, err := e.jetStream.get(ctx, pipeline, version, limit)
	if err != nil {
		if m, err := e.hub.get(ctx, pipeline, version, limit); err == nil {
			return m, nil
		}
	}
	return m, err
}

func (e *Edge) put(_ context.Context, _, version string, _ []byte) error {
	return fmt.Errorf("version %s: models are stored at the hub (domain %s) alone", version, e.domain)
}

// remove and tidy delete nothing, since that would publish on subjects of the hub.
func (e *Edge) remove(context.Context, string, string) error      { return nil }
func (e *Edge) tidy(context.Context, string, time.Duration) error { return nil }

// versions returns those at the hub, none while it is unreachable: the mirror of the models may be ahead of the mirror
// of the pointers. A hub that has answered just now returns its error: without models the pipeline would count as new.
func (e *Edge) versions(ctx context.Context, pipeline string) ([]*jetstream.ObjectInfo, error) {
	if time.Since(e.HubAnsweredAt()) > hubWait {
		return nil, nil
	}
	return e.hub.versions(ctx, pipeline)
}

// Sweep deletes from the mirror what the hub has deleted, unless the hub has no model of the pipeline or no answer.
func (e *Edge) Sweep(ctx context.Context, pipeline string) error {
	mirrored, err := e.jetStream.names(ctx, pipeline)
	if err != nil {
		return err
	}
	// One request: on a slow link there is no time for one for each version.
	within, cancel := context.WithTimeout(ctx, hubWait)
	defer cancel()
	there, err := e.hub.names(within, pipeline)
	if err != nil || len(there) == 0 {
		return nil // the hub is unreachable, or has no model
	}
	for _, name := range mirrored {
		if slices.Contains(there, name) {
			continue
		}
		if err := e.jetStream.remove(ctx, pipeline, name); err != nil {
			return err
		}
	}
	return e.jetStream.tidy(ctx, pipeline, maxWriteIdle)
}

func (e *Edge) refused(pipeline string) []string {
	return append(e.jetStream.refused(pipeline), e.hub.refused(pipeline)...)
}

func (e *Edge) String() string { return e.jetStream.String() + ", a mirror of domain " + e.domain }
