package connection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/natsx"
)

// outage is the state of a lost connection.
type outage struct {
	since   time.Time // zero: connected
	rounds  int       // attempts through all servers
	refused int       // rounds in which the login was refused
	err     error     // the last one
	logged  time.Time // when it was logged
}

// Backoff between two rounds of attempts: up to longPause if no server listens, up to longRefusal if the login is
// refused.
const (
	shortPause  = 100 * time.Millisecond
	longPause   = 2 * time.Second
	longRefusal = 10 * time.Second
)

const (
	every      = time.Minute // how often the same error is logged
	maxReports = 64          // distinct errors
	maxDenied  = 16          // permissions that are remembered
)

// backoff is called before each round of attempts and returns how long to wait.
func (c *Conn) backoff(int) time.Duration {
	if nc := c.nc(); nc != nil {
		if err := nc.LastError(); err != nil {
			c.failed(err)
		}
	}
	c.mu.Lock()
	d := &c.down
	d.rounds++
	rounds, refused, most := d.rounds, d.refused, longPause
	if isLogin(d.err) {
		d.refused++
		rounds, most = d.refused, longRefusal
	}
	err, since := d.err, d.since
	wait := min(shortPause<<min(rounds-1, 10), most)
	wait += time.Duration(rand.Int64N(int64(wait)/4 + 1)) // jitter: many clients reconnect at the same time
	// Log the first refusal immediately, and other errors only if they last.
	shouldLog := err != nil && (refused == 0 && d.refused == 1 || rounds > 3 && time.Since(d.logged) > every)
	if shouldLog {
		d.logged = time.Now()
	}
	c.mu.Unlock()
	if shouldLog {
		c.log.Warn("cannot reconnect; retrying indefinitely", "since", since.UTC().Format(time.RFC3339), "next", wait,
			"error", c.explain(err))
	}
	return wait
}

// failed records why an attempt failed.
func (c *Conn) failed(err error) {
	c.mu.Lock()
	c.down.err = err
	c.mu.Unlock()
}

func (c *Conn) disconnected(nc *nats.Conn, err error) {
	if nc.IsClosed() {
		return
	}
	c.mu.Lock()
	c.down = outage{since: time.Now(), err: err}
	c.mu.Unlock()
	c.log.Warn("disconnected from the server; reconnecting indefinitely", "error", err)
}

func (c *Conn) reconnected(*nats.Conn) {
	c.mu.Lock()
	c.down = outage{}
	c.mu.Unlock()
	c.log.Info("reconnected", "server", c.Address())
}

// Trouble says why there is no connection, "" if there is one.
func (c *Conn) Trouble() string {
	c.mu.Lock()
	d := c.down
	c.mu.Unlock()
	select {
	case <-c.closed: // not nc.IsClosed: a write that hangs may hold the lock of the client
		return fmt.Sprintf("the connection to %s has ended: %v", c.target.where, c.LastError())
	default:
	}
	if d.since.IsZero() {
		return ""
	}
	text := fmt.Sprintf("not connected since %s; retrying indefinitely", d.since.UTC().Format(time.RFC3339))
	if d.err != nil {
		text += ": " + c.explain(d.err).Error()
	}
	return text
}

// reported is the error handler of the client.
func (c *Conn) reported(_ *nats.Conn, sub *nats.Subscription, err error) {
	if isLogin(err) {
		return // backoff logs it
	}
	text := err.Error()
	if permission := deniedIn(err); permission != "" {
		text = permission
		c.deny(permission)
		err = fmt.Errorf("permission denied: %s; `embedd setup --permissions` prints the required permissions", text)
	} else if sub != nil {
		text += sub.Subject
	}
	c.mu.Lock()
	maps.DeleteFunc(c.loggedAt, func(_ string, at time.Time) bool { return time.Since(at) >= every })
	_, quiet := c.loggedAt[text]
	quiet = quiet || len(c.loggedAt) == maxReports
	if !quiet {
		c.loggedAt[text] = time.Now()
	}
	c.mu.Unlock()
	if !quiet {
		c.log.Warn("connection error", "error", err)
	}
}

// deniedIn is the permission that an error reports as denied, "" if it is another error.
func deniedIn(err error) string {
	if p, ok := natsx.DeniedPermission(err); ok {
		return string(p.Action) + " to " + p.Subject
	}
	return ""
}

// deny remembers a denied permission.
func (c *Conn) deny(permission string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.denied, permission); i >= 0 {
		c.denied = slices.Delete(c.denied, i, i+1)
	}
	c.denied = append(c.denied, permission)
	if len(c.denied) > maxDenied {
		c.denied = c.denied[1:]
	}
}

// Explain adds the permissions that the server denied to an error, which otherwise may only be a timeout.
func (c *Conn) Explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if permission := deniedIn(err); permission != "" {
		c.deny(permission)
	}
	c.mu.Lock()
	denied := slices.Clone(c.denied)
	c.mu.Unlock()
	if len(denied) == 0 {
		return err
	}
	return fmt.Errorf("%w; the server denied: %s; `embedd setup --permissions` prints the required permissions", err,
		strings.Join(denied, ", "))
}
