package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/stream"
)

// Timeout is how long a verb waits for the answer of a daemon.
const Timeout = 5 * time.Second

// discoveryTimeout is how long daemons have to answer a ping.
const discoveryTimeout = 500 * time.Millisecond

// Discover finds the pipelines that run on the server, and how many processes run each, by their NATS services.
func Discover(ctx context.Context, nc *nats.Conn) (map[string]int, error) {
	subject, err := micro.ControlSubject(micro.PingVerb, "", "")
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	err = Gather(ctx, nc, subject, discoveryTimeout, func(msg *nats.Msg) bool {
		var p micro.Ping
		if json.Unmarshal(msg.Data, &p) == nil {
			name := p.Metadata[stream.ServicePipeline]
			if name != "" && p.Name == stream.ServiceName(name) {
				found[name]++
			}
		}
		return true
	})
	return found, err
}

// Gather sends a request to all subscribers and passes their answers to take, until take returns false or the time is
// over.
func Gather(ctx context.Context, nc *nats.Conn, subject string, wait time.Duration, take func(*nats.Msg) bool) error {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(subject, inbox, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) {
			return nil
		}
		if err != nil {
			return err
		}
		if msg.Header.Get("Status") == "503" || !take(msg) {
			return nil // no responders, or enough answers
		}
	}
}

// Running returns the pipelines to ask, which are the named ones or else all that run, and the number of processes of
// each.
func Running(ctx context.Context, nc *connection.Conn, names []string) ([]string, map[string]int, error) {
	found, err := Discover(ctx, nc.Conn)
	if err != nil {
		return nil, nil, err
	}
	all := slices.Sorted(maps.Keys(found))
	for _, name := range names {
		if found[name] == 0 {
			there := "no daemon answers there"
			if len(all) > 0 {
				there = "running there: " + strings.Join(all, ", ")
			}
			return nil, nil, fmt.Errorf("no daemon serves pipeline %q on %s; %s%s: start one with `embedd run`",
				name, nc.Address(), there, cli.DidYouMean(name, all))
		}
	}
	if len(names) > 0 {
		return names, found, nil
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("no daemon answers on %s: start one with `embedd run`, or name its server with --server",
			nc.Address())
	}
	return all, found, nil
}

// Ask sends a request to one pipeline, the named one or the only one that runs, and returns its report.
func Ask(ctx context.Context, e *cli.Env, server *Server, endpoint string, names []string) (r stream.Report,
	err error) {
	nc, err := server.Dial(ctx, e)
	if err != nil {
		return r, err
	}
	defer nc.Close()
	names, _, err = Running(ctx, nc, names)
	if err != nil {
		return r, err
	}
	if len(names) > 1 {
		return r, cli.Usagef("%s: name one of the pipelines %s", endpoint, cli.Listed(names))
	}
	msg, err := nc.Request(stream.ServiceSubject(names[0], endpoint), nil, Timeout)
	if errors.Is(err, nats.ErrTimeout) {
		return r, fmt.Errorf("pipeline %s does not answer within %v", names[0], Timeout)
	}
	if err != nil {
		return r, fmt.Errorf("asking pipeline %s: %w", names[0], err)
	}
	if r, err = ReadReport(msg); err != nil {
		return r, fmt.Errorf("pipeline %s: %w", names[0], err)
	}
	return r, nil
}

// ReadReport decodes the answer of a pipeline. Its error may be the one that the pipeline returned.
func ReadReport(msg *nats.Msg) (r stream.Report, err error) {
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return r, fmt.Errorf("%s (%s)", msg.Header.Get(micro.ErrorHeader), code)
	}
	if err := json.Unmarshal(msg.Data, &r); err != nil {
		return r, fmt.Errorf("the answer cannot be read, perhaps from another version of embedd: %w", err)
	}
	return r, nil
}
