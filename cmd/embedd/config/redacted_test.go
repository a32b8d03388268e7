package config

import (
	"strings"
	"testing"
)

// TestRedacted: what a report to others must not have is removed, wherever it is, and the rest stays.
func TestRedacted(t *testing.T) {
	const text = `# secret-comment
nats:
  url: "nats://secret-user:secret-password@127.0.0.1:4222,tls://secret-token@b:4222,\
    nats://u:secret-a,secret-b@c?secret-query#secret-part" # secret-comment
  password: &secret-anchor secret-password
  token: secret-token
  users: {operator: {user: operator, password: secret-password}, viewer: {token: *secret-anchor, creds: viewer.creds}}
  pasword: secret-password
  nkey: SUAABBCCDDEEFFGGHHIIJJKKLLMMNNOOPPQQRRSSTTUUVVWWXXYYZZ2345
  context: secret-user:secret-password@host
  tls: {ca: ca.pem, key: "-----BEGIN PRIVATE KEY-----\nsecret-key"}
  creds: !secret-tag x
  "nats://secret-user:secret-password@host": x
http: {listen: 127.0.0.1:8474, token_file: http.token, users_file: "alice: $2y$secret-hash", hosts: ["u:secret-user@h"],
  tls: {key: secret-token-of-twenty-characters}}
secret-list: [secret-a, {secret: secret-b}]
pipelines:
  digits:
    input: {stream: FEATURES, subject: features.digits}
    schema: {features: [pixels, z], label: label}
    output: {subject: reduced.digits, dead: dead.digits, token: secret-token}
`
	out, err := Redacted([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	shown := string(out)
	for _, gone := range []string{"secret-comment", "secret-user", "secret-password", "secret-token", "secret-anchor",
		"secret-a", "secret-b", "SUAABB", "secret-key", "secret-tag", "secret-hash", "secret-query", "secret-part"} {
		if strings.Contains(strings.ReplaceAll(shown, "secret-list", ""), gone) {
			t.Errorf("%s is in\n%s", gone, shown)
		}
	}
	for _, stays := range []string{"xxxxx@127.0.0.1:4222", "xxxxx@b:4222", "xxxxx@c?", "viewer.creds",
		"ca.pem", "http.token", "pixels",
		"reduced.digits", "operator", "127.0.0.1:8474", "token: REMOVED"} {
		if !strings.Contains(shown, stays) {
			t.Errorf("%s is not in\n%s", stays, shown)
		}
	}
	if _, err := Redacted([]byte("nats: {url: secret")); err == nil || strings.Contains(err.Error(), "secret-") {
		t.Errorf("no YAML: %v", err)
	}
}
