package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/stream/admin"
)

// attempt is what only some roles may do.
type attempt struct {
	subject string
	roles   string // that may
}

// published has subjects of two pipelines, a and late; b is another application of the account.
var published = []attempt{
	// Deliveries of the durable consumer, and the consumer itself.
	{"$JS.API.CONSUMER.MSG.NEXT.FEATURES.embedd_a", "daemon"},
	{"$JS.ACK.FEATURES.embedd_a.1.1.1.1.0", "daemon"},
	{"$JS.API.CONSUMER.CREATE.FEATURES.embedd_a.features.a", "daemon"},
	{"$JS.API.CONSUMER.CREATE.FEATURES.embedd-reader-1.features.a", "daemon"},
	{"$JS.API.CONSUMER.CREATE.FEATURES", ""},
	{"$JS.API.CONSUMER.CREATE.FEATURES.embedd_a", ""},
	{"$JS.API.CONSUMER.DURABLE.CREATE.FEATURES.embedd_a", ""},
	{"$JS.API.CONSUMER.DELETE.FEATURES.embedd_a", "daemon"},
	{"$JS.API.CONSUMER.PAUSE.FEATURES.embedd_a", ""},
	{"$JS.API.CONSUMER.RESET.FEATURES.embedd_a", ""},
	{"$JS.API.CONSUMER.LEADER.STEPDOWN.FEATURES.embedd_a", ""},
	// Consumers of other applications.
	{"$JS.API.CONSUMER.MSG.NEXT.REDUCED.b", "daemon"},
	{"$JS.API.CONSUMER.DELETE.REDUCED.b", "daemon"},
	{"$JS.API.CONSUMER.DELETE.DEAD.b", "daemon"},
	{"$JS.API.CONSUMER.CREATE.REDUCED.embedd-reader-1.reduced.a", "reader daemon"},
	{"$JS.API.CONSUMER.CREATE.REDUCED.embedd-reader-1.reduced.b", ""},
	{"$JS.API.CONSUMER.CREATE.REDUCED.embedd-reader-1", ""},
	{"$JS.API.CONSUMER.CREATE.DEAD.embedd-reader-1", ""},
	{"$JS.API.CONSUMER.CREATE.DEAD.embedd-reader-1.dead.a", "viewer operator daemon"},
	{"$JS.API.CONSUMER.CREATE.DEAD.embedd-reader-1.dead.b", ""},
	// Streams.
	{"$JS.API.STREAM.CREATE.LEAK", ""},
	{"$JS.API.STREAM.UPDATE.FEATURES", "setup"},
	{"$JS.API.STREAM.UPDATE.KV_EMBEDD_STATE", "setup"},
	{"$JS.API.STREAM.DELETE.FEATURES", ""},
	{"$JS.API.STREAM.PURGE.FEATURES", ""},
	{"$JS.API.STREAM.PURGE.REDUCED", ""},
	{"$JS.API.STREAM.PURGE.KV_EMBEDD_STATE", ""},
	{"$JS.API.STREAM.PURGE.OBJ_EMBEDD_MODELS", "daemon"},
	{"$JS.API.STREAM.MSG.DELETE.FEATURES", ""},
	{"$JS.API.STREAM.MSG.DELETE.REDUCED", ""},
	{"$JS.API.STREAM.MSG.DELETE.KV_EMBEDD_STATE", ""},
	{"$JS.API.STREAM.MSG.DELETE.DEAD", "operator"},
	{"$JS.API.STREAM.MSG.GET.FEATURES", "daemon viewer operator setup"},
	{"$JS.API.STREAM.MSG.GET.REDUCED", "daemon"},
	{"$JS.API.STREAM.SNAPSHOT.FEATURES", ""},
	// Copies of stored messages, with their headers, which a client can have stored anywhere.
	{"$JS.API.DIRECT.GET.FEATURES", "daemon"},
	{"$JS.API.DIRECT.GET.FEATURES.features.a", "daemon"},
	{"$JS.API.DIRECT.GET.REDUCED", ""},
	{"$JS.API.DIRECT.GET.DEAD", ""},
	{"$JS.API.DIRECT.GET.OBJ_EMBEDD_MODELS.x", "daemon"},
	{"$JS.API.DIRECT.GET.OBJ_EMBEDD_MODELS", ""},
	{"$JS.API.DIRECT.GET.KV_EMBEDD_MODELS", ""},
	{"$JS.API.STREAM.MSG.GET.OBJ_EMBEDD_MODELS", "daemon viewer operator setup"},
	{"$JS.API.STREAM.RESTORE.FEATURES", ""},
	// The identity key, and the rest of the state.
	{"$JS.API.STREAM.MSG.GET.KV_EMBEDD_STATE", "daemon"},
	{"$JS.API.DIRECT.GET.KV_EMBEDD_STATE", ""},
	{"$JS.API.DIRECT.GET.KV_EMBEDD_STATE.$KV.EMBEDD_STATE.a.identity", ""},
	{"$JS.API.DIRECT.GET.KV_EMBEDD_STATE.$KV.EMBEDD_STATE.a.contract", "daemon viewer operator setup"},
	{"$JS.API.CONSUMER.CREATE.KV_EMBEDD_STATE", ""},
	{"$JS.API.CONSUMER.CREATE.KV_EMBEDD_STATE.x", ""},
	{"$JS.API.CONSUMER.CREATE.KV_EMBEDD_STATE.x.$KV.EMBEDD_STATE.a.identity", ""},
	{"$JS.API.CONSUMER.DURABLE.CREATE.KV_EMBEDD_STATE.x", ""},
	{"$JS.API.STREAM.SNAPSHOT.KV_EMBEDD_STATE", ""},
	{"$KV.EMBEDD_STATE.a.identity", "daemon"},
	{"$KV.EMBEDD_STATE.a.training", "daemon"},
	{"$KV.EMBEDD_STATE.a.contract", "daemon operator"},
	{"$KV.EMBEDD_STATE.b.contract", ""},
	// Models and leases.
	{"$KV.EMBEDD_MODELS.a", "daemon operator"},
	{"$KV.EMBEDD_MODELS.b", ""},
	{"$O.EMBEDD_MODELS.C.x", "daemon"},
	{"$O.EMBEDD_MODELS.M.x", "daemon"},
	{"$KV.EMBEDD_LEASES.a", "daemon"},
	{"$JS.API.CONSUMER.CREATE.KV_EMBEDD_LEASES.x", ""},
	{"embedd.a.changed.EMBEDD_STATE", "daemon"},
	{"embedd.b.changed.EMBEDD_STATE", ""},
	// Messages.
	{"features.a", "producer operator"},
	{"late.labels", "producer operator"},
	{"reduced.a", "daemon"},
	{"dead.a", "daemon"},
	{"features.b", ""},
	{"reduced.b", ""},
	{"dead.b", ""},
	// Requests to the daemon.
	{"embedd.a.status", "daemon viewer operator setup"},
	{"embedd.a.transform", "producer"},
	{"embedd.a.retrain", "operator daemon"},
	{"embedd.a.resume", "operator daemon"},
	{"embedd.a.dlq.ls", "viewer operator"},
	{"embedd.a.dlq.replay", "operator"},
	{"embedd.a.model.ls", "viewer operator"},
	{"embedd.a.model.pin", "operator"},
	{"embedd.a.model.rollback", "operator"},
	{"embedd.a.staged", "daemon"},
	// Replies to any client, which a role that answers no request has no use for.
	{"_INBOX.viewer.x", "daemon"},
	{"_INBOX.x", "daemon"},
}

var subscribed = []attempt{
	{">", ""},
	{"features.a", ""},
	{"late.labels", ""},
	{"reduced.a", "reader"},
	{"dead.a", ""},
	{"$KV.EMBEDD_STATE.>", ""},
	{"$KV.EMBEDD_MODELS.>", ""},
	{"$JS.API.>", ""},
	{"$JS.ACK.>", ""},
	{"$JS.EVENT.>", ""},
	{"embedd.a.status", "daemon"},
	{"_INBOX.>", ""},
	{"_INBOX.daemon.>", "daemon"},
	{"_INBOX.producer.>", "producer"},
	{"_INBOX.reader.>", "reader"},
	{"_INBOX.operator.>", "operator"},
	{"_INBOX.viewer.>", "daemon viewer operator setup"},
	{"_INBOX.setup.>", "setup"},
}

// roleServer has the streams of two pipelines, and a user for each role.
func roleServer(t *testing.T) (g *guarded, js jetstream.JetStream) {
	port := carrier.FreePort(t)
	config := writeFile(t, t.TempDir(), "embedd.yaml", fmt.Sprintf(`
nats: {url: 'nats://127.0.0.1:%d'}
http: {listen: 127.0.0.1:0}
pipelines:
  a:
    input: {stream: FEATURES}
    schema: {features: [x, y]}
    model: {method: lda}
  late:
    input: {stream: LATE, subject: late.rows, labels: late.labels}
    schema: {features: [x, y], key: id}
    model: {method: lda}
`, port))
	g = byConfiguration(t, config, port)
	verb(t, 0, append([]string{"setup", "--apply", "-c", config}, g.who["setup"]...)...)
	return g, sure(jetstream.New(g.admin, jetstream.WithDefaultTimeout(ample)))
}

// as connects a role with its inbox; denied is called with what the server denies.
func (g *guarded) as(t *testing.T, role string, denied func(error)) *nats.Conn {
	nc := sure(nats.Connect(g.who[role][1], nats.Timeout(ample), nats.CustomInboxPrefix("_INBOX."+role),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied(err) })))
	t.Cleanup(nc.Close)
	return nc
}

// TestRolesAreMinimal tries with each role what only others may do, and what it may.
func TestRolesAreMinimal(t *testing.T) {
	g, _ := roleServer(t)
	for _, role := range []string{"daemon", "producer", "reader", "operator", "viewer", "setup"} {
		var mu sync.Mutex
		denied := map[string]bool{}
		nc := g.as(t, role, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			denied[err.Error()] = true
		})
		isDenied := func(action, subject string) bool {
			mu.Lock()
			defer mu.Unlock()
			for text := range denied {
				if strings.Contains(text, fmt.Sprintf("%s to %q", action, subject)) {
					return true
				}
			}
			return false
		}
		// A permission that all roles lack ends the list: what comes before it is decided.
		const last = "denied.subject"
		for _, a := range append(slices.Clone(published), attempt{last, ""}) {
			if err := nc.Publish(a.subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		for _, a := range append(slices.Clone(subscribed), attempt{last, ""}) {
			sure(nc.SubscribeSync(a.subject))
		}
		for end := time.Now().Add(ample); !isDenied("Publish", last) || !isDenied("Subscription", last); {
			if time.Now().After(end) {
				t.Fatalf("%s: the server does not deny %s", role, last)
			}
			time.Sleep(5 * time.Millisecond)
		}
		for action, list := range map[string][]attempt{"Publish": published, "Subscription": subscribed} {
			for _, a := range list {
				if may := slices.Contains(strings.Fields(a.roles), role); may == isDenied(action, a.subject) {
					t.Errorf("%s: %s to %s: allowed %t, want %t", role, action, a.subject, !may, may)
				}
			}
		}
	}
}

// TestReaderReadsItsSubject: a consumer that a reader may create reads the outputs of its pipelines and nothing else,
// whatever the request says, and cannot be one that exists. The server knows no reply subjects that a user may not
// use, which SECURITY.md names.
func TestReaderReadsItsSubject(t *testing.T) {
	g, js := roleServer(t)
	other := sure(js.CreateOrUpdateConsumer(t.Context(), "REDUCED", jetstream.ConsumerConfig{Durable: "application"}))
	for _, subject := range []string{"reduced.a", "reduced.late"} {
		sure(js.Publish(t.Context(), subject, []byte("output")))
	}
	nc := g.as(t, "reader", func(err error) { t.Error(err) })
	request := func(subject, body string) (name string, err error) {
		m, err := nc.Request(subject, []byte(body), ample)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Error *jetstream.APIError
			Name  string
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Error != nil {
			return "", errors.New(answer.Error.Description)
		}
		return answer.Name, nil
	}
	const create = "$JS.API.CONSUMER.CREATE.REDUCED.embedd-reader-1.reduced.a"
	for _, body := range []string{
		`{"stream_name":"REDUCED","config":{"name":"embedd-reader-1","filter_subject":"reduced.>"}}`,
		`{"stream_name":"REDUCED","config":{"name":"embedd-reader-1","filter_subject":"reduced.late"}}`,
		`{"stream_name":"REDUCED","config":{"name":"embedd-reader-1","filter_subjects":["reduced.a","reduced.late"]}}`,
		`{"stream_name":"REDUCED","config":{"name":"embedd-reader-1","filter_subjects":["reduced.late"]}}`,
		`{"stream_name":"REDUCED","config":{"name":"embedd-reader-1"}}`,
		`{"stream_name":"FEATURES","config":{"name":"embedd-reader-1","filter_subject":"reduced.a"}}`,
		`{"stream_name":"REDUCED","config":{"durable_name":"application","filter_subject":"reduced.a"}}`,
	} {
		if name, err := request(create, body); err == nil {
			t.Errorf("%s creates %s", body, name)
		}
	}
	name, err := request(create, `{"stream_name":"REDUCED","config":{"name":"application","filter_subject":"reduced.a"}}`)
	if err != nil || name != "embedd-reader-1" {
		t.Errorf("the name of the subject does not decide: %s, %v", name, err)
	}
	// The config alone tells: the server counts the pending messages later.
	before, after := other.CachedInfo().Config, sure(other.Info(t.Context())).Config
	if !reflect.DeepEqual(before, after) {
		t.Errorf("the application's consumer was changed: %+v, before %+v", after, before)
	}

	// An answer of the server goes where the request says. Separate accounts prevent it.
	if err := nc.PublishRequest("$JS.API.STREAM.NAMES", "$KV.EMBEDD_MODELS.x", nil); err != nil {
		t.Fatal(err)
	}
	pointers := sure(js.Stream(t.Context(), "KV_EMBEDD_MODELS"))
	for end := time.Now().Add(ample); ; time.Sleep(5 * time.Millisecond) {
		if _, err := pointers.GetLastMsgForSubject(t.Context(), "$KV.EMBEDD_MODELS.x"); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the server checks reply subjects now: say so in SECURITY.md: %v", err)
		}
	}
}

// TestVerbsHaveRoles: each verb that connects to a server has a role, except init, which runs before there are roles.
func TestVerbsHaveRoles(t *testing.T) {
	everyCommand(newRoot(&cli.Env{}), func(cmd *cobra.Command) {
		_, name, _ := strings.Cut(cmd.CommandPath(), " ")
		if cmd.Flags().Lookup("creds") != nil && admin.RoleOf(name) == "" && name != "init" {
			t.Errorf("embedd %s has no role", name)
		}
	})
}
