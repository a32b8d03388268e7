package natstest

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// Simultaneous returns JetStream for n processes, none of which updates a stream before all have read it.
func Simultaneous(js jetstream.JetStream, n int) []jetstream.JetStream {
	var haveRead sync.WaitGroup
	haveRead.Add(n)
	all := make([]jetstream.JetStream, n)
	for i := range all {
		all[i] = &simultaneous{JetStream: js, wait: sync.OnceFunc(func() {
			haveRead.Done()
			haveRead.Wait()
		})}
	}
	return all
}

type simultaneous struct {
	jetstream.JetStream
	wait func()
}

func (s *simultaneous) UpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	s.wait()
	return s.JetStream.UpdateStream(ctx, c)
}
