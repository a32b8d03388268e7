package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/stream"
)

// askWait is how long running daemons have to answer, discoverWait how long they have to be found.
const (
	askWait      = 5 * time.Second
	discoverWait = 500 * time.Millisecond
)

// discover finds the pipelines that run somewhere on the server, by their services, and how many processes run each.
func discover(ctx context.Context, nc *nats.Conn) (map[string]int, error) {
	subject, err := micro.ControlSubject(micro.PingVerb, "", "")
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	// After the first answer the others have a short while.
	err = gather(ctx, nc, subject, discoverWait, func(msg *nats.Msg) bool {
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

// gather sends a request to all that listen and hands their answers to take, until it says that it has enough or the
// time is over.
func gather(ctx context.Context, nc *nats.Conn, subject string, wait time.Duration, take func(*nats.Msg) bool) error {
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
			return nil // nobody listens, or it was enough
		}
	}
}

// running names the pipelines to ask: those that are named, else all that run.
func running(ctx context.Context, nc *connection.Conn, names []string) ([]string, map[string]int, error) {
	found, err := discover(ctx, nc.Conn)
	if err != nil {
		return nil, nil, err
	}
	var all []string
	for name := range found {
		all = append(all, name)
	}
	slices.Sort(all)
	for _, name := range names {
		if found[name] == 0 {
			there := "no embedd answers there"
			if len(all) > 0 {
				there = "there run " + strings.Join(all, ", ")
			}
			return nil, nil, fmt.Errorf("no running embedd serves pipeline %q on %s; %s%s: start one with `embedd run`",
				name, nc.Address(), there, didYouMean(name, all))
		}
	}
	if len(names) > 0 {
		return names, found, nil
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("no running embedd answers on %s: start one with `embedd run`, or name its server with --server",
			nc.Address())
	}
	return all, found, nil
}

// askCommand is a verb that asks one pipeline for what an endpoint of the same name does, and says what came of it.
func askCommand(e *env, endpoint, short string, say func(*output, stream.Report)) *cobra.Command {
	cmd := &cobra.Command{Use: endpoint + " [PIPELINE]", Short: short, Args: arguments(0, 1)}
	f := flagsOf(cmd)
	server := f.server(" of the daemon")
	out := f.output(e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		r, err := askOne(cmd.Context(), e, server, endpoint, names)
		if err != nil {
			return err
		}
		if out.json {
			return out.object(r)
		}
		say(out, r)
		return nil
	}
	return cmd
}

// askOne asks the one pipeline that is named, or that runs, to do something, and returns how it stands then.
func askOne(ctx context.Context, e *env, server *serverFlags, endpoint string, names []string) (r stream.Report, err error) {
	nc, err := server.dial(ctx, e)
	if err != nil {
		return r, err
	}
	defer nc.Close()
	names, _, err = running(ctx, nc, names)
	if err != nil {
		return r, err
	}
	if len(names) > 1 {
		return r, usagef("%s: name one of the pipelines %s", endpoint, listed(names))
	}
	msg, err := nc.Request(stream.ServiceSubject(names[0], endpoint), nil, askWait)
	if errors.Is(err, nats.ErrTimeout) {
		return r, fmt.Errorf("pipeline %s does not answer within %v", names[0], askWait)
	}
	if err != nil {
		return r, fmt.Errorf("asking pipeline %s: %w", names[0], err)
	}
	if r, err = reportOf(msg); err != nil {
		return r, fmt.Errorf("pipeline %s: %w", names[0], err)
	}
	return r, nil
}

// reportOf reads an answer of a pipeline, or its error.
func reportOf(msg *nats.Msg) (r stream.Report, err error) {
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return r, fmt.Errorf("%s (%s)", msg.Header.Get(micro.ErrorHeader), code)
	}
	if err := json.Unmarshal(msg.Data, &r); err != nil {
		return r, fmt.Errorf("an answer that is not understood, perhaps of another version of embedd: %w", err)
	}
	return r, nil
}
