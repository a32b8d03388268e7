package natsx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/wildcard"
)

// CreateStream creates a stream with a number of replicas (see WithReplicas). One that exists is no error: another
// replica was faster.
func CreateStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig, replicas int) error {
	err := WithReplicas(js, replicas, func(n int) error {
		c.Replicas = n
		_, err := js.CreateStream(ctx, c)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	return err
}

// JetStream has no compare-and-set for the configuration of a stream, so another process may overwrite an update. The
// stream is read again about updateDelay after each update, which is repeated up to maxUpdates times.
const (
	updateDelay = 200 * time.Millisecond
	maxUpdates  = 8
)

// UpdateStream changes the configuration of a stream, and repeats that until the server has the change. change must
// leave a configuration that has it as it is.
func UpdateStream(ctx context.Context, js jetstream.JetStream, s jetstream.Stream,
	change func(*jetstream.StreamConfig)) error {
	for updates := 0; ; updates++ {
		c := s.CachedInfo().Config
		if change(&c); reflect.DeepEqual(c, s.CachedInfo().Config) {
			return nil
		}
		if updates == maxUpdates {
			return fmt.Errorf("after %d updates it is still not as requested: other processes change it; try again later",
				updates)
		}
		if _, err := js.UpdateStream(ctx, c); err != nil {
			return err
		}
		Sleep(ctx, updateDelay/2+rand.N(updateDelay))
		var err error
		if s, err = AwaitStream(ctx, js, c.Name); err != nil {
			return err
		}
	}
}

// FindStream returns a stream, nil if it does not exist. A cluster does not answer a request about a stream that it is
// deleting: the request is repeated until the deadline of ctx, or for as long as Hedge does.
func FindStream(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	for {
		s, err := Stream(ctx, js, name)
		switch _, hasDeadline := ctx.Deadline(); {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, nil
		case !hasDeadline || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return s, err
		}
	}
}

// Stream requests a stream, as Hedge does.
func Stream(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	return Hedge(ctx, func(ctx context.Context) (jetstream.Stream, error) { return js.Stream(ctx, name) })
}

// Consumer requests a consumer, as Hedge does.
func Consumer(ctx context.Context, js jetstream.JetStream, stream, name string) (jetstream.Consumer, error) {
	return Hedge(ctx, func(ctx context.Context) (jetstream.Consumer, error) { return js.Consumer(ctx, stream, name) })
}

// Unacknowledged is how many messages of a consumer are not acknowledged, delivered or not.
func Unacknowledged(c *jetstream.ConsumerInfo) uint64 { return c.NumPending + uint64(c.NumAckPending) }

// StoredFilter is the filter with which a consumer reads what a stream takes on a subject: "", for all messages, where
// its subject transform stores some of them under other subjects.
func StoredFilter(c *jetstream.StreamConfig, subject string) string {
	if t := c.SubjectTransform; t != nil && wildcard.Overlap(cmp.Or(t.Source, ">"), subject) {
		return ""
	}
	return subject
}

// CountMessages counts the messages of a stream that match a subject.
func CountMessages(ctx context.Context, js jetstream.JetStream, stream, subject string) (n uint64, err error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	for _, messages := range info.State.Subjects {
		n += messages
	}
	return n, nil
}

// StreamsOf lists the streams that take a subject or a part of it.
func StreamsOf(ctx context.Context, js jetstream.JetStream, subject string) (out []jetstream.Stream, err error) {
	names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
	for name := range names.Name() {
		s, err := FindStream(ctx, js, name)
		if err != nil {
			return nil, ExplainAPIError(err)
		}
		if s != nil {
			out = append(out, s)
		}
	}
	return out, ExplainAPIError(names.Err())
}

// LastMessage returns the last message of a subject, nil if there is none.
func LastMessage(ctx context.Context, s jetstream.Stream, subject string) (*jetstream.RawStreamMsg, error) {
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, err
}

// StreamName returns the name of the stream that takes a subject. Of a subject with wildcards it is the stream that
// takes all of it, else the error is [jetstream.ErrStreamNotFound].
func StreamName(ctx context.Context, js jetstream.JetStream, subject string) (string, error) {
	if !strings.ContainsAny(subject, "*>") {
		return js.StreamNameBySubject(ctx, subject)
	}
	names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
	var overlap []string
	for name := range names.Name() {
		overlap = append(overlap, name)
	}
	if err := names.Err(); err != nil {
		return "", err
	}
	for _, name := range overlap {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return "", err
		}
		if wildcard.CoveredBy(subject, s.CachedInfo().Config.Subjects) {
			return name, nil
		}
	}
	return "", jetstream.ErrStreamNotFound
}

// StreamOf returns the stream that StreamName names.
func StreamOf(ctx context.Context, js jetstream.JetStream, subject string) (jetstream.Stream, error) {
	name, err := StreamName(ctx, js, subject)
	if err != nil {
		return nil, err
	}
	return js.Stream(ctx, name)
}
