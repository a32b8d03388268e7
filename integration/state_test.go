package integration

import (
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// TestStates: what the daemon reports to an operator: it is blocked by a missing permission while no input arrives,
// then it waits for a model, and lag is counted all the time.
func TestStates(t *testing.T) {
	t.Parallel()
	users := func(denied ...string) []*server.User {
		return []*server.User{{Username: "all"}, {Username: "embedd", Password: "secret",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: denied}}}}
	}
	var options server.Options
	s := startServer(t, func(o *server.Options) {
		o.NoAuthUser, o.Users = "all", users("reduced.digits")
		options = *o
	})
	succeed(t, "setup", "--apply", "-c", configFile(t, s.ClientURL(), learning))
	c := dial(t, s.ClientURL())
	g := digits(t)
	for from := 0; from < 50; from += 10 {
		c.send("features.digits", g.message(t, from, from+10, false))
	}
	url := strings.Replace(s.ClientURL(), "nats://", "nats://embedd:secret@", 1)
	d := startDaemon(t, configFile(t, url, learning))
	awaitState := func(state string, words ...string) {
		t.Helper()
		body := ""
		eventually(t, func() string { return "/readyz says " + state + ": " + body }, func() bool {
			var code int
			if code, body = d.get("/readyz"); code != 503 || !strings.Contains(body, `"state":"`+state+`"`) {
				return false
			}
			for _, w := range words {
				if !strings.Contains(body, w) {
					return false
				}
			}
			return d.metric(`embedd_state{pipeline="digits",state="`+state+`"}`) == "1" &&
				d.metric(`embedd_ready{pipeline="digits"}`) == "0" && d.metric(`embedd_lag_messages{pipeline="digits"}`) == "5"
		})
		if text := succeed(t, "status", "--wide", "--server", s.ClientURL()); !strings.Contains(text, "  "+state+"  ") ||
			!strings.Contains(text, "5, oldest ") {
			t.Errorf("status says\n%s", text)
		}
	}
	awaitState("blocked", `publish on \"reduced.digits\"`, "of 250 labelled rows")
	options.Port, options.Users = s.Addr().(*net.TCPAddr).Port, users()
	if err := s.ReloadOptions(&options); err != nil {
		t.Fatal(err)
	}
	awaitState("waiting_for_model", "0 of 250 labelled rows")
	if n := strings.Count(d.log.String(), "reduced.digits"); n > 3 {
		t.Errorf("the log names what is denied %d times:\n%s", n, d.log.String())
	}
	d.stop()
}
