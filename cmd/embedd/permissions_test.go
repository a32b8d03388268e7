package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	carrier "github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/admin"
	"github.com/embedd/embedd/stream/dlq"
)

// denials collects the permission errors of a server.
type denials struct{ said }

func (d *denials) Errorf(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); strings.Contains(text, "Violation") {
		fmt.Fprintln(d, text)
	}
}
func (*denials) Noticef(string, ...any) {}
func (*denials) Warnf(string, ...any)   {}
func (*denials) Fatalf(string, ...any)  {}
func (*denials) Debugf(string, ...any)  {}
func (*denials) Tracef(string, ...any)  {}

// guarded is a server on which each role has a user, with the permissions that setup prints.
type guarded struct {
	url    string
	config string              // path of the configuration of all pipelines
	who    map[string][]string // flags with the login of a role; "" is a user with all permissions
	admin  *nats.Conn
	denied *denials
}

// serveGuarded starts a server with options; the denials of all clients are collected.
func serveGuarded(t *testing.T, o *server.Options, port int, g *guarded, admin ...nats.Option) *guarded {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog, o.JetStream, o.StoreDir = "127.0.0.1", port, true, true, true, t.TempDir()
	o.AuthTimeout = ample.Seconds()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	g.denied = &denials{}
	s.SetLoggerV2(g.denied, false, false, false)
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(ample) {
		t.Fatal("the NATS server does not start")
	}
	if g.admin, err = nats.Connect(g.url, append(admin, nats.Timeout(ample))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.admin.Close)
	return g
}

// byConfiguration returns a server with a user for each role, as setup prints them.
func byConfiguration(t *testing.T, config string, port int) *guarded {
	g := &guarded{url: fmt.Sprintf("nats://127.0.0.1:%d", port), config: config, who: map[string][]string{}}
	snippet := verb(t, 0, "setup", "--permissions", "-c", config)
	if users := verb(t, 0, "setup", "--permissions", "--nsc", "-c", config); strings.Contains(users, "authorization") ||
		strings.Count(users, "nsc add user --name embedd_") != 6 || strings.Contains(snippet, "nsc") {
		t.Fatalf("with --nsc:\n%s\nwithout:\n%s", users, snippet)
	}
	for _, v := range []string{"daemon", "producer", "reader", "operator", "viewer", "setup"} {
		snippet = strings.ReplaceAll(snippet, "$EMBEDD_"+strings.ToUpper(v)+"_PASSWORD", v+"pw")
		g.who[v] = []string{"--server", fmt.Sprintf("nats://embedd_%s:%spw@127.0.0.1:%d", v, v, port)}
	}
	g.who[""] = []string{"--server", fmt.Sprintf("nats://admin:admin@127.0.0.1:%d", port)}
	snippet = strings.Replace(snippet, "users = [", "users = [\n{user: admin, password: admin}", 1)
	o, err := server.ProcessConfigFile(writeFile(t, t.TempDir(), "nats.conf", snippet))
	if err != nil {
		t.Fatalf("%v\n%s", err, snippet)
	}
	return serveGuarded(t, o, port, g, nats.UserInfo("admin", "admin"))
}

// byJWT returns a server with the same users as JWTs.
func byJWT(t *testing.T, config string, port int) *guarded {
	g := &guarded{url: fmt.Sprintf("nats://127.0.0.1:%d", port), config: config, who: map[string][]string{}}
	dir := t.TempDir()
	operator, account := sure(nkeys.CreateOperator()), sure(nkeys.CreateAccount())
	o := trustOf(t, operator, account)
	o.JetStreamDomain, o.MaxControlLine = "hub", 64<<10 // the permissions of the pipelines make a JWT of more than 4 KB
	creds := func(name string, change func(*jwt.UserClaims)) string {
		seed, public := newUser()
		claims := jwt.NewUserClaims(public)
		change(claims)
		return writeFile(t, dir, name, string(sure(jwt.FormatUserConfig(sure(claims.Encode(account)), []byte(seed)))))
	}
	for line := range strings.Lines(verb(t, 0, "setup", "--permissions", "--format", "json", "-c", config)) {
		var r admin.Permissions
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		path := creds(string(r.Role), func(c *jwt.UserClaims) {
			if err := json.Unmarshal(sure(json.Marshal(r.Claims)), &c.Permissions); err != nil {
				t.Fatal(err)
			}
		})
		g.who[string(r.Role)] = []string{"--server", g.url, "--creds", path}
	}
	admin := creds("admin", func(*jwt.UserClaims) {})
	g.who[""] = []string{"--server", g.url, "--creds", admin}
	return serveGuarded(t, &o, port, g, nats.UserCredentials(admin))
}

// verb runs a verb and checks its exit code. It runs it again where the server or the daemon of a busy machine answers
// too late.
func verb(t *testing.T, want int, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ample)
	defer cancel()
	for {
		code, out, errs := call(ctx, args...)
		if code == want {
			return out
		}
		if isLate(args[0], out+errs) && natsx.Sleep(ctx, 100*time.Millisecond) {
			continue
		}
		t.Errorf("embedd %s: exit code %d, want %d: %s%s", strings.Join(args, " "), code, want, out, errs)
		return out
	}
}

// isLate reports whether a verb failed because an answer came too late. A publish is not repeated then: rows may be
// stored.
func isLate(verb, said string) bool {
	late := []string{"context deadline exceeded", "no heartbeat received", "does not answer", "no daemon answers"}
	return verb != "publish" && slices.ContainsFunc(late, func(words string) bool { return strings.Contains(said, words) })
}

// TestLeastRights runs everything with the permissions that setup prints and nothing else: the server denies nothing.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	leastRights(t, byConfiguration, "")
}

// TestLeastRightsByJWT is TestLeastRights with JWTs, in a JetStream domain.
func TestLeastRightsByJWT(t *testing.T) {
	t.Parallel()
	leastRights(t, byJWT, "hub")
}

func leastRights(t *testing.T, start func(*testing.T, string, int) *guarded, domain string) {
	port := carrier.FreePort(t)
	dir := t.TempDir()
	config := writeFile(t, dir, "embedd.yaml", fmt.Sprintf(`
nats: {url: 'nats://127.0.0.1:%d', ack_wait: 1s, inbox_prefix: _INBOX_embedd, domain: '%s', streams: {duplicates: 3s}}
http: {listen: 127.0.0.1:0}
pipelines:
  a:
    input: {stream: FEATURES}
    schema: {features: [x, y]}
    model: {method: lda}
  shared:
    input: {stream: FEATURES}
    schema: {features: [x, y]}
    model: {method: lda}
    training: {block: 2}
  late:
    input: {stream: LATE, subject: late.rows, labels: late.labels}
    schema: {features: [x, y], key: id}
    model: {method: lda}
  keyed:
    input: {stream: KEYED, subject: keyed.*, partitions: 2}
    schema: {features: [x, y]}
    model: {method: lda}
  core:
    input: {subject: core.in}
    schema: {features: [x, y], label: ""}
    model: {method: pca, store: %s}
`, port, domain, filepath.Join(dir, "models")))
	g := start(t, config, port)
	as := func(user string, want int, args ...string) string {
		t.Helper()
		if args[0] != "setup" && args[0] != "run" {
			args = append(args, "-c", config) // its inbox prefix
		}
		return verb(t, want, append(args, g.who[user]...)...)
	}
	as("setup", 3, "setup", "-c", config)
	as("setup", 0, "setup", "--apply", "-c", config)
	data := writeFile(t, dir, "rows.csv", labelledRows(600))
	as("producer", 0, "publish", "--data", data, "--label", "label", "--subject", "features.a", "--batch", "100")
	as("producer", 0, "publish", "--data", data, "--label", "label", "--subject", "features.shared", "--batch", "100")
	as("producer", 0, "publish", "--data", data, "--label", "label", "--subject", "keyed.k1", "--batch", "100")
	as("producer", 0, "publish", "--data", data, "--label", "label", "--key", "id", "--subject", "late.rows",
		"--labels", "late.labels", "--batch", "100")

	js := sure(jetstream.New(g.admin, jetstream.WithDefaultTimeout(ample)))
	// One message was delivered before and not acknowledged: its answer is looked up.
	held := sure(js.CreateConsumer(t.Context(), "FEATURES", jetstream.ConsumerConfig{Durable: "embedd_a",
		Description: "embedd pipeline a", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second, MaxDeliver: -1,
		MaxAckPending: 1024, FilterSubject: "features.a"}))
	for range sure(held.Fetch(1)).Messages() {
	}
	for _, subject := range []string{"features.a", "late.labels"} { // dead letters
		if _, err := js.Publish(t.Context(), subject, []byte("junk")); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second) // half the duplicate window, after which the server alone does not detect duplicates

	for begin := range 2 { // the second daemon reads its models from the store
		d := startRun(t, config, g.who["daemon"]...)
		d.until("the pipelines are ready", func() bool {
			_, body := d.get("/readyz")
			return strings.Contains(body, `{"pipeline":"a","ready":true`) &&
				strings.Contains(body, `{"pipeline":"keyed","ready":true`) &&
				strings.Contains(body, `{"pipeline":"shared","ready":true`) &&
				strings.Contains(body, `{"pipeline":"late","ready":true`)
		})
		d.until("every input is answered", func() bool {
			return storedIn(t, js, "REDUCED") == 24 && storedIn(t, js, "DEAD") == 2
		})
		if begin == 0 {
			as("operator", 0, "retrain", "a")
			as("operator", 0, "resume", "a")
			as("operator", 0, "reload", "a")
			for _, role := range []string{"viewer", "operator", "daemon"} {
				as(role, 0, "status")
				as(role, 0, "status", "late")
				as(role, 0, "doctor")
			}
			for _, pipeline := range []string{"a", "shared", "keyed", "core"} {
				as("viewer", 0, "schema", "show", pipeline)
			}
			for _, verb := range [][]string{{"ls"}, {"ls", "a"}, {"show", "a"}, {"diff", "a", "a"},
				{"export", "a", "-o", filepath.Join(dir, "model.json")}} {
				as("viewer", 0, append([]string{"model"}, verb...)...)
			}
			for _, verb := range []string{"ls", "show", "pin", "unpin"} {
				as("operator", 0, "model", verb, "a")
			}
			as("viewer", 0, "dlq", "ls", "--subject", "dead.late")
			var letter dlq.ListedLetter
			if err := json.Unmarshal([]byte(as("viewer", 0, "dlq", "ls", "a", "--format", "json")), &letter); err != nil {
				t.Fatal(err)
			}
			as("viewer", 0, "dlq", "show", "--subject", "dead.a", fmt.Sprint(letter.Number))
			for _, subject := range []string{"embedd.a.model.ls", "embedd.a.model.show", "embedd.a.model.pin",
				"embedd.a.model.unpin", "$SRV.INFO.embedd_a", "$SRV.STATS"} {
				d.until(subject+" is answered", func() bool { // without an error of a server that is late
					m, err := g.admin.Request(subject, nil, ample)
					return err == nil && m.Header.Get("Nats-Service-Error") == ""
				})
			}
			as("reader", 0, "tail", "--subject", "reduced.a", "--all", "--limit", "1")
			// The daemon lists dead letters, and says why it may not replay them.
			d.until("the daemon lists dead letters", func() bool {
				code, body := d.get("/api/v1/pipelines/a/dead-letters")
				return code == 200 && strings.Contains(body,
					`"why_not":"the daemon has no permission to publish on \"features.a\"`)
			})
		}
		if begin == 1 {
			as("operator", 0, "dlq", "replay", "a")
			as("operator", 0, "dlq", "replay", "late")
			as("operator", 0, "model", "reset", "a", "--yes")
			// Running daemons follow a reset with the permissions of run.
			for _, pipeline := range []string{"a", "keyed"} {
				as("operator", 0, "schema", "reset", pipeline, "--yes")
				d.until("the daemon follows the reset of "+pipeline, func() bool {
					_, body := d.get("/readyz")
					return !strings.Contains(body, `{"pipeline":"`+pipeline+`","ready":true`)
				})
				as("operator", 0, "schema", "show", pipeline)
			}
		}
		if code := d.stop(); code != 0 {
			t.Errorf("the daemon ended with %d:\n%s", code, d.log)
		}
		if log := d.log.String(); strings.Contains(log, "permission denied") {
			t.Errorf("the daemon lacks a right:\n%s", log)
		}
	}
	if text := g.denied.String(); text != "" {
		t.Errorf("the server denied:\n%s", text)
	}

	// No other permission is granted: a request beyond them is named.
	_, out, errs := call(t.Context(), append([]string{"publish", "--data", data, "--label", "label", "--subject",
		"elsewhere", "-c", config}, g.who["producer"]...)...)
	if !strings.Contains(errs, "the server denied: publish to elsewhere") || out != "" {
		t.Errorf("publishing elsewhere: %s%s", out, errs)
	}
}

func storedIn(t *testing.T, js jetstream.JetStream, name string) int {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

// labelledRows returns a file with two classes that are far apart.
func labelledRows(n int) string {
	var b strings.Builder
	b.WriteString("id,x,y,label\n")
	for i := range n {
		c := i % 2
		fmt.Fprintf(&b, "r%d,%d.%04d,%d.%04d,%c\n", i, 10*c, i*7919%9973, 5*c, i*3571%9967, 'a'+c)
	}
	return b.String()
}
