package console

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/embedd/embedd/stream"
)

// ringSize is how many notable events are kept for clients that connect again.
const ringSize = 256

// writeTimeout is how long a client may take to read an event. Slower ones are disconnected.
const writeTimeout = 10 * time.Second

// event is something notable that happened to a pipeline.
type event struct {
	Time     time.Time `json:"time"`
	Pipeline string    `json:"pipeline"`
	// Kind is state, model, fit, drift or dead_letters.
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// feed is what clients of the event stream read: a ring of events, and the newest state. A slow client reads older
// events than the others, and delays none of them.
type feed struct {
	process string // in the ids of events
	// dropped counts clients that were disconnected because they did not read.
	dropped int

	mu        sync.Mutex
	ring      [ringSize][]byte
	last      uint64 // number of the newest event; they count from 1
	clients   int
	status    []stream.Status // of the last tick
	histories map[string]*history
	encoded   map[string][]byte // of the tick, by pipeline; "" is the overview; nil: no client has asked yet
	changed   chan struct{}     // closed with each tick
}

func newFeed() *feed { return &feed{process: rand.Text()[:8], changed: make(chan struct{})} }

// Observe takes the state of all pipelines, about once a second, and notes what is notable since the last time.
func (c *Console) Observe(status []stream.Status) {
	now := time.Now()
	f := c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	histories := map[string]*history{}
	for i := range status {
		s := &status[i]
		c := cmp.Or(f.histories[s.Pipeline], &history{})
		for _, one := range eventsBetween(cmp.Or(c.last, s), s) {
			one.Time, one.Pipeline = now.UTC(), s.Pipeline
			f.add(one)
		}
		c.follow(s, now)
		histories[s.Pipeline] = c
	}
	f.status, f.histories, f.encoded = status, histories, nil
	close(f.changed)
	f.changed = make(chan struct{})
}

// eventsBetween are the notable differences of two states.
func eventsBetween(was, is *stream.Status) (out []event) {
	note := func(kind, text string) { out = append(out, event{Kind: kind, Text: text}) }
	if was.State != is.State {
		text := string(is.State)
		if is.Reason != "" {
			text += ": " + is.Reason
		}
		note("state", text)
	}
	if m := is.Stage.Live; m != nil && (was.Stage.Live == nil || was.Stage.Live.Version != m.Version) {
		note("model", fmt.Sprintf("%s is live: %s, %d outputs, epoch %d", m.Version, m.Model.Method(), m.Model.Dim(),
			m.Epoch))
	}
	if is.Stage.Note != was.Stage.Note && is.Stage.Note != "" {
		note("fit", is.Stage.Note)
	}
	if is.Stage.Alarms > was.Stage.Alarms {
		note("drift", "a concept drift cut the window")
	}
	if n := is.DeadRows - was.DeadRows; n > 0 {
		note("dead_letters", fmt.Sprintf("%.0f rows became dead letters", n))
	}
	return out
}

// add appends an event to the ring. The caller holds the lock.
func (f *feed) add(e event) {
	data, err := json.Marshal(e)
	if err != nil {
		return // plain data
	}
	f.last++
	f.ring[f.last%ringSize] = data
}

// enter counts a client, unless there are limit clients already.
func (f *feed) enter(limit int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clients >= limit {
		return false
	}
	f.clients++
	return true
}

func (f *feed) leave(isSlow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients--
	if isSlow {
		f.dropped++
	}
}

// overview is the state of all pipelines now.
func (f *feed) overview(status []stream.Status, trouble string) overview {
	f.mu.Lock()
	defer f.mu.Unlock()
	return overviewOf(status, f.histories, trouble, time.Now())
}

// Clients are the connected clients of the event stream, and those that were disconnected because they did not read.
func (c *Console) Clients() (connected, dropped int) {
	c.feed.mu.Lock()
	defer c.feed.mu.Unlock()
	return c.feed.clients, c.feed.dropped
}

// reader is one client's place in the feed.
type reader struct {
	feed     *feed
	pipeline string
	next     uint64 // number of the next event
}

// newReader continues after the id of the last event that a client has, or with the oldest one that is kept.
func (f *feed) newReader(pipeline, id string) (r *reader, isGap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r = &reader{f, pipeline, max(f.last, ringSize) - ringSize + 1}
	process, number, _ := strings.Cut(id, "-")
	if n, err := strconv.ParseUint(number, 10, 64); id != "" && (err != nil || process != f.process || n > f.last) {
		r.next = f.last + 1
		return r, true
	} else if id != "" {
		r.next = n + 1
	}
	return r, false
}

// read returns what a client has not seen, as server-sent events, and what ends when there is more.
func (r *reader) read(trouble func() string) (text []byte, more <-chan struct{}) {
	f := r.feed
	problem := trouble()
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.next+ringSize <= f.last {
		first := f.last - ringSize + 1
		text = fmt.Appendf(text, "event: gap\ndata: {\"missed\":%d}\n\n", first-r.next)
		r.next = first
	}
	for ; r.next <= f.last; r.next++ {
		text = fmt.Appendf(text, "event: event\nid: %s-%d\ndata: %s\n\n", f.process, r.next, f.ring[r.next%ringSize])
	}
	if f.encoded == nil {
		f.encoded = map[string][]byte{}
		f.encode("", overviewOf(f.status, f.histories, problem, time.Now()))
	}
	text = fmt.Appendf(text, "event: state\ndata: %s\n\n", f.encoded[""])
	for i := range f.status {
		if f.status[i].Pipeline == r.pipeline && r.pipeline != "" {
			text = fmt.Appendf(text, "event: status\ndata: %s\n\n", f.encode(r.pipeline, f.status[i].Report()))
		}
	}
	return text, f.changed
}

// encode encodes a state once for all clients. The caller holds the lock.
func (f *feed) encode(key string, v any) []byte {
	data, is := f.encoded[key]
	if !is {
		data, _ = json.Marshal(v) // plain data
		f.encoded[key] = data
	}
	return data
}

var errClients = stream.WithCode(codeClients, errors.New("as many event streams are open as http.clients "+
	"allows; close a page, or raise it"))

// events sends server-sent events until the client leaves, or does not read.
func (s *server) events(w http.ResponseWriter, r *request) (any, error) {
	if r.Method == http.MethodHead { // it would take the place of a reader
		w.Header().Set("Content-Type", "text/event-stream")
		return nil, errHandled
	}
	if !s.feed.enter(s.access.config.Load().Clients) {
		return nil, errClients
	}
	isSlow := false
	defer func() { s.feed.leave(isSlow) }()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy must not wait for more
	out := http.NewResponseController(w)
	id := r.Header.Get("Last-Event-ID")
	reader, isGap := s.feed.newReader(r.URL.Query().Get("pipeline"), id)
	text := []byte("retry: 2000\n\n")
	if isGap {
		text = append(text, "event: gap\ndata: {\"missed\":null}\n\n"...)
	}
	for {
		news, more := reader.read(s.options.Trouble)
		text = append(text, news...)
		err := out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err == nil {
			if _, err = w.Write(text); err == nil {
				err = out.Flush()
			}
		}
		if err != nil {
			isSlow = errors.Is(err, os.ErrDeadlineExceeded)
			return nil, errHandled
		}
		text = text[:0]
		select {
		case <-more:
		case <-r.Context().Done():
			return nil, errHandled
		case <-s.done:
			return nil, errHandled
		}
		if !s.mayRead(r) {
			return nil, errHandled
		}
	}
}

// mayRead reports whether a client whose stream is open may still read: its session may have ended.
func (s *server) mayRead(r *request) bool {
	_, ok := s.access.Identify(r.Request)
	return ok
}
