package natsx

import (
	"cmp"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// serverWait bounds the connection to one server.
const serverWait = 2 * time.Second

// KnownServer is a server of the cluster to which a connection belongs.
type KnownServer struct {
	URL     string
	Name    string
	Version string
	Err     error // why it cannot be reached; then it has neither name nor version

	id string
}

// KnownServers connects for a moment to each server that a connection knows, as the same user, and returns them by
// name, each once. The connected server is among them.
func KnownServers(nc *nats.Conn) []KnownServer {
	all := []KnownServer{{URL: nc.ConnectedUrlRedacted(), Name: nc.ConnectedServerName(),
		Version: nc.ConnectedServerVersion(), id: nc.ConnectedServerId()}}
	if nc.Opts.InProcessServer != nil {
		return all
	}
	urls := nc.Servers()
	asked := make([]KnownServer, len(urls))
	var wg sync.WaitGroup
	for i, address := range urls {
		wg.Go(func() { asked[i] = askServer(nc, address) })
	}
	wg.Wait()
	for _, one := range asked {
		if one.Err != nil || !slices.ContainsFunc(all, func(o KnownServer) bool { return o.id == one.id }) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b KnownServer) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.URL, b.URL))
	})
	return all
}

// askServer connects to a server with the options of a connection, but without its callbacks.
func askServer(nc *nats.Conn, address string) KnownServer {
	o := nc.Opts
	if o.User == "" && o.Token == "" {
		o.User, o.Password, o.Token = userOf(append([]string{o.Url}, o.Servers...))
	}
	o.Url, o.Servers, o.Timeout = address, nil, min(cmp.Or(o.Timeout, serverWait), serverWait)
	o.AllowReconnect, o.RetryOnFailedConnect, o.IgnoreDiscoveredServers = false, false, true
	o.ConnectedCB, o.ReconnectedCB, o.DiscoveredServersCB, o.ClosedCB, o.LameDuckModeHandler = nil, nil, nil, nil, nil
	o.DisconnectedErrCB, o.ReconnectErrCB = nil, nil
	o.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {}
	one, err := o.Connect()
	if err != nil {
		return KnownServer{URL: address, Err: err}
	}
	defer one.Close()
	return KnownServer{URL: address, Name: one.ConnectedServerName(), Version: one.ConnectedServerVersion(),
		id: one.ConnectedServerId()}
}

// userOf is the login that is in one of the URLs: servers that were discovered have none in theirs.
func userOf(urls []string) (user, password, token string) {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.User == nil {
			continue
		}
		if password, isLogin := u.User.Password(); isLogin {
			return u.User.Username(), password, ""
		}
		return "", "", u.User.Username()
	}
	return "", "", ""
}
