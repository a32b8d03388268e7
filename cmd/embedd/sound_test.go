package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream/admin"
)

// TestDoctorOfSoundInstallations: doctor finds nothing where nothing is wrong, with a running daemon that answers and
// learns. TestDoctorOfTheEmbeddedServer and TestLeastRights have two more installations.
func TestDoctorOfSoundInstallations(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (url string){
		"one server": func(t *testing.T) string { return natstest.New(t).URL() },
		"a cluster":  func(t *testing.T) string { return natstest.NewCluster(t)[0].URL() },
		"a leaf node": func(t *testing.T) string {
			leafs := link.FreePort(t)
			natstest.New(t, func(o *server.Options) {
				o.JetStreamDomain, o.LeafNode = "hub", server.LeafNodeOpts{Host: "127.0.0.1", Port: leafs}
			})
			remote := &url.URL{Scheme: "nats", Host: "127.0.0.1:" + strconv.Itoa(leafs)}
			return natstest.New(t, func(o *server.Options) {
				o.JetStreamDomain = "leaf"
				o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}}}
			}).URL()
		},
		"limits of the account": func(t *testing.T) string {
			w := newWard(t)
			w.account("max_streams: 7, max_consumers: 4, max_file: 100MB, max_memory: 100MB")
			return w.server.ClientURL()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, server := t.TempDir(), start(t)
			config := writeFile(t, dir, "embedd.yaml", fmt.Sprintf(`nats: {url: %q}
http: {listen: 127.0.0.1:0}
pipelines:
  digits:
    input: {stream: FEATURES, subject: features.digits}
    schema: {features: [x, y], label: label}
    output: {subject: reduced.digits, dead: dead.digits}
`, server))
			for _, args := range [][]string{{"setup", "--apply"}, {"publish", "--data", writeFile(t, dir, "rows.csv",
				labelledRows(600)), "--pipeline", "digits", "--batch", "20"}} {
				if code, out, errs := call(t.Context(), append(args, "-c", config)...); code != 0 {
					t.Fatalf("%s ended with %d: %s%s", args[0], code, out, errs)
				}
			}
			d := startRun(t, config)
			d.until("the pipeline is ready", func() bool { code, _ := d.get("/readyz"); return code == 200 })
			code, report, errs := call(t.Context(), "doctor", "-c", config, "--format", "json")
			if code != 0 {
				t.Errorf("doctor ended with %d: %s", code, errs)
			}
			for line := range strings.Lines(report) {
				var f admin.Finding
				if err := json.Unmarshal([]byte(line), &f); err != nil || f.Level != admin.LevelOK {
					t.Errorf("%v %s", err, line)
				}
			}
		})
	}
}
