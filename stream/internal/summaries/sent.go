package summaries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// The summaries of edges. An edge is a JetStream domain and has a stream of what it sent. The hub's stream sources the
// streams of all edges, with the edge's name in the subject. In both, the parts of a summary are stored before its
// notice, which names their digest. The notices of a pipeline at an edge are a sequence: each is published only if the
// one before is still the last.
const (
	EdgeStream = "EMBEDD_EDGE"
	HubStream  = "EMBEDD_EDGES"

	// These are subjects of a key-value bucket because leaf nodes do not forward those. Otherwise other edges would store
	// the messages too.
	edgeRoot = "$KV.EMBEDD_EDGE."
	hubRoot  = "$KV.EMBEDD_EDGES."
)

// HubSubject matches the notices of a pipeline at the hub.
func HubSubject(pipeline string) string { return hubRoot + "*." + pipeline }

// EdgeSubjects match the notices of a pipeline and their parts at an edge.
func EdgeSubjects(pipeline string) []string {
	return []string{edgeRoot + pipeline, edgeRoot + pipeline + ".>"}
}

// Notice announces a summary: of which messages of the edge's stream, with which settings.
type Notice struct {
	Created  int64  `json:"created"` // when that stream was made, nanoseconds
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	Settings string `json:"settings"`
	manifest
}

// Sender is the stream of what an edge sent.
type Sender struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	prefix string
}

// CreateEdgeStream creates the stream of an edge where it is missing, with a size limit and a number of replicas (see
// [natsx.WithReplicas]).
//
// Its sequences begin at the microseconds since 1970, so a stream that is recreated after a disk was lost has higher
// sequences than before: the hub requests what follows the last sequence it has.
func CreateEdgeStream(ctx context.Context, js jetstream.JetStream, bytes int64, replicas int) error {
	return createStream(ctx, js, jetstream.StreamConfig{Name: EdgeStream, Subjects: []string{edgeRoot + ">"},
		Description: "summaries of embedd pipelines, for the hub", MaxBytes: bytes,
		FirstSeq: uint64(time.Now().UnixMicro())}, replicas)
}

// CreateHubStream creates the stream of the hub with the streams of edges as its sources, or adds the missing sources
// to the existing one. Other sources stay, since another pipeline may need them, and so does the size limit.
func CreateHubStream(ctx context.Context, js jetstream.JetStream, edges []string, bytes int64, replicas int) error {
	have, err := natsx.FindStream(ctx, js, HubStream)
	if err != nil {
		return fmt.Errorf("opening the summaries of the edges (stream %s): %w", HubStream, err)
	}
	if have == nil {
		return createStream(ctx, js, jetstream.StreamConfig{Name: HubStream, MaxBytes: bytes, Sources: sources(edges),
			Description: "summaries of embedd pipelines, from the edges"}, replicas)
	}
	c := have.CachedInfo().Config
	missing := MissingSources(&c, edges)
	if len(missing) == 0 {
		return nil
	}
	c.Sources = append(c.Sources, sources(missing)...)
	if _, err := js.UpdateStream(ctx, c); err != nil {
		return fmt.Errorf("adding the summaries of %s to the sources of stream %s: %w", strings.Join(missing, ", "),
			HubStream, err)
	}
	return nil
}

// Resize changes the size limit of a stream of summaries. Only setup does that: daemons with different configurations
// would change it in turns.
func Resize(ctx context.Context, js jetstream.JetStream, name string, bytes int64) error {
	have, err := js.Stream(ctx, name)
	if err == nil {
		c := have.CachedInfo().Config
		c.MaxBytes = bytes
		_, err = js.UpdateStream(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("changing the limit of the stream of summaries %s to %d MiB (nats.edge_bytes): %w",
			name, bytes>>20, err)
	}
	return nil
}

func createStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig, replicas int) error {
	c.Storage, c.Discard = jetstream.FileStorage, jetstream.DiscardOld
	if err := natsx.CreateStream(ctx, js, c, replicas); err != nil {
		return fmt.Errorf("creating the stream of summaries %s, which keeps up to %d MiB (nats.edge_bytes): %w", c.Name,
			c.MaxBytes>>20, err)
	}
	return nil
}

// sources returns the streams of edges as stream sources of the hub's stream.
func sources(edges []string) (out []*jetstream.StreamSource) {
	for _, edge := range edges {
		out = append(out, &jetstream.StreamSource{Name: EdgeStream,
			External: &jetstream.ExternalStream{APIPrefix: natsx.DomainPrefix(edge)},
			SubjectTransforms: []jetstream.SubjectTransformConfig{
				{Source: edgeRoot + ">", Destination: hubRoot + edge + ".>"}}})
	}
	return out
}

// MissingSources are the edges whose stream is no source of the hub's stream.
func MissingSources(c *jetstream.StreamConfig, edges []string) []string {
	return slices.DeleteFunc(slices.Clone(edges), func(edge string) bool {
		return slices.ContainsFunc(c.Sources, func(s *jetstream.StreamSource) bool {
			return s.Name == EdgeStream && s.External != nil && s.External.APIPrefix == natsx.DomainPrefix(edge)
		})
	})
}

// maxSourceSilence is how long an edge may be silent: its server sends heartbeats every few seconds.
const maxSourceSilence = time.Minute

// SilentEdges are the edges from which the hub's stream has received nothing for a while.
func SilentEdges(info *jetstream.StreamInfo, edges []string) (out []string) {
	for _, s := range info.Sources {
		for _, edge := range edges {
			if s.External != nil && s.External.APIPrefix == natsx.DomainPrefix(edge) &&
				(s.Active < 0 || s.Active > maxSourceSilence) {
				out = append(out, edge)
			}
		}
	}
	return out
}

// OpenSender opens the stream of an edge, and creates it where it is missing. The size limit of an existing one stays.
func OpenSender(ctx context.Context, js jetstream.JetStream, bytes int64, replicas int) (*Sender, error) {
	stream, err := natsx.Ensure(ctx,
		func(ctx context.Context) (jetstream.Stream, error) { return js.Stream(ctx, EdgeStream) },
		func(ctx context.Context) error { return CreateEdgeStream(ctx, js, bytes, replicas) })
	if err != nil {
		return nil, fmt.Errorf("opening the summaries for the hub (stream %s): %w", EdgeStream, err)
	}
	return &Sender{js, stream, natsx.PublishPrefix(js)}, nil
}

// Config is the stream's configuration when it was opened.
func (s *Sender) Config() jetstream.StreamConfig { return s.stream.CachedInfo().Config }

// LastNotice is the last notice of a pipeline and its sequence; nil and 0 if there is none.
func (s *Sender) LastNotice(ctx context.Context, pipeline string) (*Notice, uint64, error) {
	m, err := natsx.LastMessage(ctx, s.stream, edgeRoot+pipeline)
	if m == nil || err != nil {
		return nil, 0, err
	}
	n := &Notice{}
	if err := json.Unmarshal(m.Data, n); err != nil {
		return nil, m.Sequence, nil // the next one may start anywhere
	}
	return n, m.Sequence, nil
}

// savedNotice is the copy in the bucket of a pipeline's last notice, which notices of other pipelines may evict from
// the stream.
type savedNotice struct {
	Stream int64  `json:"stream"` // creation time of the stream that had it
	Notice Notice `json:"notice"`
}

func lastNoticeKey(pipeline string) string { return pipeline + ".sent" }

// SaveLast stores in a bucket which notice of a pipeline was the last.
func (s *Sender) SaveLast(ctx context.Context, b *Bucket, pipeline string, n Notice) error {
	return b.putJSON(ctx, lastNoticeKey(pipeline), savedNotice{s.stream.CachedInfo().Created.UnixNano(), n})
}

// LoadLast returns the notice that SaveLast stored for this stream; nil if there is none.
func (s *Sender) LoadLast(ctx context.Context, b *Bucket, pipeline string) (*Notice, error) {
	saved, err := getJSON[savedNotice](ctx, b, lastNoticeKey(pipeline))
	if saved == nil {
		return nil, err
	}
	info, err := s.stream.Info(ctx) // the stream may have been recreated: what it lacks is sent again
	if err != nil || info.Created.UnixNano() != saved.Stream {
		return nil, err
	}
	return &saved.Notice, nil
}

// checkSize is an error if the stream cannot hold two summaries of a size.
func (s *Sender) checkSize(ctx context.Context, size int64) error {
	most := s.Config().MaxBytes
	if most <= 0 || size <= most/2 {
		return nil
	}
	info, err := s.stream.Info(ctx) // setup may have changed it
	if err != nil {
		return err
	}
	if most = info.Config.MaxBytes; most > 0 && size > most/2 {
		return fmt.Errorf("a summary has %d KiB, and stream %s keeps %d KiB, which is too little for its parts; set "+
			"nats.edge_bytes to %d MiB or more, here and at the hub, and run 'embedd setup --apply' at both",
			size>>10, EdgeStream, most>>10, 8*size>>20+1)
	}
	return nil
}

// Send stores a summary and its notice if the notice with a sequence is still the last, and reports whether it is.
func (s *Sender) Send(ctx context.Context, pipeline string, n Notice, text []byte, after uint64) (bool, error) {
	if err := s.checkSize(ctx, int64(len(text))); err != nil {
		return false, err
	}
	n.manifest = manifestOf(text)
	for i := range n.parts() {
		msg := &nats.Msg{Subject: s.prefix + edgeRoot + pipeline + "." + n.part(i), Data: partOf(text, i)}
		_, err := natsx.PublishExpecting(ctx, s.js, msg, 0)
		if err != nil && !errors.Is(err, natsx.ErrConflict) { // taken: by the same bytes
			return false, err
		}
	}
	value, err := json.Marshal(n)
	if err != nil {
		return false, err
	}
	_, err = natsx.PublishExpecting(ctx, s.js, &nats.Msg{Subject: s.prefix + edgeRoot + pipeline, Data: value}, after)
	if errors.Is(err, natsx.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// counted ends the subject on which an edge publishes what it counted of a pipeline.
const counted = ".counted"

// SendCounted stores which schemas the messages of a pipeline have, as this edge counted them.
func (s *Sender) SendCounted(ctx context.Context, pipeline string, text []byte) error {
	_, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: s.prefix + edgeRoot + pipeline + counted, Data: text})
	return err
}

// Receiver is the stream of the hub.
type Receiver struct{ stream jetstream.Stream }

// OpenReceiver opens the stream of the hub, after adding the sources of edges.
func OpenReceiver(ctx context.Context, js jetstream.JetStream, edges []string, bytes int64, replicas int) (*Receiver,
	jetstream.Stream, error) {
	if err := CreateHubStream(ctx, js, edges, bytes, replicas); err != nil {
		return nil, nil, err
	}
	stream, err := natsx.AwaitStream(ctx, js, HubStream)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the summaries of the edges (stream %s): %w", HubStream, err)
	}
	return &Receiver{stream}, stream, nil
}

// Received is a notice in the hub's stream.
type Received struct {
	Notice
	Edge string
	Seq  uint64    // its sequence in the hub's stream
	Time time.Time // when the hub stored it
	Bad  bool      // the message is not a notice
}

// maxBlockMessages bounds a block.
const maxBlockMessages = 1 << 32

// Next returns the first notice of a pipeline from a position on; nil if there is none yet.
func (a *Receiver) Next(ctx context.Context, pipeline string, from uint64) (*Received, error) {
	m, err := a.stream.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(HubSubject(pipeline)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	edge, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, hubRoot), ".")
	one := &Received{Edge: edge, Seq: m.Sequence, Time: m.Time}
	one.Bad = json.Unmarshal(m.Data, &one.Notice) != nil || !one.isValid() || one.First == 0 || one.First > one.Last ||
		one.Last-one.First >= maxBlockMessages
	return one, nil
}

// Counted returns what an edge sent last with SendCounted; nil if it has sent nothing.
func (a *Receiver) Counted(ctx context.Context, pipeline, edge string) ([]byte, error) {
	return a.last(ctx, edge, pipeline+counted)
}

// last returns the last message of an edge with the end of a subject; nil if there is none.
func (a *Receiver) last(ctx context.Context, edge, subject string) ([]byte, error) {
	m, err := natsx.LastMessage(ctx, a.stream, hubRoot+edge+"."+subject)
	if m == nil || err != nil {
		return nil, err
	}
	return m.Data, nil
}

// Read reads a received summary of at most maxBytes. The error is ErrDamaged, or one of the connection.
func (a *Receiver) Read(ctx context.Context, pipeline string, one *Received, maxBytes int64) ([]byte, error) {
	return one.read(maxBytes, func(i int) ([]byte, error) {
		return a.last(ctx, one.Edge, pipeline+"."+one.part(i))
	})
}
