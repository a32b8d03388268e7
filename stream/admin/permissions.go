package admin

import (
	"cmp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// Permissions are the least permissions of the server user of a verb: subjects that it may publish and subscribe to.
type Permissions struct {
	Verb      string   `json:"verb"`
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	// Replies is how many messages it may publish to the reply subject of one request, up to ReplyWait after it. Every
	// pipeline replies to a request to all services.
	Replies   int           `json:"allow_responses"`
	ReplyWait time.Duration `json:"-"`
}

// Account has the prefixes of an account: of requests to JetStream, and of the inbox for their replies. Empty fields
// mean the defaults.
type Account struct{ APIPrefix, InboxPrefix string }

// PermissionsOf lists the least permissions for the verbs run, publish, tail, setup, status, dlq, model, doctor and
// schema, for pipelines whose streams are named in the plans of Setup. A daemon with those of run cannot create
// streams and buckets.
func PermissionsOf(pipelines []spec.Pipeline, plans []Plan, a Account) (out []Permissions) {
	inbox := cmp.Or(a.InboxPrefix, strings.TrimSuffix(nats.InboxPrefix, "."))
	all := needs.For(needs.Config{Pipelines: pipelines, APIPrefix: a.APIPrefix, StreamOf: streamIn(plans)})
	for _, verb := range needs.Verbs {
		p := Permissions{Verb: string(verb)}
		p.Publish, p.Subscribe = needs.PermissionsOf(all, verb, inbox+".>")
		if verb == needs.Run || verb == needs.Doctor {
			// A server counts each delivery of one request to a connection.
			p.Replies, p.ReplyWait = 2*len(pipelines), 2*needs.RequestTimeout
		}
		out = append(out, p)
	}
	return out
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
