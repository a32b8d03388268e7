package connection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// outage is the time without a connection.
type outage struct {
	since   time.Time // zero: connected
	rounds  int       // through all servers
	refused int       // of them ended with the login refused
	err     error     // the last
	logged  time.Time // when it was logged
}

// Between two rounds of attempts, each twice as long as the one before: up to longPause while nobody listens, up to
// longRefusal where every attempt is a login that fails.
const (
	shortPause  = 100 * time.Millisecond
	longPause   = 2 * time.Second
	longRefusal = 10 * time.Second
)

const (
	every      = time.Minute // how often the same is logged
	maxReports = 64          // that are told apart
	maxDenied  = 16          // rights that are remembered
)

// tryAgain is called before each round of attempts, and says how long to wait.
func (c *Conn) tryAgain(int) time.Duration {
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
	wait += time.Duration(rand.Int64N(int64(wait)/4 + 1)) // many clients come back at the same time
	// The first refusal is told at once, as is what does not pass soon.
	tell := err != nil && (refused == 0 && d.refused == 1 || rounds > 3 && time.Since(d.logged) > every)
	if tell {
		d.logged = time.Now()
	}
	c.mu.Unlock()
	if tell {
		c.log.Warn("cannot connect again; trying for ever", "since", since.UTC().Format(time.RFC3339), "next", wait,
			"error", c.explain(err))
	}
	return wait
}

// failed notes why an attempt failed.
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
	c.log.Warn("the server is gone; reconnecting for ever", "error", err)
}

func (c *Conn) reconnected(*nats.Conn) {
	c.mu.Lock()
	c.down = outage{}
	c.mu.Unlock()
	c.log.Info("connected again", "server", c.Address())
}

// Trouble is a sentence about why there is no connection now; "" where there is one.
func (c *Conn) Trouble() string {
	c.mu.Lock()
	d := c.down
	c.mu.Unlock()
	select {
	case <-c.closed: // not the client, whose lock one that hangs can hold
		return fmt.Sprintf("the connection to %s has ended: %v", c.target.where, c.LastError())
	default:
	}
	if d.since.IsZero() {
		return ""
	}
	text := fmt.Sprintf("not connected since %s; trying for ever", d.since.UTC().Format(time.RFC3339))
	if d.err != nil {
		text += ": " + c.explain(d.err).Error()
	}
	return text
}

// violation is what the server says where a right is missing.
var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]*)"`)

// reported is called with what the client notices on the way.
func (c *Conn) reported(_ *nats.Conn, sub *nats.Subscription, err error) {
	if isLogin(err) {
		return // tryAgain tells
	}
	text := err.Error()
	if right := rightIn(err); right != "" {
		text = right
		c.deny(right)
		err = fmt.Errorf("a right is missing: %s; `embedd setup --permissions` prints those that are needed", text)
	} else if sub != nil {
		text += sub.Subject
	}
	c.mu.Lock()
	maps.DeleteFunc(c.told, func(_ string, at time.Time) bool { return time.Since(at) >= every })
	_, quiet := c.told[text]
	quiet = quiet || len(c.told) == maxReports
	if !quiet {
		c.told[text] = time.Now()
	}
	c.mu.Unlock()
	if !quiet {
		c.log.Warn("the connection reports", "error", err)
	}
}

// rightIn is the right that an error says is missing, "" where it says something else.
func rightIn(err error) string {
	if m := violation.FindStringSubmatch(err.Error()); m != nil {
		return strings.ToLower(m[1]) + " to " + m[2]
	}
	return ""
}

// deny remembers a right that is missing.
func (c *Conn) deny(right string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.denied, right); i >= 0 {
		c.denied = slices.Delete(c.denied, i, i+1)
	}
	c.denied = append(c.denied, right)
	if len(c.denied) > maxDenied {
		c.denied = c.denied[1:]
	}
}

// Explain adds the rights that the server denied to an error, which without them only says that no answer came.
func (c *Conn) Explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if right := rightIn(err); right != "" {
		c.deny(right)
	}
	c.mu.Lock()
	denied := slices.Clone(c.denied)
	c.mu.Unlock()
	if len(denied) == 0 {
		return err
	}
	return fmt.Errorf("%w; the server denied: %s; `embedd setup --permissions` prints the rights that are needed", err,
		strings.Join(denied, ", "))
}
