package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

// showPermissions prints the permissions of the named roles, or of all, for the streams of the server or, where none
// answers, for those that setup would create.
func showPermissions(ctx context.Context, e *cli.Env, out *report.Output, n config.NATS, pipelines []stream.Pipeline,
	names []string, nsc bool) error {
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
	all := admin.PermissionsOf(pipelines, plans, admin.Account{APIPrefix: api, InboxPrefix: inbox})
	for _, name := range names {
		var roles []string
		for _, r := range all {
			roles = append(roles, string(r.Role))
		}
		all = slices.DeleteFunc(all, func(r admin.Permissions) bool {
			return string(r.Role) != name && !slices.Contains(r.Aliases, name)
		})
		if len(all) == 0 {
			return cli.Usagef("setup: there is no role %q%s; the roles are %s", name, cli.DidYouMean(name, roles),
				cli.Listed(roles))
		}
	}
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
	out.Printf("# The configuration of a server. Its environment has the passwords.\nauthorization {\n  users = [\n")
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
