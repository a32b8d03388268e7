package integration

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/testsize"
)

// guillotine forwards connections to a server and calls kill before it forwards data that contains all of the words.
func guillotine(t *testing.T, to string, kill func(), words ...string) string {
	t.Helper()
	l := must(link.New(to, func(piece []byte) error {
		for _, w := range words {
			if !bytes.Contains(piece, []byte(w)) {
				return nil
			}
		}
		kill()
		return errors.New("killed")
	}, nil))(t)
	t.Cleanup(l.Close)
	return l.Address()
}

// TestMessageThatKills: a message (in the long form two) crashes the daemon whenever it answers it, and the daemon is
// started again each time: after a few crashes the message is a dead letter, everything else is answered once, and the
// daemon stays up.
func TestMessageThatKills(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	var mu sync.Mutex
	var d *daemon
	kill := func() {
		mu.Lock()
		defer mu.Unlock()
		_ = d.cmd.Process.Kill()
	}
	address := guillotine(t, s.Addr().String(), kill, "HPUB reduced.digits", "X-Deadly")
	pipeline := `
digits:
  input: {stream: FEATURES, subject: features.digits, attempts: 3}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {file: ` + packedModel(t, "lda", 3) + `}`
	config := configFile(t, "nats://"+address, pipeline)
	setAckWait(t, config, "1s")
	g := digits(t)
	const n = 60
	deadly := map[int]bool{21: true, 42: testsize.Soak()}
	for i := 1; i <= n; i++ {
		var header []string
		if deadly[i] {
			header = []string{"X-Deadly", "yes"}
		}
		c.send("features.digits", g.message(t, i*10, i*10+10, true), header...)
	}
	deaths := 0
	for end := time.Now().Add(ample); c.count("REDUCED")+c.count("DEAD") < n; {
		if time.Now().After(end) {
			t.Fatalf("after %d deaths %d inputs are answered and %d are dead letters", deaths, c.count("REDUCED"),
				c.count("DEAD"))
		}
		mu.Lock()
		if d == nil {
			d = launch(t, config)
		}
		mu.Unlock()
		select {
		case <-d.done:
			mu.Lock()
			d = nil
			mu.Unlock()
			deaths++
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Logf("%d deaths", deaths)
	c.settled("FEATURES", "digits")
	letters := c.read("DEAD")
	once(t, "FEATURES", 1, n, append(c.read("REDUCED"), letters...))
	for _, l := range letters {
		source := l.header.Get(wire.HeaderSource)
		seq := must(strconv.Atoi(strings.TrimPrefix(source, "FEATURES:")))(t)
		if !deadly[seq] || l.header.Get(wire.HeaderCode) != string(wire.ProcessDied) ||
			l.header.Get(wire.HeaderAttempts) != "3" || !bytes.Equal(l.data, g.message(t, seq*10, seq*10+10, true)) {
			t.Errorf("the dead letter of %s says %v", source, l.header)
		}
	}
	if deaths > 6 {
		t.Errorf("%d deaths of at most two messages with three attempts each", deaths)
	}
	d.stop()
}
