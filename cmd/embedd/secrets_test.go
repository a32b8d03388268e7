package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/testsize"
)

// sure is for calls that fail only if the machine does.
func sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newUser returns a user's seed and public key.
func newUser() (seed, public string) {
	key := sure(nkeys.CreateUser())
	return string(sure(key.Seed())), sure(key.PublicKey())
}

// trustOf returns the options of a server that trusts an operator and has its account.
func trustOf(t *testing.T, operator, account nkeys.KeyPair) server.Options {
	t.Helper()
	trusted := sure(jwt.DecodeOperatorClaims(sure(jwt.NewOperatorClaims(sure(operator.PublicKey())).Encode(operator))))
	name := sure(account.PublicKey())
	claims := jwt.NewAccountClaims(name)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	resolver := &server.MemAccResolver{}
	system := sure(sure(nkeys.CreateAccount()).PublicKey())
	for _, c := range []*jwt.AccountClaims{claims, jwt.NewAccountClaims(system)} {
		if err := resolver.Store(c.Subject, sure(c.Encode(operator))); err != nil {
			t.Fatal(err)
		}
	}
	return server.Options{TrustedOperators: []*jwt.OperatorClaims{trusted}, AccountResolver: resolver,
		SystemAccount: system}
}

// TestMain is embedd itself if a test starts it as a process.
func TestMain(m *testing.M) {
	if os.Getenv(asItself) != "" {
		main()
	}
	testsize.AtOnce(8)
	natsx.KeyPoll = time.Second
	// Verbs set the pace of the collector for their process, such as 20 % for the rows of a file, a limit for one
	// pipeline, and a slot of the scheduler for each that trains. Here all tests share them: with 36 slots on two cores
	// three quarters of the processor time went to the collector.
	os.Setenv("GOGC", "400")
	os.Setenv("GOMEMLIMIT", "off")
	os.Setenv("GOMAXPROCS", strconv.Itoa(runtime.GOMAXPROCS(0)))
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

const asItself = "EMBEDD_TEST_IS_EMBEDD"

// crashDump returns the output of a daemon that is ended as by the watchdog of systemd: the stacks of all goroutines,
// also those of the runtime.
func crashDump(t *testing.T, config string) string {
	t.Helper()
	said := &said{}
	cmd := exec.Command(os.Args[0], "run", "-c", config)
	cmd.Env = append(os.Environ(), asItself+"=1", "GOTRACEBACK=system")
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	for end := time.Now().Add(ample); !serves.MatchString(said.String()) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(ample):
		_ = cmd.Process.Kill()
		<-done
	}
	dump := said.String()
	if !strings.Contains(dump, "SIGQUIT: quit") || strings.Count(dump, "\ngoroutine ") < 10 {
		t.Errorf("this is no crash dump:\n%s", dump)
	}
	return dump
}

// TestSecretsStaySecret plants a secret in every field that may have one, and searches all output: of every verb that
// connects, with accepted and refused logins, of the daemon, its debug log and its listener, and of its crash dump.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const secret = "hunter2hunter2"
	seed, public := newUser()
	jwtSeed, jwtPublic := newUser()
	operator, account := sure(nkeys.CreateOperator()), sure(nkeys.CreateAccount())
	byJWT, token := trustOf(t, operator, account), sure(jwt.NewUserClaims(jwtPublic).Encode(account))
	byPassword := server.Options{Username: "u", Password: secret}
	byToken := server.Options{Authorization: secret}
	byKey := server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}}
	creds := writeFile(t, dir, "u.creds", string(sure(jwt.FormatUserConfig(token, []byte(jwtSeed)))))
	seedFile, secretFile := writeFile(t, dir, "seed", seed), writeFile(t, dir, "secret", secret)
	inContext := func(name string, fields map[string]string) func(string) string {
		return func(address string) string {
			fields["url"] = "nats://" + address
			return "context: " + writeFile(t, dir, name+".json", string(sure(json.Marshal(fields))))
		}
	}
	with := func(keys string) func(string) string {
		return func(address string) string { return "url: 'nats://" + address + "', " + keys }
	}
	// Paths that differ only before the connection do not query a running daemon, which takes half a second each.
	asked, dumped := []string{"token in the address"}, []string{"token in the address", "password file",
		"creds in context"}
	for name, c := range map[string]struct {
		server server.Options
		nats   func(address string) string
	}{
		"token in the address":    {byToken, func(a string) string { return "url: 'nats://" + secret + "@" + a + "'" }},
		"password in the address": {byPassword, func(a string) string { return "url: 'nats://u:" + secret + "@" + a + "'" }},
		"password":                {byPassword, with("user: u, password: " + secret)},
		"password file":           {byPassword, with("user: u, password_file: " + secretFile)},
		"token":                   {byToken, with("token: " + secret)},
		"token file":              {byToken, with("token_file: " + secretFile)},
		"nkey":                    {byKey, with("nkey: " + seedFile)},
		"jwt": {byJWT, with("jwt: " + writeFile(t, dir, "jwt", token) + ", nkey: " +
			writeFile(t, dir, "jwtseed", jwtSeed))},
		"creds":               {byJWT, with("creds: " + creds)},
		"password in context": {byPassword, inContext("a", map[string]string{"user": "u", "password": secret})},
		"token in context":    {byToken, inContext("b", map[string]string{"token": secret})},
		"creds in context":    {byJWT, inContext("c", map[string]string{"creds": creds})},
		"jwt in context":      {byJWT, inContext("d", map[string]string{"user_jwt": token, "user_seed": jwtSeed})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := c.server
			o.JetStream, o.StoreDir = true, t.TempDir()
			right := serveNATS(t, o)
			wrong := serveNATS(t, server.Options{Username: "x", Password: "y"})
			search := func(what, out string) {
				t.Helper()
				for _, s := range []string{secret, seed, jwtSeed, token} {
					if i := strings.Index(out, s); i >= 0 {
						t.Errorf("%s holds a secret: ...%s", what, out[max(0, i-100):i+len(s)])
					}
				}
			}
			file := func(address string) string {
				return writeFile(t, t.TempDir(), "embedd.yaml", "nats: {"+c.nats(address)+"}\n"+
					"http: {listen: 127.0.0.1:0}\npipelines:\n  p: {input: {stream: FEATURES}, schema: {features: [x]}, training: "+
					"{until_ready: skip}}\n")
			}
			data := writeFile(t, t.TempDir(), "d.csv", "x,label\n1,a\n2,b\n")
			bad := writeFile(t, t.TempDir(), "bad.csv", "y,label\n1,a\n2,b\n") // a dead letter comes of it
			verbs := [][]string{
				{"check"}, {"check", "--format", "json"},
				{"setup"}, {"setup", "--apply", "--format", "json"}, {"setup", "--permissions"},
				{"publish", "--data", data, "--label", "label", "--subject", "features.p"},
				{"tail", "--subject", "features.p", "--all", "--limit", "1"},
				{"publish", "--data", bad, "--label", "label", "--subject", "features.p"},
				{"tail", "--subject", "dead.p", "--all", "--limit", "1"},
				{"dlq", "ls"}, {"dlq", "ls", "--format", "json"}, {"dlq", "show", "1"},
				{"dlq", "replay", "--dry-run"}, {"dlq", "replay", "--keep", "p"}, {"dlq", "replay", "1", "--format", "json"},
				{"model", "ls"}, {"model", "show", "p"}, {"model", "pin", "p"},
			}
			if slices.Contains(asked, name) {
				verbs = append(verbs, []string{"status"}, []string{"status", "--format", "json"}, []string{"retrain", "p"},
					[]string{"doctor"}, []string{"doctor", "--json"})
			}
			call := func(config string, want int, verb []string) {
				t.Helper()
				var out bytes.Buffer
				code := dispatch(context.Background(), &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out},
					append(verb, "-c", config))
				search(fmt.Sprint(verb), out.String())
				if want >= 0 && code != want {
					t.Errorf("%v: exit code %d: %s", verb, code, out.String())
				}
			}
			config := file(right.Addr().String())
			call(config, 3, []string{"setup"})
			call(config, 0, []string{"setup", "--apply"})
			d := startRun(t, config, "--log-level", "debug")
			d.until("the pipeline answers", func() bool {
				code, _ := d.get("/readyz")
				return code == 200 && strings.Contains(d.log.String(), "p")
			})
			for _, verb := range verbs {
				want := 0
				if verb[0] == "model" || verb[0] == "retrain" {
					want = 1 // there is no model yet
				}
				if verb[0] == "model" && verb[1] == "ls" {
					want = 0
				}
				call(config, want, verb)
			}
			if slices.Contains(dumped, name) {
				search("the crash dump", crashDump(t, config))
			}
			for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
				_, body := d.get(path)
				search(path, body)
			}
			if slices.Contains(asked, name) {
				right.Shutdown()
				right.WaitForShutdown()
				d.until("it reports that it is disconnected from the server", func() bool {
					return strings.Contains(d.log.String(), "disconnected from the server")
				})
				_, body := d.get("/healthz")
				search("/healthz", body)
			}
			d.stop()
			search("run", d.log.String())

			refused := file(wrong.Addr().String())
			for _, verb := range append(verbs, []string{"run", "--log-level", "debug"}) {
				if verb[0] != "check" && !slices.Contains(verb, "--permissions") {
					want := 1
					if verb[0] == "doctor" {
						want = 3
					}
					call(refused, want, verb)
				}
			}
		})
	}
}
