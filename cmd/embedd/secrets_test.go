package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// sure is for calls that only fail when the machine does.
func sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newUser is a user's seed and public key.
func newUser() (seed, public string) {
	key := sure(nkeys.CreateUser())
	return string(sure(key.Seed())), sure(key.PublicKey())
}

// trustOf is a server's options that trust an operator and know its account.
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

// TestSecretsStaySecret plants a secret in every field that may hold one, and searches all that comes out: of every
// verb that connects, where it is let in and where it is refused, and of the daemon, its log at debug and its listener.
func TestSecretsStaySecret(t *testing.T) {
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
	// Ways that differ in code only up to the connection ask no running daemon: that takes half a second each.
	asked := []string{"token in the address"}
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
					"http: {listen: 127.0.0.1:0}\npipelines:\n  p: {input: {stream: FEATURES}, schema: {features: [x]}}\n")
			}
			data := writeFile(t, t.TempDir(), "d.csv", "x,label\n1,a\n2,b\n")
			verbs := [][]string{
				{"check"}, {"check", "--format", "json"},
				{"setup"}, {"setup", "--apply", "--format", "json"}, {"setup", "--permissions"},
				{"publish", "--data", data, "--label", "label", "--subject", "features.p"},
				{"tail", "--subject", "features.p", "--all", "--limit", "1"},
				{"model", "ls"}, {"model", "show", "p"}, {"model", "pin", "p"},
			}
			if slices.Contains(asked, name) {
				verbs = append(verbs, []string{"status"}, []string{"status", "--format", "json"}, []string{"retrain", "p"})
			}
			call := func(config string, want int, verb []string) {
				t.Helper()
				var out bytes.Buffer
				code := dispatch(context.Background(), &env{stdin: strings.NewReader(""), stdout: &out, stderr: &out},
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
				return code == 503 && strings.Contains(d.log.String(), "p")
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
			for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
				_, body := d.get(path)
				search(path, body)
			}
			if slices.Contains(asked, name) {
				right.Shutdown()
				right.WaitForShutdown()
				d.until("it tells that the server is gone", func() bool {
					return strings.Contains(d.log.String(), "the server is gone")
				})
				_, body := d.get("/healthz")
				search("/healthz", body)
			}
			d.stop()
			search("run", d.log.String())

			refused := file(wrong.Addr().String())
			for _, verb := range append(verbs, []string{"run", "--log-level", "debug"}) {
				if verb[0] != "check" && !slices.Contains(verb, "--permissions") {
					call(refused, 1, verb)
				}
			}
		})
	}
}
