package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/stream"
)

// runSetup shows the streams that a configuration needs, and makes the missing ones with --apply.
func runSetup(ctx context.Context, e *env, args []string) error {
	f := newFlags(e)
	out := f.output()
	path := f.String("c", "embedd.yaml", "configuration `file`")
	server := f.String("server", "", "NATS `url`; over NATS_URL and the file's nats.url")
	apply := f.Bool("apply", false, "make the streams that are missing; one that is there is never changed")
	if _, err := f.parse(args, 0, 0); err != nil {
		return err
	}
	c, err := loadConfig(*path)
	if err != nil {
		return err
	}
	pipelines, err := pipelinesOf(c)
	if err != nil {
		return usageError{err}
	}
	if *server != "" || c.NATS.Embedded() {
		c.NATS.URL, c.NATS.Context = serverURL(*server, "nats://127.0.0.1:4222"), ""
	}
	nc, err := connect(ctx, c.NATS, clientWait)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	plans, err := stream.Setup(ctx, js, pipelines, *apply)
	if err != nil {
		return err
	}
	missing := 0
	for _, p := range plans {
		if !p.Exists {
			missing++
		}
		if out.json {
			if err := out.object(map[string]any{"stream": p.Name, "subjects": p.Subjects, "exists": p.Exists}); err != nil {
				return err
			}
			continue
		}
		state := "is there"
		if !p.Exists {
			state = fmt.Sprintf("is missing: nats stream add %s --subjects %q --storage file --dupe-window %s --defaults",
				p.Name, strings.Join(p.Subjects, ","), stream.Duplicates)
		}
		out.printf("stream %s for %s %s\n", p.Name, strings.Join(p.Subjects, ", "), state)
	}
	if missing > 0 {
		return checkError{fmt.Errorf("streams missing: %d; `embedd setup --apply` makes them", missing)}
	}
	return nil
}
