package main

import (
	"fmt"
	"strings"

	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream/admin"
)

// printPermissions prints the least permissions of each verb, as a server's configuration and for nsc.
func printPermissions(out *report.Output, all []admin.Permissions) error {
	if out.JSON {
		for _, r := range all {
			if err := out.Object(r); err != nil {
				return err
			}
		}
		return nil
	}
	out.Printf("# The configuration of a server. Its environment has the passwords.\nauthorization {\n  users = [\n")
	for _, r := range all {
		out.Printf("    # embedd %s\n    {\n      user: %q\n      password: $EMBEDD_%s_PASSWORD\n      permissions: {\n",
			r.Verb, userOf(r), strings.ToUpper(r.Verb))
		out.Printf("        publish: {%s}\n        subscribe: {%s}\n", allowed(r.Publish), allowed(r.Subscribe))
		if r.Replies > 0 {
			out.Printf("        allow_responses: {max: %d, expires: %q}\n", r.Replies, r.ReplyWait)
		}
		out.Printf("      }\n    }\n")
	}
	out.Printf("  ]\n}\n\n# The same as users of an account with JWTs. A JWT over 4 KB needs a larger max_control_line " +
		"in the server,\n" +
		"# or these permissions in a scoped signing key (nsc edit signing-key takes the same flags).\n")
	for _, r := range all {
		out.Printf("nsc add user --name %s%s%s", userOf(r), flagged("--allow-pub", r.Publish),
			flagged("--allow-sub", r.Subscribe))
		if r.Replies > 0 {
			out.Printf(" \\\n  --allow-pub-response=%d --response-ttl %s", r.Replies, r.ReplyWait)
		}
		out.Printf("\n")
	}
	return nil
}

func userOf(r admin.Permissions) string { return "embedd_" + r.Verb }

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
