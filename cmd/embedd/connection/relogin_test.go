package connection

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// TestPrepareLogin: a connection changes to another login that works, and keeps its own if that does not.
func TestPrepareLogin(t *testing.T) {
	_, seed, public := user(t)
	s := serve(t, server.Options{Users: []*server.User{{Username: "a", Password: "1"}, {Username: "b", Password: "2"}},
		Nkeys: []*server.NkeyUser{{Nkey: public}}})
	with := func(l config.Login) config.NATS { return config.NATS{URL: address(s, ""), Login: l} }
	users := func() (all []string) {
		z := must(s.Connz(&server.ConnzOptions{Username: true}))
		for _, c := range z.Conns {
			all = append(all, c.AuthorizedUser)
		}
		return all
	}
	nc, err := dial(t, with(config.Login{User: "a", Password: "1"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		login config.Login
		want  string
	}{
		{config.Login{User: "b", Password: "wrong"}, "connecting with the new login"},
		{config.Login{NKey: file(t, t.TempDir(), "seed", seed)}, "restart embedd"},
		{config.Login{}, "restart embedd"},
	} {
		if _, err := nc.PrepareLogin(t.Context(), with(c.login)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.login, err, c.want)
		}
	}
	until(t, func() bool { return slices.Equal(users(), []string{"a"}) })
	use, err := nc.PrepareLogin(t.Context(), with(config.Login{User: "b", Password: "2"}))
	if err != nil {
		t.Fatal(err)
	}
	use()
	until(t, func() bool { return nc.IsConnected() && slices.Equal(users(), []string{"b"}) })
}
