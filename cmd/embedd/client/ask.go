package client

import (
	"cmp"
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

// discoveryTimeout is how long daemons have to answer a ping, busyTimeout how long where a slow one must not be missed.
const (
	discoveryTimeout = 500 * time.Millisecond
	busyTimeout      = 3 * time.Second
)

// Discover finds the pipelines that run on the server, and the processes that run each, by their NATS services. The
// identity of a process is in its reports too. Where services answer and none is a pipeline in time, those of a busy
// machine get longer.
func Discover(ctx context.Context, nc *nats.Conn) (map[string][]string, error) {
	found, err := discover(ctx, nc, discoveryTimeout)
	if err != nil || len(found) > 0 {
		return found, err
	}
	return discover(ctx, nc, busyTimeout)
}

func discover(ctx context.Context, nc *nats.Conn, wait time.Duration) (map[string][]string, error) {
	subject, err := micro.ControlSubject(micro.PingVerb, "", "")
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	err = Gather(ctx, nc, subject, nil, wait, func(msg *nats.Msg) bool {
		var p micro.Ping
		if json.Unmarshal(msg.Data, &p) == nil {
			name := p.Metadata[stream.ServicePipeline]
			if name != "" && p.Name == stream.ServiceName(name) {
				found[name] = append(found[name], p.ID)
			}
		}
		return true
	})
	return found, err
}

// Gather sends a request to all subscribers and passes their answers to take, until take returns false or the time is
// over.
func Gather(ctx context.Context, nc *nats.Conn, subject string, data []byte, wait time.Duration,
	take func(*nats.Msg) bool) error {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(subject, inbox, data); err != nil {
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

// Reports are the status of a pipeline in each process that runs it and answers.
func Reports(ctx context.Context, nc *nats.Conn, pipeline string) (reports []stream.Report, err error) {
	found, err := Discover(ctx, nc)
	n := len(found[pipeline])
	if err != nil || n == 0 {
		return nil, err
	}
	err = Gather(ctx, nc, stream.ServiceSubject(pipeline, "status"), nil, Timeout, func(msg *nats.Msg) bool {
		if r, err := ReadReport(msg); err == nil {
			reports = append(reports, r)
		}
		n--
		return n > 0
	})
	return reports, err
}

// Running returns the pipelines to ask, which are the named ones or else all that run, and the processes of each.
func Running(ctx context.Context, nc *connection.Conn, names []string) ([]string, map[string][]string, error) {
	found, err := Discover(ctx, nc.Conn)
	if err != nil {
		return nil, nil, err
	}
	all := slices.Sorted(maps.Keys(found))
	for _, name := range names {
		if len(found[name]) == 0 {
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

// Ask sends a request to the process of a pipeline that answers it, and returns its report.
func Ask(nc *nats.Conn, pipeline, endpoint string, q stream.Request) (r stream.Report, err error) {
	data, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	msg, err := nc.Request(stream.ServiceSubject(pipeline, endpoint), data, Timeout)
	if errors.Is(err, nats.ErrTimeout) {
		return r, fmt.Errorf("pipeline %s does not answer within %v", pipeline, Timeout)
	}
	if err != nil {
		return r, fmt.Errorf("asking pipeline %s: %w", pipeline, err)
	}
	if r, err = ReadReport(msg); err != nil {
		return r, fmt.Errorf("pipeline %s: %w", pipeline, err)
	}
	return r, nil
}

// AskAll sends a request to all processes of a pipeline. It returns the reports of those that did it, the identities of
// the others, and the first error that one of those answered. It takes some seconds, so that it knows of busy ones.
func AskAll(ctx context.Context, nc *nats.Conn, pipeline, endpoint string, q stream.Request) (reports []stream.Report,
	silent []string, err error) {
	data, err := json.Marshal(q)
	if err != nil {
		return nil, nil, err
	}
	found, err := discover(ctx, nc, busyTimeout)
	if err != nil {
		return nil, nil, err
	}
	silent = found[pipeline]
	var failed error
	failures := 0
	err = Gather(ctx, nc, stream.ServiceSubject(pipeline, endpoint), data, Timeout, func(msg *nats.Msg) bool {
		r, err := ReadReport(msg)
		switch {
		case err != nil: // one that is stopping does not hide what the others did
			failures++
			failed = cmp.Or(failed, fmt.Errorf("pipeline %s: %w", pipeline, err))
		case r.Instance == "" || !slices.ContainsFunc(reports, func(one stream.Report) bool {
			return one.Instance == r.Instance
		}):
			reports = append(reports, r)
			silent = slices.DeleteFunc(silent, func(id string) bool { return id == r.Instance })
		}
		return len(silent) > failures
	})
	return reports, silent, cmp.Or(failed, err)
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
