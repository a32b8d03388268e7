package summaries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// The summaries of edges. An edge is a JetStream domain and has a stream of what it sent. The hub's stream sources the
// streams of all edges, with the edge's name in the subject. The notices of a pipeline at an edge are a sequence: each
// is published only if the one before is still the last.
const (
	EdgeStream = "EMBEDD_EDGE"
	HubStream  = "EMBEDD_EDGES"

	// These are subjects of a key-value bucket because leaf nodes do not forward those. Otherwise other edges would store
	// the messages too.
	edgeRoot = "$KV.EMBEDD_EDGE."
	hubRoot  = "$KV.EMBEDD_EDGES."

	// counted ends the key of what an edge counted of a pipeline.
	counted = ".counted"
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

// EdgeConfig is the stream of an edge, with a size limit.
//
// Its sequences begin at the microseconds since 1970, so a stream that is recreated after a disk was lost has higher
// sequences than before: the hub requests what follows the last sequence it has.
func EdgeConfig(bytes int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: EdgeStream, Subjects: []string{edgeRoot + ">"},
		Description: "summaries of embedd pipelines, for the hub", Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardOld, MaxBytes: bytes, FirstSeq: uint64(time.Now().UnixMicro())}
}

// HubConfig is the stream of the hub, whose sources are the streams of edges, with a size limit.
func HubConfig(edges []string, bytes int64) jetstream.StreamConfig {
	c := jetstream.StreamConfig{Name: HubStream, Description: "summaries of embedd pipelines, from the edges",
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardOld, MaxBytes: bytes}
	for _, edge := range edges {
		c.Sources = append(c.Sources, &jetstream.StreamSource{Name: EdgeStream,
			External: &jetstream.ExternalStream{APIPrefix: natsx.DomainPrefix(edge)},
			SubjectTransforms: []jetstream.SubjectTransformConfig{
				{Source: edgeRoot + ">", Destination: hubRoot + edge + ".>"}}})
	}
	return c
}

// hasSource reports whether a stream sources that of an edge, whose JetStream domain has an API prefix.
func hasSource(c *jetstream.StreamConfig, prefix string) bool {
	return slices.ContainsFunc(c.Sources, func(s *jetstream.StreamSource) bool {
		return s.Name == EdgeStream && s.External != nil && s.External.APIPrefix == prefix
	})
}

// MissingSources returns the edges whose stream is not a source of the hub's stream.
func MissingSources(c *jetstream.StreamConfig, edges []string) []string {
	return slices.DeleteFunc(slices.Clone(edges), func(edge string) bool {
		return hasSource(c, natsx.DomainPrefix(edge))
	})
}

// maxSourceSilence is how long an edge may be silent: its server sends heartbeats every few seconds.
const maxSourceSilence = time.Minute

// SilentEdges returns the edges from which the hub's stream has received nothing for maxSourceSilence.
func SilentEdges(info *jetstream.StreamInfo, edges []string) []string {
	return slices.DeleteFunc(slices.Clone(edges), func(edge string) bool {
		return !slices.ContainsFunc(info.Sources, func(s *jetstream.StreamSourceInfo) bool {
			return s.External != nil && s.External.APIPrefix == natsx.DomainPrefix(edge) &&
				(s.Active < 0 || s.Active > maxSourceSilence)
		})
	})
}

// Sender has what an edge sent of one pipeline.
type Sender struct {
	store
	bucket   *Bucket // of the edge
	pipeline string
}

// OpenSender opens the stream of an edge, and creates it where it is missing. The size limit of an existing one stays.
func OpenSender(ctx context.Context, b *Bucket, pipeline string, bytes int64, replicas int) (*Sender, error) {
	s, err := open(ctx, b.js, EdgeConfig(bytes), edgeRoot, replicas)
	if err != nil {
		return nil, err
	}
	return &Sender{s, b, pipeline}, nil
}

// savedNotice is the copy in the bucket of a pipeline's last notice, which notices of other pipelines may evict from
// the stream, and any client may hide by a message of its own.
type savedNotice struct {
	Stream int64  `json:"stream"` // creation time of the stream that had it
	Notice Notice `json:"notice"`
}

func (s *Sender) savedKey() string { return s.pipeline + ".sent" }

// Last returns the last notice, nil if there is none, and the sequence that Send requires: that of the last message
// where the notice should be, 0 if there is none.
func (s *Sender) Last(ctx context.Context) (n *Notice, after uint64, err error) {
	m, err := s.get(ctx, s.pipeline)
	if err != nil {
		return nil, 0, err
	}
	if m != nil {
		after = m.Sequence
		if json.Unmarshal(m.Data, &n) == nil && n != nil && n.isValid() {
			return n, after, nil
		}
	}
	saved, err := getJSON[savedNotice](ctx, &s.bucket.store, s.savedKey())
	if saved == nil {
		return nil, after, err
	}
	info, err := s.stream.Info(ctx) // the stream may have been recreated: what it lacks is sent again
	if err != nil || info.Created.UnixNano() != saved.Stream {
		return nil, after, err
	}
	return &saved.Notice, after, nil
}

// checkSize returns an error if the stream cannot hold two summaries of a size.
func (s *Sender) checkSize(ctx context.Context, size int64) error {
	info, err := s.stream.Info(ctx) // setup may have changed the limit
	if err != nil {
		return err
	}
	if most := info.Config.MaxBytes; most > 0 && size > most/2 {
		return fmt.Errorf("a summary has %d KiB, and stream %s keeps %d KiB, which is too little for its parts; set "+
			"nats.edge_bytes to %d MiB or more, here and at the hub, and run 'embedd setup --apply' at both",
			size>>10, EdgeStream, most>>10, 8*size>>20+1)
	}
	return nil
}

// Send stores a summary and its notice if the notice with a sequence is still the last, and reports whether it is.
func (s *Sender) Send(ctx context.Context, n Notice, text []byte, after uint64) (isSent bool, err error) {
	if err := s.checkSize(ctx, int64(len(text))); err != nil {
		return false, err
	}
	if n.manifest, err = s.putParts(ctx, s.pipeline, text); err != nil {
		return false, err
	}
	_, err = s.putJSON(ctx, s.pipeline, n, ifAt(after))
	if errors.Is(err, natsx.ErrConflict) {
		return false, nil
	}
	if err == nil {
		n.manifest = manifest{}
		_, err = s.bucket.putJSON(ctx, s.savedKey(), savedNotice{s.Info().Created.UnixNano(), n})
	}
	return err == nil, err
}

// SendCounted stores which schemas the messages have, as this edge counted them.
func (s *Sender) SendCounted(ctx context.Context, text []byte) error {
	_, err := s.put(ctx, s.pipeline+counted, text)
	return err
}

// Receiver has what the edges sent of one pipeline.
type Receiver struct {
	store
	pipeline string
}

// OpenReceiver opens the stream of the hub, after adding the sources of edges.
func OpenReceiver(ctx context.Context, js jetstream.JetStream, pipeline string, edges []string, bytes int64,
	replicas int) (*Receiver, error) {
	s, err := open(ctx, js, HubConfig(edges, bytes), hubRoot, replicas)
	if err != nil {
		return nil, err
	}
	return &Receiver{s, pipeline}, nil
}

// Stream is the stream of the hub.
func (r *Receiver) Stream() jetstream.Stream { return r.stream }

// Received is a notice in the hub's stream. Its First is 0 if the message is not a notice.
type Received struct {
	Notice
	Edge string
	Seq  uint64    // its sequence in the hub's stream
	Time time.Time // when the hub stored it
}

// maxBlockMessages bounds a block.
const maxBlockMessages = 1 << 32

// Messages is the number of messages that the summary is of.
func (r *Received) Messages() uint64 {
	if r.First == 0 {
		return 0
	}
	return r.Last - r.First + 1
}

// Next returns the first notice from a position on; nil if there is none yet.
func (r *Receiver) Next(ctx context.Context, from uint64) (*Received, error) {
	m, err := r.stream.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(HubSubject(r.pipeline)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	edge, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, hubRoot), ".")
	one := &Received{Edge: edge, Seq: m.Sequence, Time: m.Time}
	if json.Unmarshal(m.Data, &one.Notice) != nil || !one.isValid() || one.First > one.Last ||
		one.Last-one.First >= maxBlockMessages {
		one.Notice = Notice{}
	}
	return one, nil
}

// Counted returns what an edge sent last with SendCounted; nil if it has sent nothing.
func (r *Receiver) Counted(ctx context.Context, edge string) ([]byte, error) {
	m, err := r.get(ctx, edge+"."+r.pipeline+counted)
	if m == nil || err != nil {
		return nil, err
	}
	return m.Data, nil
}

// Read reads a received summary of at most maxBytes. The error is ErrDamaged, or one of the connection.
func (r *Receiver) Read(ctx context.Context, one *Received, maxBytes int64) ([]byte, error) {
	return r.getParts(ctx, one.Edge+"."+r.pipeline, one.manifest, maxBytes)
}
