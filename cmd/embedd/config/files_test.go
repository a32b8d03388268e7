package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestJunkInFiles: a file with invalid content is an error that does not print the content.
func TestJunkInFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := account.Seed()
	write(t, dir, "junk", "hunter2 is\nno secret of ours")
	write(t, dir, "empty", "")
	write(t, dir, "account", string(seed))
	write(t, dir, "half.pem", "-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n")
	write(t, dir, "nats/context/junk.json", "hunter2")
	write(t, dir, "nats/context/creds.json", `{"url":"nats://h","creds":"`+filepath.Join(dir, "junk")+`"}`)
	write(t, dir, "nats/context/ca.json", `{"url":"nats://h","ca":"`+filepath.Join(dir, "junk")+`"}`)
	write(t, dir, "nats/context/url.json", `{"url":"http://u:hunter2@h"}`)
	write(t, dir, "nats/context/none.json", `{"url":"nats://h","nkey":"/nowhere/hunter2"}`)
	for _, c := range []struct{ nats, want string }{
		{"{url: h, tls: {ca: junk}}", "nats.tls.ca: " + dir + "/junk has no PEM certificate"},
		{"{url: h, tls: {ca: half.pem}}", "nats.tls.ca: " + dir + "/half.pem has a certificate that cannot be parsed"},
		{"{url: h, tls: {cert: junk, key: junk}}", "nats.tls.key: the file has no PEM private key"},
		{"{url: h, creds: junk}", "nats.creds: the file has no user JWT"},
		{"{url: h, creds: /nowhere/hunter2}", "nats.creds: the file cannot be read: no such file or directory"},
		{"{url: h, nkey: junk}", "nats.nkey: the file has no NKey seed (SU...)"},
		{"{url: h, nkey: account}", "nats.nkey: the seed in the file is not of a user"},
		{"{url: h, nkey: account, jwt: junk}", "nats.jwt: the file has no user JWT"},
		{"{url: h, user: u, password_file: junk}", "nats.password_file: the file must contain only the secret, in one line"},
		{"{url: h, token_file: empty}", "nats.token_file: the file must contain only the secret, in one line"},
		{"{context: absent}", `nats.context: unknown context "absent": ` + dir + "/nats/context/absent.json does not exist"},
		{"{context: junk}", `nats.context: context "junk": ` + dir + "/nats/context/junk.json is not a context"},
		{"{context: creds}", "nats.context: the context: nats.creds: the file has no user JWT"},
		{"{context: ca}", "nats.context: the context's ca: " + dir + "/junk has no PEM certificate"},
		{"{context: url}", "nats.context: the context's url: not a server URL"},
		{"{context: none}", "nats.context: the context: nats.nkey: "},
	} {
		path := write(t, dir, "embedd.yaml", "nats: "+c.nats+"\n"+pipeline(features))
		_, err := Load(path)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.nats, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a secret is in %v", c.nats, err)
		}
	}
}

// TestOneLogin: a connection has one login.
func TestOneLogin(t *testing.T) {
	for nats, want := range map[string]string{
		"{url: h, user: u, password: p, token: t}": "nats.token: user and token exclude each other",
		"{url: h, creds: a, nkey: b}":              "nats.nkey: creds and nkey exclude each other",
		"{url: h, token: t, token_file: f}":        "nats.token_file: token and token_file exclude each other",
		"{url: h, user: u}":                        "nats.user: a user needs nats.password or nats.password_file",
		"{url: h, password: p}":                    "a password needs a user",
		"{url: h, user: u, password: p, password_file: f}": "nats.password_file: password and password_file exclude each " +
			"other",
		"{url: h, jwt: j}":                   "nats.jwt: a JWT needs its seed",
		"{context: c, token: t}":             "nats.token: token and context exclude each other",
		"{url: 'nats://u:p@h', token: t}":    "nats.token: nats.url contains a user or token too",
		"{url: 'nats://u:p@h,nats://v:p@h'}": "nats.url: the URLs have different users",
		"{url: h, inbox_prefix: a.*}":        "nats.inbox_prefix: \"a.*\": want a subject prefix",
		"{url: h, ack_wait: -5s}":            "nats.ack_wait: \"-5s\": want a duration from 1s to 1h",
		"{url: h, wait: -5s}":                "nats.wait: \"-5s\": want a duration from 0s to 1d",
	} {
		_, err := Parse("f", []byte("nats: "+nats+"\n"+pipeline(features)), none)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", nats, err, want)
		}
	}
}

// TestListen: beyond loopback only with TLS and a token, or if explicitly allowed.
func TestListen(t *testing.T) {
	for http, right := range map[string]bool{
		"{}": true, "{listen: 127.0.0.1:1}": true, "{listen: 'localhost:1'}": true, "{listen: '[::1]:1'}": true,
		"{listen: ':8474'}": false, "{listen: 0.0.0.0:1}": false, "{listen: 'host:1'}": false, "{listen: '[::]:1'}": false,
		"{listen: ':1', tls: {cert: c, key: k}}":                false,
		"{listen: ':1', token_file: f}":                         false,
		"{listen: ':1', token_file: f, tls: {cert: c, key: k}}": true,
		"{listen: ':1', allow_insecure: true}":                  true,
		"{tls: {cert: c}}":                                      false,
	} {
		_, err := Parse("f", []byte("http: "+http+"\n"+pipeline(features)), none)
		if (err == nil) != right {
			t.Errorf("%s: %v", http, err)
		}
		if err != nil && !strings.Contains(err.Error(), "f:1:") {
			t.Errorf("%s: no place in %v", http, err)
		}
	}
}

// TestNothingIsNegative: no duration, size or count of the table goes below its minimum, which is never negative.
func TestNothingIsNegative(t *testing.T) {
	for _, f := range spec {
		switch target := f.target(&Config{}, &Pipeline{}); target.(type) {
		case *int, *int64, *uint64, *float64:
			if err := f.set(target, "-1"); err == nil {
				t.Errorf("%s takes -1", f.path)
			}
		default:
			if f.high > 0 {
				for _, v := range []string{"-1s", "-1d", "-0.5h"} {
					if err := f.set(target, v); err == nil {
						t.Errorf("%s takes %s", f.path, v)
					}
				}
			}
		}
	}
}

// TestPathsAreBesideTheFile: paths are relative to the configuration file, whatever the working directory is.
func TestPathsAreBesideTheFile(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	t.Chdir(work)
	path := write(t, dir, "embedd.yaml", pipeline(features, "model: {file: m.embedd}"))
	sibling := write(t, dir, "m.embedd", "")
	load := func() (string, string) {
		t.Helper()
		c, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return c.Pipelines[0].Model.File, fmt.Sprint(c.Notes)
	}
	if got, notes := load(); got != sibling || strings.Contains(notes, "working directory") {
		t.Errorf("next to the file: %s, %s", got, notes)
	}
	write(t, work, "m.embedd", "")
	if got, notes := load(); got != sibling || !strings.Contains(notes, "the working directory has one too") {
		t.Errorf("both: %s, %s", got, notes)
	}
	os.Remove(sibling)
	if got, notes := load(); got != "m.embedd" || !strings.Contains(notes, "read in the working directory") {
		t.Errorf("only in the working directory, as it once was: %s, %s", got, notes)
	}
	os.Remove("m.embedd")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "open "+sibling) {
		t.Errorf("nowhere: %v", err)
	}
}
