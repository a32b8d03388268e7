package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/stream"
)

// setupCommand shows the streams that a configuration needs, and makes the missing ones with --apply.
func setupCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{Use: "setup", Short: "show the streams that a configuration needs, or make them"}
	f := flagsOf(cmd)
	path := f.StringP("config", "c", "embedd.yaml", "configuration `FILE`")
	where := f.address("NATS `URL`; over NATS_URL and the file's nats.url")
	apply := f.Bool("apply", false, "make the streams that are missing; one that is there is never changed")
	out := f.output(e)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		c, err := loadConfig(*path)
		if err != nil {
			return err
		}
		pipelines, err := pipelinesOf(c)
		if err != nil {
			return usageError{err}
		}
		nc, err := dial(ctx, e, usual(where.over(c.NATS)))
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := nc.JetStream()
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
				if err := out.object(map[string]any{"stream": p.Name, "subjects": p.Subjects,
					"exists": p.Exists}); err != nil {
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
	return cmd
}
