package admin

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// Role is a kind of user of a server: a daemon, a producer, a reader, an operator, a viewer, or setup.
type Role = needs.Role

// RoleOf is the role that a verb of the command line needs, such as "model pin"; "" if it is in no role.
func RoleOf(verb string) Role { return needs.RoleOf(verb) }

// InboxPrefix is the prefix of reply subjects of a role, for [nats.CustomInboxPrefix]. The permissions of each role
// include no other, so that its replies are read by no other role. common is the prefix of all of them; "" = _INBOX.
func InboxPrefix(common string, r Role) string { return needs.InboxPrefix(commonInbox(common), r) }

func commonInbox(prefix string) string {
	return cmp.Or(prefix, strings.TrimSuffix(nats.InboxPrefix, "."))
}

// Permissions are the least permissions of the server user of a role: subjects that it may publish and subscribe to.
// The daemon may publish on inboxes, not on any reply subject: a request could name one on which only it may publish.
type Permissions struct {
	Role      Role     `json:"role"`
	Verbs     []string `json:"verbs"`   // for which they suffice
	Aliases   []string `json:"aliases"` // other names of the role: verbs
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	Claims    Claims   `json:"jwt"`
}

// Claims are permissions as in the "nats" section of the JWT of a user, or the template of a scoped signing key.
type Claims struct {
	Publish   SubjectClaims `json:"pub"`
	Subscribe SubjectClaims `json:"sub"`
}

// SubjectClaims are the subjects of [Claims].
type SubjectClaims struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Account has the prefixes of an account: of requests to JetStream, and the one that the reply subjects of all roles
// begin with. Empty fields mean the defaults.
type Account struct{ APIPrefix, InboxPrefix string }

// PermissionsOf lists the least permissions of each role, for pipelines whose streams are named in the plans of Setup.
// A daemon with those of its role cannot create streams and buckets. Its connection needs the prefix of [InboxPrefix].
func PermissionsOf(pipelines []spec.Pipeline, plans []Plan, a Account) (out []Permissions) {
	all := needs.For(needs.Config{Pipelines: pipelines, APIPrefix: a.APIPrefix, StreamOf: streamIn(plans)})
	for _, r := range needs.Roles {
		p := Permissions{Role: r.Role, Verbs: r.Verbs, Aliases: r.Aliases}
		p.Publish, p.Subscribe = needs.PermissionsOf(all, r, commonInbox(a.InboxPrefix))
		p.Claims = Claims{Publish: SubjectClaims{Allow: p.Publish}, Subscribe: SubjectClaims{Allow: p.Subscribe}}
		if len(p.Publish) == 0 {
			p.Claims.Publish.Deny = []string{">"}
		}
		out = append(out, p)
	}
	return out
}

// permissionsOf are the permissions of one role.
func permissionsOf(role Role, pipelines []spec.Pipeline, plans []Plan, a Account) Permissions {
	all := PermissionsOf(pipelines, plans, a)
	return all[slices.IndexFunc(all, func(p Permissions) bool { return p.Role == role })]
}

// streamIn finds the stream of a subject in plans.
func streamIn(plans []Plan) func(subject string) string {
	return func(subject string) string {
		for _, p := range plans {
			if !p.Bucket && wildcard.CoveredBy(subject, p.Subjects) {
				return p.Name
			}
		}
		return needs.StreamName(subject)
	}
}
