package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/engine"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

// setupCommand shows the streams that a configuration needs, and creates the missing ones with --apply.
func setupCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("setup [--permissions [ROLE]]", "show the streams that a configuration needs, or create them", 0, 1)
	flags := deploymentFlagsOf(f)
	apply := f.Bool("apply", false, "create missing streams and buckets; a stream that setup did not create is never "+
		"changed")
	count := f.Choice("replicas", "`NUMBER` of replicas of what is created; with --apply also of what setup created "+
		"before with fewer; configured is nats.replicas", "configured", "auto", "1", "3", "5")
	permissions := f.Bool("permissions", false, "print the least permissions of each role or, with an argument, of "+
		"one ROLE or of that of a verb, and do nothing else")
	nsc := f.Bool("nsc", false, "with --permissions: print the commands of nsc for an account with JWTs, instead of the "+
		"configuration of a server")
	out := report.Flag(f, e)
	f.Exclusive("apply", "permissions")
	f.Exclusive("nsc", "format")
	cmd.RunE = func(cmd *cobra.Command, roles []string) error {
		ctx := cmd.Context()
		if len(roles) > 0 && !*permissions {
			return cli.Usagef("setup: the argument %q needs --permissions: usage: %s", roles[0], cmd.UseLine())
		}
		if *nsc && !*permissions {
			return cli.Usagef("setup: --nsc: want it together with --permissions")
		}
		c, pipelines, n, err := flags.read()
		if err != nil {
			return err
		}
		if *count != "configured" {
			c.NATS.Replicas = *count
		}
		isEmbedded := n.Embedded() && os.Getenv("NATS_URL") == ""
		n = client.WithDefaultURL(n)
		if *permissions {
			return showPermissions(ctx, e, out, n, pipelines, roles, *nsc)
		}
		js, err := client.JetStream(client.Dial(ctx, e, n))
		if err != nil && isEmbedded && ctx.Err() == nil {
			e.Infof("nothing to do: %s names no server, so `embedd run` embeds one and creates its streams; --server names "+
				"one that exists", *flags.path)
			return nil
		}
		if err != nil {
			return err
		}
		plans, err := engine.Streams(c.NATS).Setup(ctx, js, pipelines, *apply)
		if err != nil { // what was done before it failed
			plans = slices.DeleteFunc(plans, func(p admin.Plan) bool { return !p.Created && !p.Changed })
		}
		return cmp.Or(err, printPlans(out, c.NATS, plans))
	}
	return cmd
}

func printPlans(out *report.Output, n config.NATS, plans []admin.Plan) error {
	missing, wrong := 0, 0
	for _, p := range plans {
		switch {
		case p.Problem != "":
			wrong++
		case !p.Exists:
			missing++
		}
		if out.JSON {
			line := map[string]any{"stream": p.Name, "subjects": p.Subjects, "exists": p.Exists}
			if p.Bucket {
				line = map[string]any{"bucket": p.Name, "exists": p.Exists}
			}
			if p.Limit {
				line = map[string]any{}
			}
			if p.Problem != "" {
				line["problem"] = p.Problem
			}
			if p.Created || p.Changed {
				line["created"], line["changed"] = p.Created, p.Changed
			}
			if p.Replicas > 0 {
				line["replicas"] = p.Replicas
			}
			if warning := warningOf(n, p); warning != "" {
				line["warning"] = warning
			}
			if err := out.Object(line); err != nil {
				return err
			}
			continue
		}
		text, command, _ := strings.Cut(planText(n, p), ": nats ")
		out.Paragraph("", text, 4)
		if command != "" { // in one line, to be copied
			out.Printf("    nats %s\n", command)
		}
		if warning := warningOf(n, p); warning != "" {
			out.Paragraph("", "warning: "+warning, 4)
		}
	}
	switch {
	case wrong > 0:
		return cli.Checkf("problems: %d; nothing was created", wrong)
	case missing > 0:
		return cli.Checkf("streams missing: %d; `embedd setup --apply` creates them", missing)
	}
	return nil
}

// warningOf returns the warnings of a plan, or "".
func warningOf(n config.NATS, p admin.Plan) string {
	text := p.Warning
	if p.RaisesReplicas {
		text = fmt.Sprintf("%s has %d of the %d requested replicas; `embedd setup --apply --replicas %d` raises it",
			p.Name, p.Replicas, engine.Replicas(n), engine.Replicas(n))
	}
	for _, more := range []string{p.ConsumerWarning, p.SubjectWarning} {
		if more != "" {
			text = strings.TrimPrefix(text+"; "+more, "; ")
		}
	}
	return text
}

func planText(n config.NATS, p admin.Plan) string {
	subjects, exists := strings.Join(p.Subjects, ", "), "exists"
	switch {
	case p.Created:
		exists = "created"
	case p.Changed:
		exists = "changed"
	}
	switch {
	case p.Problem != "":
		return p.Problem
	case p.Bucket && p.Exists:
		return fmt.Sprintf("%s %s %s", p.Purpose, p.Name, exists)
	case p.Bucket && p.Outdated && subjects == "":
		return fmt.Sprintf("%s %s does not have the size limit nats.edge_bytes: `embedd setup --apply` changes "+
			"it", p.Purpose, p.Name)
	case p.Bucket && p.Outdated:
		return fmt.Sprintf("%s %s does not take the summaries of %s: `embedd setup --apply` and `embedd run` add them",
			p.Purpose, p.Name, subjects)
	case p.Bucket:
		return fmt.Sprintf("%s %s is missing: `embedd setup --apply` and `embedd run` create it", p.Purpose, p.Name)
	case p.Exists:
		return fmt.Sprintf("stream %s for %s %s", p.Name, subjects, exists)
	case p.Outdated && p.Transform != nil:
		return fmt.Sprintf("stream %s does not map keys to partitions yet: nats stream edit %s --subjects %q "+
			"--transform-source='%s' --transform-destination='%s'",
			p.Name, p.Name, strings.Join(p.Subjects, ","), p.Transform.Source, p.Transform.Destination)
	case p.Outdated:
		return fmt.Sprintf("stream %s does not take all of %s: nats stream edit %s --subjects %q", p.Name, subjects,
			p.Name, strings.Join(p.Subjects, ","))
	}
	limits := ""
	if s := n.Streams; s.MaxBytes > 0 {
		limits += fmt.Sprintf(" --max-bytes %d", s.MaxBytes)
	}
	if s := n.Streams; s.MaxAge > 0 {
		limits += fmt.Sprintf(" --max-age %s", s.MaxAge)
	}
	if count := engine.Replicas(n); count > 0 {
		limits += fmt.Sprintf(" --replicas %d", count)
	}
	if t := p.Transform; t != nil {
		limits += fmt.Sprintf(" --transform-source='%s' --transform-destination='%s'", t.Source, t.Destination)
	}
	return fmt.Sprintf("stream %s for %s is missing: nats stream add %s --subjects %q --storage file --dupe-window %s%s "+
		"--defaults", p.Name, subjects, p.Name, strings.Join(p.Subjects, ","), n.Streams.Duplicates, limits)
}

// showPermissions prints the permissions of the named roles, or of all, for the streams of the server or, where none
// answers, for those that setup would create.
func showPermissions(ctx context.Context, e *cli.Env, out *report.Output, n config.NATS, pipelines []stream.Pipeline,
	names []string, nsc bool) error {
	isOther := func(r admin.Permissions) bool {
		return len(names) > 0 && string(r.Role) != names[0] && !slices.Contains(r.Aliases, names[0])
	}
	known := admin.PermissionsOf(pipelines, nil, admin.Account{})
	if !slices.ContainsFunc(known, func(r admin.Permissions) bool { return !isOther(r) }) { // before waiting for a server
		var roles []string
		for _, r := range known {
			roles = append(roles, string(r.Role))
		}
		return cli.Usagef("setup: there is no role %q%s; the roles are %s", names[0], cli.DidYouMean(names[0], roles),
			cli.Listed(roles))
	}
	plans, err := existingPlans(ctx, e, n, pipelines)
	if err != nil {
		e.Infof("streams have the names that setup would give them, since no server answers: %v", err)
		if plans, err = admin.Setup(ctx, nil, pipelines, false); err != nil {
			return err
		}
	}
	api, inbox, err := connection.Prefixes(n)
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(admin.PermissionsOf(pipelines, plans, admin.Account{APIPrefix: api, InboxPrefix: inbox}),
		isOther)
	if nsc {
		return printUsers(out, all)
	}
	return printPermissions(out, all)
}

func existingPlans(ctx context.Context, e *cli.Env, n config.NATS, pipelines []stream.Pipeline) ([]admin.Plan, error) {
	nc, err := connection.Dial(ctx, n, connection.Options{Inbox: client.Inbox(e.Verb)})
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		return nil, err
	}
	plans, err := admin.Setup(ctx, js, pipelines, false)
	return plans, nc.Explain(err)
}

// printPermissions prints the least permissions of roles as the configuration of a server.
func printPermissions(out *report.Output, all []admin.Permissions) error {
	if out.JSON {
		return report.Objects(out, all)
	}
	out.Printf("# The configuration of a server. Its environment has the passwords, each in quotes.\nauthorization {\n" +
		"  users = [\n")
	for _, r := range all {
		out.Printf("    # embedd %s\n    {\n      user: %q\n      password: $EMBEDD_%s_PASSWORD\n      permissions: {\n",
			strings.Join(r.Verbs, ", "), userOf(r), strings.ToUpper(string(r.Role)))
		out.Printf("        publish: {%s}\n        subscribe: {%s}\n", allowed(r.Publish), allowed(r.Subscribe))
		out.Printf("      }\n    }\n")
	}
	out.Printf("  ]\n}\n")
	return nil
}

// printUsers prints the commands of nsc that make the users of roles.
func printUsers(out *report.Output, all []admin.Permissions) error {
	out.Printf("# Users of an account with JWTs; --format json prints the claims. A JWT over 4 KB needs a larger\n" +
		"# max_control_line in the server, or these permissions in a scoped signing key (nsc edit signing-key takes the\n" +
		"# same flags).\n")
	for _, r := range all {
		out.Printf("nsc add user --name %s%s%s", userOf(r), flagged("--allow-pub", r.Publish),
			flagged("--allow-sub", r.Subscribe))
		out.Printf("\n")
	}
	return nil
}

func userOf(r admin.Permissions) string { return "embedd_" + string(r.Role) }

func allowed(subjects []string) string {
	if len(subjects) == 0 {
		return `deny: ">"`
	}
	var b strings.Builder
	b.WriteString("allow: [\n")
	for _, s := range subjects {
		fmt.Fprintf(&b, "          %q\n", s)
	}
	return b.String() + "        ]"
}

func flagged(flag string, subjects []string) string {
	if len(subjects) == 0 {
		return ""
	}
	return fmt.Sprintf(" \\\n  %s '%s'", flag, strings.Join(subjects, ","))
}
