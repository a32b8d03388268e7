package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/embedd/embedd/cmd/embedd/embedded"
	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream/admin"
)

// installation is a server on which all is well. login returns the flags with which a role connects.
type installation struct {
	url   string
	login func(role string) []string
}

// soundInstallations start servers of the kinds on which doctor must find nothing. config has one pipeline, and no
// address of a server; port is for those that need the address before they start.
var soundInstallations = map[string]func(t *testing.T, config string, port int) installation{
	"embedded": func(t *testing.T, _ string, port int) installation {
		s, err := embedded.Start(t.TempDir(), port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { embedded.Stop(s) })
		return installation{url: s.ClientURL()}
	},
	"one server": func(t *testing.T, _ string, _ int) installation { return installation{url: natstest.New(t).URL()} },
	"a cluster": func(t *testing.T, _ string, _ int) installation {
		return installation{url: natstest.NewCluster(t)[0].URL()}
	},
	"a leaf node": func(t *testing.T, _ string, port int) installation {
		natstest.New(t, func(o *server.Options) {
			o.JetStreamDomain, o.LeafNode = "hub", server.LeafNodeOpts{Host: "127.0.0.1", Port: port}
		})
		remote := &url.URL{Scheme: "nats", Host: "127.0.0.1:" + strconv.Itoa(port)}
		return installation{url: natstest.New(t, func(o *server.Options) {
			o.JetStreamDomain = "leaf"
			o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}}}
		}).URL()}
	},
	"least permissions": func(t *testing.T, config string, port int) installation {
		g := byConfiguration(t, writeFile(t, t.TempDir(), "embedd.yaml", config), port)
		t.Cleanup(func() {
			if text := g.denied.String(); text != "" {
				t.Errorf("the server denied:\n%s", text)
			}
		})
		return installation{g.url, func(role string) []string { return g.who[role] }}
	},
	"limits of the account": func(t *testing.T, _ string, _ int) installation {
		w := newWard(t)
		w.account("max_streams: 7, max_consumers: 4, max_file: 100MB, max_memory: 100MB")
		return installation{url: w.server.ClientURL()}
	},
}

// TestDoctorOfSoundInstallations: doctor finds nothing where nothing is wrong, for each role that may ask it, with a
// running daemon that answers and learns, and that reports nothing either. TestDoctorOfTheEmbeddedServer examines a
// server that the daemon embeds, without an address in the configuration.
func TestDoctorOfSoundInstallations(t *testing.T) {
	t.Parallel()
	for name, start := range soundInstallations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, port := t.TempDir(), link.FreePort(t)
			pipeline := `
http: {listen: 127.0.0.1:0}
pipelines:
  digits:
    input: {stream: FEATURES, subject: features.digits}
    schema: {features: [x, y], label: label}
    output: {subject: reduced.digits, dead: dead.digits}
`
			in := start(t, fmt.Sprintf("nats: {url: 'nats://127.0.0.1:%d'}", port)+pipeline, port)
			if in.login == nil {
				in.login = func(string) []string { return nil }
			}
			config := writeFile(t, dir, "embedd.yaml", fmt.Sprintf("nats: {url: %q}", in.url)+pipeline)
			verb(t, 0, append([]string{"setup", "--apply", "-c", config}, in.login("setup")...)...)
			verb(t, 0, append([]string{"publish", "--data", writeFile(t, dir, "rows.csv", labelledRows(600)), "--pipeline",
				"digits", "--batch", "20", "-c", config}, in.login("producer")...)...)
			d := startRun(t, config, in.login("daemon")...)
			d.until("the pipeline is ready", func() bool { code, _ := d.get("/readyz"); return code == 200 })
			for _, role := range []string{"viewer", "operator", "daemon"} {
				var found []string
				for range 3 { // the server of a busy machine may answer a request too late
					found = nil
					args := append([]string{"doctor", "-c", config, "--format", "json"}, in.login(role)...)
					for line := range strings.Lines(verb(t, 0, args...)) {
						var f admin.Finding
						if err := json.Unmarshal([]byte(line), &f); err != nil || f.Level != admin.LevelOK {
							found = append(found, line)
						}
					}
					if len(found) == 0 {
						break
					}
				}
				if len(found) > 0 {
					t.Errorf("%s: %s", role, found)
				}
			}
			log := d.log.String() // what it warns of while the server of a busy machine is silent is not judged
			isLate := strings.Contains(log, "does not answer") || strings.Contains(log, "context deadline exceeded")
			if !isLate && (strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR")) {
				t.Errorf("the daemon warns:\n%s", log)
			}
		})
	}
}
