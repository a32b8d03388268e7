package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// objectStream is the stream behind the object store. Its metadata is on subjects that begin with metadataPrefix, and
// its bytes on those with chunkPrefix; what follows is the name of an object, encoded, or of one writing.
const (
	objectStream   = "OBJ_" + Bucket
	metadataPrefix = "$O." + Bucket + ".M."
	chunkPrefix    = "$O." + Bucket + ".C."
)

// objects reads and removes objects. Unlike the client, it takes for the metadata of an object only a message that was
// written as such: any client can have an answer of the server stored behind it.
type objects struct {
	js     jetstream.JetStream
	stream jetstream.Stream
}

// metadataSubject is the subject of an object's metadata.
func metadataSubject(name string) string {
	return metadataPrefix + base64.URLEncoding.EncodeToString([]byte(name))
}

// info returns the metadata of an object; the error is errAbsent if there is none.
func (o *objects) info(ctx context.Context, name string) (*jetstream.ObjectInfo, error) {
	for seq := uint64(1); ; {
		msg, err := natsx.NextMessage(ctx, o.js, objectStream, metadataSubject(name), seq)
		if err != nil {
			return nil, err
		}
		if msg == nil {
			return nil, errAbsent
		}
		if natsx.IsCopy(msg.Header) || msg.Header.Get(jetstream.MsgRollup) == "" {
			seq = msg.Sequence + 1
			continue
		}
		var info jetstream.ObjectInfo
		if err := json.Unmarshal(msg.Data, &info); err != nil || info.Name != name {
			return nil, &damaged{fmt.Errorf("the metadata of %s: %w", name, jetstream.ErrBadObjectMeta)}
		}
		info.ModTime = msg.Time
		if info.Deleted {
			return &info, errAbsent
		}
		return &info, nil
	}
}

// list returns the metadata of the objects whose names pass a filter. deleted are names of objects that are gone.
func (o *objects) list(ctx context.Context, matches func(name string) bool) (all []*jetstream.ObjectInfo,
	deleted []string, err error) {
	subjects, err := o.subjects(ctx, metadataPrefix)
	if err != nil {
		return nil, nil, err
	}
	for _, subject := range subjects {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, metadataPrefix))
		if err != nil || !matches(string(name)) {
			continue
		}
		info, err := o.info(ctx, string(name))
		switch {
		case err == nil:
			all = append(all, info)
		case info != nil:
			deleted = append(deleted, string(name))
		case !errors.Is(err, errAbsent) && !errors.Is(err, ErrDamaged):
			return nil, nil, err
		}
	}
	return all, deleted, nil
}

// subjects are the subjects of the stream that begin with a prefix.
func (o *objects) subjects(ctx context.Context, prefix string) (all []string, err error) {
	info, err := o.stream.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(info.State.Subjects)), nil
}

// remove removes an object, its metadata last: an object that is removed in part is listed and removed again.
func (o *objects) remove(ctx context.Context, name string) error {
	info, err := o.info(ctx, name)
	if info != nil {
		err = o.purge(ctx, chunkPrefix+info.NUID)
	}
	if err != nil && !errors.Is(err, errAbsent) && !errors.Is(err, ErrDamaged) {
		return err
	}
	return o.purge(ctx, metadataSubject(name))
}

func (o *objects) purge(ctx context.Context, subject string) error {
	return o.stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
}

// tidy purges chunks without an object, since their writer ended early, and the metadata of deleted objects.
func (o *objects) tidy(ctx context.Context, older time.Duration) error {
	written, err := o.subjects(ctx, chunkPrefix)
	if err != nil {
		return err
	}
	all, deleted, err := o.list(ctx, func(string) bool { return true })
	if err != nil {
		return err
	}
	for _, name := range deleted {
		if _, ours := PipelineOf(name); ours {
			if err := o.purge(ctx, metadataSubject(name)); err != nil {
				return err
			}
		}
	}
	for _, subject := range written {
		if slices.ContainsFunc(all, func(i *jetstream.ObjectInfo) bool { return chunkPrefix+i.NUID == subject }) {
			continue
		}
		last, err := natsx.NewestMessage(ctx, o.js, objectStream, subject)
		if err == nil && last != nil && time.Since(last.Time) > older {
			err = o.purge(ctx, subject)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// chunks reads an object one chunk after another. The client's own reader waits for a chunk that is not there.
type chunks struct {
	ctx       context.Context
	js        jetstream.JetStream
	subject   string
	all, read uint32
	last      uint64 // sequence number of the last chunk
	rest      []byte
}

func (c *chunks) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.read == c.all {
			return 0, io.EOF
		}
		msg, err := natsx.NextMessage(c.ctx, c.js, objectStream, c.subject, c.last+1)
		if err != nil {
			return 0, &unreachable{err}
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

func (c *chunks) Close() error { return nil }
