package daemon

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/bcrypt"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/console"
	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/registry"
)

func TestMain(m *testing.M) {
	testsize.AtOnce(8)
	os.Exit(m.Run())
}

// message has n rows of two features, of two classes.
func message(r *rand.Rand, n int) []byte {
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String}}, nil)
	x := array.NewFixedSizeListBuilder(memory.DefaultAllocator, 2, arrow.PrimitiveTypes.Float32)
	label := array.NewStringBuilder(memory.DefaultAllocator)
	for range n {
		class := r.IntN(2)
		x.Append(true)
		x.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{float32(r.NormFloat64() + 3*float64(class)),
			float32(r.NormFloat64())}, nil)
		label.Append([]string{"<img src=x onerror=alert(1)>", "\u202e" + strings.Repeat("n", 1000)}[class])
	}
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := w.Write(array.NewRecord(schema, []arrow.Array{x.NewArray(), label.NewArray()}, int64(n))); err != nil {
		panic(err)
	}
	w.Close()
	return out.Bytes()
}

// served is a listener over an engine with one pipeline, p.
type served struct {
	*monitor
	t       *testing.T
	console *console.Console
	server  *natstest.Server
	engine  *stream.Engine
	rand    *rand.Rand
	logged  *counter
}

// counter is a log that counts its messages.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) { c.n.Add(1); return len(p), nil }

// serveAPI starts a server, an engine and a listener.
func serveAPI(t *testing.T, h config.HTTP, change ...func(*stream.Pipeline)) *served {
	t.Helper()
	s := &served{t: t, server: natstest.New(t), rand: rand.New(rand.NewPCG(1, 2)), logged: &counter{}}
	s.server.Stream(jetstream.StreamConfig{Name: "in", Subjects: []string{"in.>", "out.>"}})
	s.server.Stream(jetstream.StreamConfig{Name: "dead", Subjects: []string{"dead.>"}})
	conn, err := connection.Dial(t.Context(), config.NATS{URL: s.server.URL()}, connection.Options{Wait: natstest.Timeout,
		Logger: slog.New(slog.DiscardHandler), Inbox: "_INBOX"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	opened := make(chan struct{})
	p := stream.Pipeline{Name: "p", Stream: "in", Subject: "in.x", Output: "out.x", Dead: "dead.p",
		Stage: plugin.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"}, Fit: fit.Config{Method: "lda"},
			Training: plugin.Training{Every: plugin.Every{Rows: 100}}}}
	for _, change := range change {
		change(&p)
	}
	s.engine, err = stream.New(stream.Options{Conn: conn.Conn, Wait: natstest.Timeout, Opened: func() { close(opened) },
		Pipelines: []stream.Pipeline{p}})
	if err != nil {
		t.Fatal(err)
	}
	s.console = console.New(console.Options{Engine: func() *stream.Engine { return s.engine },
		Conn: func() *connection.Conn { return conn }, Trouble: conn.Trouble, Version: "v1",
		Log: slog.New(slog.NewTextHandler(s.logged, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.engine.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	select {
	case <-opened:
	case <-time.After(natstest.Timeout):
		t.Fatal("the engine does not start")
	}
	if h.Listen == "" {
		h.Listen = "127.0.0.1:0"
	}
	h.Clients, h.Points = cmp.Or(h.Clients, 3), 1000
	if s.monitor, err = startMonitor(h, prometheus.NewRegistry(), probes{func() []readiness { return nil }, conn.Trouble},
		s.console, quiet); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.monitor.close(context.Background()) })
	return s
}

// send publishes messages of 100 rows.
func (s *served) send(n int) {
	for range n {
		msg := nats.NewMsg("in.x")
		msg.Data = message(s.rand, 100)
		s.server.Publish(msg)
	}
}

// do sends a request to the API, and decodes the answer into what is given, if anything.
func (s *served) do(method, path, body string, into any, headers ...string) (code int, text string) {
	s.t.Helper()
	r := sure(http.NewRequest(method, "http://"+s.addr.String()+path, strings.NewReader(body)))
	if body != "" && !strings.HasSuffix(path, "/transform") {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	data := sure(io.ReadAll(answer.Body))
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
		if got := answer.Header.Get(name); got != want {
			s.t.Errorf("%s %s: %s is %q", method, path, name, got)
		}
	}
	if p := answer.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") {
		s.t.Errorf("%s %s: policy %q", method, path, p)
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			s.t.Fatalf("%s %s: %d %.300s: %v", method, path, answer.StatusCode, data, err)
		}
	}
	return answer.StatusCode, string(data)
}

// learn sends rows until two versions have been live and all is learned, and returns both.
func (s *served) learn() (live, previous string) {
	s.t.Helper()
	sent := 0
	natstest.Await(s.t, "two models", func() bool {
		var r stream.Report
		if s.do("GET", "/api/v1/pipelines/p", "", &r); r.Learning.Rows < 100*sent || r.Learning.Backlog > 0 ||
			r.Learning.Fitting {
			return false
		}
		var m models
		s.do("GET", "/api/v1/pipelines/p/models", "", &m)
		for _, one := range m.Models {
			switch one.State {
			case "live":
				live = one.Version
			case "previous":
				previous = one.Version
			}
		}
		if previous == "" {
			s.send(4)
			sent += 4
		}
		return previous != "" && r.Model.Version == live
	})
	return live, previous
}

type models struct {
	Models []struct{ Version, State string }
	Turns  []struct{ Time, What, Live, Was, By string }
}

// TestAPI: an operator's session over HTTP.
func TestAPI(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, config.HTTP{})
	const p = "/api/v1/pipelines/p"
	var list struct {
		Pipelines []struct{ Pipeline, State string }
	}
	if code, text := s.do("GET", "/api/v1/pipelines", "", &list); code != 200 || len(list.Pipelines) != 1 {
		t.Fatalf("%d %s", code, text)
	}
	var e struct{ Code, Error string }
	for path, want := range map[string]string{p + "/models/live": "404 no_model",
		p + "/models/p-9-00000000":    "404 no_model",
		p + "/models/live/conversion": "404 no_model", "/api/v1/pipelines/q": "404 not_found",
		"/api/v1/pipelines/q/dead-letters": "404 not_found", p + "/points?limit=x": "400 bad_request"} {
		if code, text := s.do("GET", path, "", &e); fmt.Sprint(code, " ", e.Code) != want {
			t.Errorf("%s: %d %s, want %s", path, code, text, want)
		}
	}
	if code, text := s.do("POST", p+"/retrain", "{}", &e); code != 409 || e.Code != "few_rows" {
		t.Errorf("retrain without rows: %d %s", code, text)
	}
	other, first := s.learn()
	if code, text := s.do("POST", p+"/retrain", `{"live":"`+first+`"}`, &e); code != 409 || e.Code != "conflict" ||
		!strings.Contains(e.Error, other) {
		t.Errorf("retrain for another live version: %d %s", code, text)
	}
	type shown struct {
		Version string
		Outputs [][]float32
	}
	var points struct {
		Rows     int
		Classes  []struct{ Name string }
		Class    []int
		Live     shown
		Previous shown
	}
	s.do("GET", p+"/points?limit=100", "", &points)
	if len(points.Class) != 100 || len(points.Classes) != 2 || points.Rows < 400 || points.Live.Version != other ||
		points.Previous.Version != first || len(points.Live.Outputs[0]) != 100 || len(points.Previous.Outputs[0]) != 100 {
		t.Errorf("points %+v", points)
	}
	r := sure(http.NewRequest("GET", "http://"+s.addr.String()+p+"/points?limit=100", nil))
	r.Header.Set("Accept", "application/vnd.apache.arrow.stream")
	answer := sure(http.DefaultClient.Do(r))
	defer answer.Body.Close()
	table := sure(ipc.NewReader(answer.Body))
	if !table.Next() || table.Record().NumRows() != 100 || table.Schema().Field(0).Name != "class" {
		t.Errorf("points as Arrow: %v", table.Schema())
	}

	// The live version is rolled back.
	var chosen struct {
		Live, Previous string
		Pinned         bool
	}
	if code, text := s.do("POST", p+"/rollback", `{"live":"`+first+`"}`, &e); code != 409 || e.Code != "conflict" ||
		!strings.Contains(e.Error, other) {
		t.Errorf("rollback for another live version: %d %s", code, text)
	}
	if code, text := s.do("POST", p+"/rollback", `{"live":"`+other+`"}`, &chosen); code != 200 || chosen.Live != first {
		t.Errorf("rollback: %d %s", code, text)
	}
	if code, text := s.do("POST", p+"/pin", `{"version":"p-9-00000000"}`, &e); code != 404 ||
		!strings.Contains(text, first) {
		t.Errorf("pin of a version that does not exist: %d %s", code, text)
	}
	if code, text := s.do("POST", p+"/pin", `{}`, &chosen); code != 200 || !chosen.Pinned {
		t.Errorf("pin: %d %s", code, text)
	}
	if code, text := s.do("POST", p+"/rollback", ``, &e); code != 409 || e.Code != "pinned" {
		t.Errorf("rollback while pinned: %d %s", code, text)
	}
	s.do("POST", p+"/unpin", `{}`, &chosen)

	// Two operators roll back at once: one wins, and each change is recorded once.
	const rounds = 100
	live := first
	type turn struct{ Time, By string }
	rollbacks := map[turn]string{}
	for range rounds {
		next := map[string]string{first: other, other: first}[live]
		codes := [2]int{}
		var wg sync.WaitGroup
		for i := range codes {
			wg.Go(func() {
				codes[i], _ = s.do("POST", p+"/rollback", `{"version":"`+next+`","live":"`+live+`"}`, nil)
			})
		}
		wg.Wait()
		if codes[0]+codes[1] != 200+409 {
			t.Fatalf("two operators at once: %v", codes)
		}
		live = next
		var m models
		s.do("GET", p+"/models", "", &m)
		newest := m.Turns[len(m.Turns)-1]
		if newest.What != "rollback" || newest.Live != live || !strings.Contains(newest.By, "HTTP from 127.0.0.1") {
			t.Fatalf("a rollback is recorded as %+v", newest)
		}
		rollbacks[turn{newest.Time, newest.By}] = live
		if n := len(m.Turns); n > 1 && m.Turns[n-2].Live == live {
			t.Fatalf("a rollback is recorded twice: %+v", m.Turns[n-2:])
		}
	}
	if len(rollbacks) != rounds {
		t.Errorf("%d rollbacks are recorded of %d", len(rollbacks), rounds)
	}

	// Outputs name the version that was chosen.
	s.send(1)
	natstest.Await(t, "outputs of the chosen version", func() bool {
		out, err := sure(s.server.JS.Stream(t.Context(), "in")).GetLastMsgForSubject(t.Context(), "out.x")
		if err == nil && out.Header.Get(wire.HeaderModel) == live {
			return true
		}
		s.send(1)
		return false
	})

	// What operators request is kept with the models.
	var resumed struct {
		Replicas []struct{ Instance string }
		Silent   []string
	}
	if code, text := s.do("POST", p+"/resume", "", &resumed); code != 200 || len(resumed.Replicas) != 1 ||
		len(resumed.Silent) != 0 {
		t.Errorf("resume: %d %s", code, text)
	}
	s.do("POST", p+"/retrain", "", nil)
	var m models
	s.do("GET", p+"/models", "", &m)
	if last := m.Turns[len(m.Turns)-1]; last.What != "retrain" && m.Turns[len(m.Turns)-2].What != "retrain" {
		t.Errorf("a request to fit is recorded as %+v", last)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	s.engine.Do(gone, "p", "retrain", stream.Request{By: "who left"})
	s.do("GET", p+"/models", "", &m)
	if !strings.Contains(fmt.Sprint(m.Turns), "who left") {
		t.Errorf("a request to fit whose client has left is not in %+v", m.Turns[len(m.Turns)-2:])
	}

	// A damaged version is refused, and the others are named.
	objects := sure(s.server.JS.ObjectStore(t.Context(), registry.Bucket))
	damaged := map[string]string{first: other, other: first}[live]
	info := sure(objects.GetInfo(t.Context(), damaged))
	if err := sure(s.server.JS.Stream(t.Context(), "OBJ_"+registry.Bucket)).Purge(t.Context(),
		jetstream.WithPurgeSubject("$O."+registry.Bucket+".C."+info.NUID)); err != nil {
		t.Fatal(err)
	}
	if code, text := s.do("POST", p+"/rollback", `{"version":"`+damaged+`"}`, &e); code != 409 ||
		e.Code != "damaged" || !strings.Contains(e.Error, live) {
		t.Errorf("rollback to a damaged version: %d %s", code, text)
	}

	// Dead letters are listed without their bodies, and replayed.
	bad := nats.NewMsg("in.x")
	bad.Data = []byte("secret body")
	s.server.Publish(bad)
	var letters struct {
		Dead_letters []struct {
			Number uint64
			Code   string
		}
	}
	natstest.Await(t, "a dead letter", func() bool {
		_, text := s.do("GET", p+"/dead-letters", "", &letters)
		return len(letters.Dead_letters) == 1 && !strings.Contains(text, "secret body")
	})
	var replayed struct{ Replayed []struct{ As, Error string } }
	number := letters.Dead_letters[0].Number
	answer2 := sure(s.server.Connect().Request("embedd.p.dlq.ls", nil, natstest.Timeout))
	if _, text := s.do("GET", p+"/dead-letters", "", nil); string(answer2.Data)+"\n" != text {
		t.Errorf("dead letters over NATS are %s, over HTTP %s", answer2.Data, text)
	}
	body := fmt.Sprintf(`{"numbers":[%d,%d]}`, number, number+1000)
	if code, text := s.do("POST", p+"/dead-letters/replay", body, &replayed); code != 200 ||
		len(replayed.Replayed) != 2 || replayed.Replayed[0].As == "" || replayed.Replayed[1].Error == "" {
		t.Errorf("replay: %d %s", code, text)
	}

	var pages sync.WaitGroup
	for range 17 { // more than a stream has consumers for readers
		pages.Go(func() {
			if code, text := s.do("GET", p+"/dead-letters", "", nil); code != 200 {
				t.Errorf("many pages list dead letters: %d %s", code, text)
			}
		})
	}
	pages.Wait()

	// One of another pipeline with the same subject of dead letters is neither listed nor replayed.
	others := nats.NewMsg("dead.p")
	others.Header = nats.Header{wire.HeaderCode: {"not_arrow"}, wire.HeaderPart: {"1/1"}, wire.HeaderSubject: {"in.x"},
		wire.HeaderSource: {"in:1"}, wire.HeaderPipeline: {"q"}}
	s.server.Publish(others)
	js := s.server.JS
	last := sure(sure(js.Stream(t.Context(), "dead")).GetLastMsgForSubject(t.Context(), "dead.p"))
	_, listed := s.do("GET", p+"/dead-letters", "", nil)
	body = fmt.Sprintf(`{"numbers":[%d]}`, last.Sequence)
	if code, text := s.do("POST", p+"/dead-letters/replay", body, &replayed); code != 200 ||
		strings.Contains(listed, fmt.Sprintf(`"number":%d,`, last.Sequence)) ||
		!strings.Contains(text, "no such dead letter") {
		t.Errorf("a dead letter of another pipeline: %s, %d %s", listed, code, text)
	}

	// A dead letter that someone else published is not replayed to the output, where only the daemon may publish.
	forged := nats.NewMsg("dead.p")
	forged.Header = nats.Header{wire.HeaderCode: {"not_arrow"}, wire.HeaderPart: {"1/1"}, wire.HeaderSubject: {"out.x"},
		wire.HeaderSource: {"in:1"}}
	s.server.Publish(forged)
	last = sure(sure(js.Stream(t.Context(), "dead")).GetLastMsgForSubject(t.Context(), "dead.p"))
	body = fmt.Sprintf(`{"numbers":[%d]}`, last.Sequence)
	if code, text := s.do("POST", p+"/dead-letters/replay", body, &replayed); code != 200 ||
		!strings.Contains(replayed.Replayed[0].Error, `"out.x" is no input`) {
		t.Errorf("a forged dead letter: %d %s", code, text)
	}

	// Messages are transformed, within the limits.
	rows := string(message(s.rand, 3))
	code, text := s.do("POST", p+"/transform", rows, nil)
	s.transformMany(p+"/transform", rows, text)
	if code != 200 || sure(ipc.NewReader(strings.NewReader(text))).Schema().Field(1).Name != "embedding" {
		t.Errorf("transform: %d %.100q", code, text)
	}
	for body, want := range map[string]string{"no Arrow": "422 not_arrow", "": "422 not_arrow",
		strings.Repeat("x", 9<<20): "422 not_arrow"} {
		if code, _ := s.do("POST", p+"/transform", body, &e); fmt.Sprint(code, " ", e.Code) != want {
			t.Errorf("transform of %.10q: %d %+v", body, code, e)
		}
	}
	s.transformFormats(p+"/transform", rows)
	natstest.Await(t, "a step of the history", func() bool {
		var h struct{ Time []int64 }
		s.do("GET", p+"/history", "", &h)
		return len(h.Time) > 0
	})
}

// transformFormats sends the first row of a message in each format, and asks for it in each: all answers in JSON have
// the same numbers.
func (s *served) transformFormats(path, rows string) {
	s.t.Helper()
	arrow, csv := wire.ContentType, "text/csv; charset=utf-8"
	r := sure(ipc.NewReader(strings.NewReader(rows)))
	r.Next()
	x := r.Record().Column(0).(*array.FixedSizeList).ListValues().(*array.Float32)
	a, b := float64(x.Value(0)), float64(x.Value(1)) // all their digits
	object, lines := fmt.Sprintf(`{"x":[%v,%v]}`, a, b), fmt.Sprintf("x[0],x[1]\n%v,%v\n", a, b)
	json := func() (text string) {
		_, text = s.do("POST", path, object, nil, "Content-Type", "application/json")
		return text[1 : len(text)-1]
	}
	for _, c := range []struct{ body, content, accept, code, has string }{
		{object, "application/json", "*/*", "200", `{"embedding":[`},
		{object + "\n", "application/x-ndjson", "", "200", `{"embedding":[`},
		{lines, csv, "", "200", "embedding_0,embedding_1\n"},
		{lines, csv, "application/xml, application/json;q=0.5", "200", "JSON"},
		{lines, csv, arrow, "200", "ARROW"},
		{object, "application/json", arrow, "200", "ARROW"},
		{rows, "", "text/*", "200", ",embedding_0,embedding_1\n"},
		{rows, arrow, "application/json", "200", "JSON"},
		{rows, "application/x-www-form-urlencoded", "*/*", "200", "ARROW"},
		{lines, "application/json", "", "422", "not_json"},
		{object, "", "", "422", "over HTTP the header Content-Type names the format"},
		{`{"y":1}`, "application/json", "", "422", "missing_column"},
		{lines, "text/plain", "", "415", "unsupported_media_type"},
		{rows, "application/json, text/csv", "", "415", "unsupported_media_type"}, // no media type
		{lines, csv, "image/png", "406", "not_acceptable"},
	} {
		var code int
		var text string
		natstest.Await(s.t, "one model answers", func() bool { // another may go live
			before := json()
			code, text = s.do("POST", path, c.body, nil, "Content-Type", c.content, "Accept", c.accept)
			if after := json(); after != before {
				return false
			}
			if c.has == "JSON" {
				c.has = before
			}
			return true
		})
		if c.has == "ARROW" {
			if answer, err := ipc.NewReader(strings.NewReader(text)); err == nil && answer.Next() {
				text += c.has
			}
		}
		if fmt.Sprint(code) != c.code || !strings.Contains(text, c.has) {
			s.t.Errorf("%.40q as %s, for %s: %d %.200q, want %s %q", c.body, c.content, c.accept, code, text, c.code, c.has)
		}
	}
	long := io.MultiReader(strings.NewReader("x[0],x[1]\n"), strings.NewReader(strings.Repeat("1,2\n", 50_000)))
	answer := sure(http.Post("http://"+s.addr.String()+path, csv, struct{ io.Reader }{long})) // in chunks: a stream
	defer answer.Body.Close()
	if text := string(sure(io.ReadAll(answer.Body))); strings.Count(text, "\n") != 50_001 ||
		strings.Count(text, "embedding_0") != 1 {
		s.t.Errorf("a stream of CSV: %d, %d bytes, %.100q", answer.StatusCode, len(text), text)
	}
}

// transformMany sends a message in 32 requests at a time, one of which sends the second half after the others have
// their answers. All have the same bytes.
func (s *served) transformMany(path, rows, want string) {
	s.t.Helper()
	slow, rest := io.Pipe()
	var others, all sync.WaitGroup
	post := func(body io.Reader) {
		answer, err := http.Post("http://"+s.addr.String()+path, wire.ContentType, body)
		if err != nil {
			s.t.Error(err)
			return
		}
		defer answer.Body.Close()
		if got, err := io.ReadAll(answer.Body); err != nil || string(got) != want {
			s.t.Errorf("an answer of %d bytes differs from one of %d: %v", len(got), len(want), err)
		}
	}
	all.Go(func() { post(slow) })
	for range 31 {
		others.Go(func() { post(strings.NewReader(rows)) })
	}
	sure(io.WriteString(rest, rows[:len(rows)/2]))
	others.Wait()
	sure(io.WriteString(rest, rows[len(rows)/2:]))
	rest.Close()
	all.Wait()
}

// streamed is a request whose body is a stream that is still being sent.
type streamed struct {
	t      *testing.T
	in     *io.PipeWriter
	answer *http.Response
	rows   *ipc.Reader
}

// stream begins a request with one batch.
func (s *served) stream(batch []byte) *streamed {
	s.t.Helper()
	body, in := io.Pipe()
	one := &streamed{t: s.t, in: in}
	go in.Write(batch[:len(batch)-8]) // without the end of the stream
	one.answer = sure(http.Post("http://"+s.addr.String()+"/api/v1/pipelines/p/transform", wire.ContentType, body))
	s.t.Cleanup(func() { in.Close(); one.answer.Body.Close() })
	return one
}

// next reads a batch of the answer.
func (s *streamed) next() string {
	s.t.Helper()
	if s.rows == nil {
		s.rows = sure(ipc.NewReader(s.answer.Body))
	}
	if !s.rows.Next() {
		s.t.Fatalf("the answer ends: %v", s.rows.Err())
	}
	return fmt.Sprint(s.rows.Record().Columns())
}

// TestTransformStream: each batch of a stream is answered before the next one is sent. The model of the first batch
// answers all of them, with the same bits as for single messages. Open streams do not block other requests, and a bad
// batch cuts the answer off.
func TestTransformStream(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/pipelines/p/transform"
	s := serveAPI(t, config.HTTP{})
	live, previous := s.learn()
	first, second := message(s.rand, 3), message(s.rand, 5)
	head := bytes.Index(first[8:], []byte{255, 255, 255, 255}) + 8 // the schema
	rows := func(text string) string {
		r := sure(ipc.NewReader(strings.NewReader(text)))
		r.Next()
		return fmt.Sprint(r.Record().Columns())
	}
	var want []string
	for _, one := range [][]byte{first, second} {
		_, text := s.do("POST", path, string(one), nil)
		want = append(want, rows(text))
	}
	one := s.stream(first)
	if got := one.next(); got != want[0] || one.answer.Header.Get(wire.HeaderModel) != live {
		t.Errorf("%s of %v, want %s", got, one.answer.Header, want[0])
	}
	for range 17 {
		waits := s.stream(first)
		if got := waits.next(); got != want[0] {
			t.Error(got)
		}
		sure(waits.in.Write(first[len(first)-8:])) // the end of the stream, but not of the body
	}
	if code, text := s.do("POST", "/api/v1/pipelines/p/rollback", "", nil); code != 200 {
		t.Fatal(text)
	}
	natstest.Await(t, "the rollback", func() bool {
		_, text := s.do("POST", path, string(second), nil)
		return rows(text) != want[1] && strings.Contains(text, previous)
	})
	sure(one.in.Write(second[head:]))
	one.in.Close()
	if got := one.next(); got != want[1] || one.rows.Next() || one.rows.Err() != nil {
		t.Errorf("the second batch after a rollback: %s, want %s, %v", got, want[1], one.rows.Err())
	}
	for name, rest := range map[string][]byte{"cut off": second[head : len(second)-20], "no frame": []byte("junkjunk"),
		"too large": {255, 255, 255, 255, 0, 0, 0, 2}} {
		bad := s.stream(first)
		bad.next()
		sure(bad.in.Write(rest))
		bad.in.Close()
		if _, err := io.ReadAll(bad.answer.Body); err == nil {
			t.Errorf("%s: the answer ends as if it were complete", name)
		}
	}
	if s.logged.n.Load() < 3 {
		t.Error("the log does not say why answers were cut off")
	}
	if code, text := s.do("POST", path, "junk"+strings.Repeat(" ", 9<<20), nil); code != 422 {
		t.Errorf("a stream of junk: %d %.200s", code, text)
	}
}

// TestTransformStreamStale: batches of a stream that a stale model answers have the mark of the first, though the age
// of the model changes: a stream has one schema.
func TestTransformStreamStale(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, config.HTTP{}, func(p *stream.Pipeline) { p.MaxAge, p.WhenStale = time.Second, stream.StaleServe })
	s.learn()
	batch := message(s.rand, 3)
	age := func() string {
		r := sure(http.Post("http://"+s.addr.String()+"/api/v1/pipelines/p/transform", wire.ContentType,
			bytes.NewReader(batch)))
		defer r.Body.Close()
		return r.Header.Get(wire.HeaderStale)
	}
	natstest.Await(t, "a stale model", func() bool { return age() != "" })
	one := s.stream(batch)
	want, mark := one.next(), one.answer.Header.Get(wire.HeaderStale)
	natstest.Await(t, "an older model", func() bool { return age() > mark })
	sure(one.in.Write(batch[bytes.Index(batch[8:], []byte{255, 255, 255, 255})+8:])) // without the schema
	one.in.Close()
	if got := one.next(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTransformHTTP10: a stream over HTTP/1.0 is refused, because its client could not tell an answer that is cut off.
func TestTransformHTTP10(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, config.HTTP{})
	c := sure(net.Dial("tcp", s.addr.String()))
	defer c.Close()
	go fmt.Fprintf(c, "POST /api/v1/pipelines/p/transform HTTP/1.0\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", s.addr,
		9<<20, strings.Repeat("x", 9<<20))
	if r := sure(http.ReadResponse(bufio.NewReader(c), nil)); r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", r.StatusCode)
	}
}

// TestOpenStreams: a stream beyond the limit is refused, and one that ends makes room. It is not parallel, because the
// limit is that of the process.
func TestOpenStreams(t *testing.T) {
	s := serveAPI(t, config.HTTP{})
	isRefused := func() (net.Conn, bool) {
		c := sure(net.Dial("tcp", s.addr.String()))
		t.Cleanup(func() { c.Close() })
		sure(fmt.Fprintf(c, "POST /api/v1/pipelines/p/transform HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n",
			s.addr))
		if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil) // an open stream has no answer yet
		return c, err == nil && r.StatusCode == http.StatusServiceUnavailable
	}
	first, _ := isRefused()
	natstest.Await(t, "a stream is refused", func() bool { _, refused := isRefused(); return refused })
	first.Close()
	natstest.Await(t, "a stream is open", func() bool { _, refused := isRefused(); return !refused })
}

// TestReplayTakesLonger: a request to replay many dead letters is answered although it takes longer than other answers
// may.
func TestReplayTakesLonger(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, config.HTTP{})
	current := s.monitor.config
	web := httptest.NewUnstartedServer(monitorHandler(prometheus.NewRegistry(), probes{}, s.console, current, nil))
	web.Config.WriteTimeout = time.Millisecond
	web.Start()
	defer web.Close()
	answer, err := http.Post(web.URL+"/api/v1/pipelines/p/dead-letters/replay", "application/json",
		strings.NewReader(`{"numbers":[90,91,92,93,94,95,96,97,98,99]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var replayed struct{ Replayed []struct{ As string } }
	if err := json.NewDecoder(answer.Body).Decode(&replayed); err != nil || len(replayed.Replayed) != 10 {
		t.Errorf("%d are in the answer: %v", len(replayed.Replayed), err)
	}
}

// TestHostileRequests is what a raw client tries.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, config.HTTP{})
	const p = "/api/v1/pipelines/p"
	for _, c := range []struct {
		method, path, body string
		headers            []string
		code               int
	}{
		{"POST", p + "/rollback", "{}", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"POST", p + "/rollback", "{}", []string{"Origin", "https://evil.example"}, 403},
		{"POST", p + "/rollback", "{}", []string{"Host", "evil.example"}, 421},
		{"GET", "/", "", []string{"Host", "evil.example"}, 421},
		{"GET", "/api/v1/events", "", []string{"Host", "evil.example"}, 421},
		{"GET", p + "/rollback", "", nil, 405},
		{"GET", p + "/retrain", "", nil, 405},
		{"DELETE", p, "", nil, 405},
		{"POST", p + "/rollback", "live=x", []string{"Content-Type", "application/x-www-form-urlencoded"}, 400},
		{"POST", p + "/rollback", "{", nil, 400},
		{"POST", p + "/rollback", `{"version":7}`, nil, 400},
		{"POST", p + "/rollback", `{"vesion":"p-1-00000000"}`, nil, 400},
		{"POST", p + "/rollback", `{"version":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 400},
		{"POST", p + "/rollback", `{"version":"../../p-1-00000000"}`, nil, 404},
		{"POST", p + "/dead-letters/replay", `{"numbers":[]}`, nil, 400},
		{"POST", "/api/v1/pipelines/..%2Fx/pin", "{}", nil, 404},
		{"GET", "/api/v1/nothing", "", nil, 404},
		{"GET", "/../../etc/passwd", "", nil, 404},
		{"GET", "/", "", nil, 200},
	} {
		code, text := s.do(c.method, c.path, c.body, nil, c.headers...)
		if code != c.code {
			t.Errorf("%s %s %.60q %v: %d %.200s, want %d", c.method, c.path, c.body, c.headers, code, text, c.code)
		}
		var refusal struct{ Code, Error string }
		if err := json.Unmarshal([]byte(text), &refusal); strings.HasPrefix(c.path, "/api/") && (err != nil ||
			refusal.Code == "" || refusal.Error == "") {
			t.Errorf("%s %s: the answer %.200s has no code or no error", c.method, c.path, text)
		}
	}
}

// TestResumeOfNoPipeline: a process that is starting says so, and one without the pipeline asks no other process.
func TestResumeOfNoPipeline(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/pipelines/q/resume"
	current := &atomic.Pointer[config.HTTP]{}
	current.Store(&config.HTTP{Listen: "127.0.0.1:0"})
	r, w := httptest.NewRequest("POST", path, nil), httptest.NewRecorder()
	r.Host = "127.0.0.1"
	monitorHandler(prometheus.NewRegistry(), probes{}, idle(), current, nil).ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("starting: %d %s", w.Code, w.Body)
	}
	s := serveAPI(t, config.HTTP{})
	other := s.server.Connect()
	asked := sure(other.SubscribeSync(stream.ServiceSubject("q", "resume")))
	s.server.AwaitSubscriber(stream.ServiceSubject("q", "resume"))
	code, text := s.do("POST", path, "", nil)
	if err := other.FlushTimeout(natstest.Timeout); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := asked.Pending(); code != http.StatusNotFound || n > 0 {
		t.Errorf("%d %s, and others got %d requests", code, text, n)
	}
}

// TestResumeReportsTheSilent: of the replicas that do not answer a request to resume the answer has the identities,
// also of one that is slow to answer a ping.
func TestResumeReportsTheSilent(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, config.HTTP{})
	nc := s.server.Connect()
	sure(nc.Subscribe("$SRV.PING", func(m *nats.Msg) {
		time.Sleep(time.Second)
		_ = m.Respond([]byte(`{"name":"` + stream.ServiceName("p") + `","id":"mute","metadata":{"` +
			stream.ServicePipeline + `":"p"}}`))
	}))
	natstest.Await(t, "the silent one is reported", func() bool { // however late the other answers to the ping
		var resumed struct {
			Replicas []struct{ Pipeline string }
			Silent   []string
		}
		code, _ := s.do("POST", "/api/v1/pipelines/p/resume", "", &resumed)
		return code == 200 && len(resumed.Replicas) == 1 && slices.Equal(resumed.Silent, []string{"mute"})
	})
}

// TestResumeOutlivesAnError: a replica that answers with an error, such as one that is stopping, does not hide that the
// others resumed.
func TestResumeOutlivesAnError(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, config.HTTP{})
	nc := s.server.Connect()
	stopping := sure(micro.AddService(nc, micro.Config{Name: stream.ServiceName("p"), Version: "1.0.0",
		Metadata: map[string]string{stream.ServicePipeline: "p"}}))
	t.Cleanup(func() { stopping.Stop() })
	refuse := micro.HandlerFunc(func(r micro.Request) { r.Error("stopping", "the engine is stopping", nil) })
	if err := stopping.AddEndpoint("resume", refuse, micro.WithEndpointSubject(stream.ServiceSubject("p", "resume")),
		micro.WithEndpointQueueGroupDisabled()); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "one reports, and the other's error is known", func() bool { // however late both answer a ping
		reports, silent, err := client.AskAll(t.Context(), nc, "p", "resume", stream.Request{})
		return len(reports) == 1 && slices.Equal(silent, []string{stopping.Info().ID}) &&
			err != nil && strings.Contains(err.Error(), "the engine is stopping")
	})
	natstest.Await(t, "the answer has both", func() bool {
		var resumed struct{ Replicas, Silent []any }
		code, _ := s.do("POST", "/api/v1/pipelines/p/resume", "", &resumed)
		return code == 200 && len(resumed.Replicas) == 1 && len(resumed.Silent) == 1
	})
}

// TestManyReaders: event streams beyond http.clients are refused, and a client that does not read is disconnected and
// counted.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	const clients = 32
	s := serveAPI(t, config.HTTP{Clients: clients})
	open := func() (net.Conn, string) {
		c := sure(net.Dial("tcp", s.addr.String()))
		t.Cleanup(func() { c.Close() })
		sure(io.WriteString(c, "GET /api/v1/events?pipeline=p HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
		line, _ := bufio.NewReaderSize(c, 16).ReadString('\n')
		return c, line
	}
	stalled, _ := open()
	stalled.(*net.TCPConn).SetReadBuffer(1)
	natstest.Await(t, "the client is disconnected", func() bool {
		for range 100 { // more than the buffers take
			s.console.Observe(s.engine.Status())
			time.Sleep(100 * time.Microsecond)
		}
		connected, dropped := s.console.Clients()
		return connected == 0 && dropped == 1
	})
	served := 0
	for range 200 {
		switch _, line := open(); {
		case strings.Contains(line, " 200 "):
			served++
		case !strings.Contains(line, " 503 "):
			t.Fatalf("the answer is %q", line)
		}
	}
	if served != clients {
		t.Errorf("%d clients are served, want %d", served, clients)
	}
}

// TestSlowClients: clients that stall in the middle of a message, of a stream or of an answer hold up no other. It runs
// alone, because the limits are those of the process.
func TestSlowClients(t *testing.T) {
	const streams, path = 24, "/api/v1/pipelines/p/transform"
	s := serveAPI(t, config.HTTP{Clients: 3 * streams})
	s.learn()
	rows := string(message(s.rand, 100))
	_, want := s.do("POST", path, rows, nil)
	begin := func(header, body string) net.Conn {
		c := sure(net.Dial("tcp", s.addr.String()))
		t.Cleanup(func() { c.Close() })
		sure(fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n%s", path, s.addr, header, body))
		return c
	}
	chunk := func(data string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(data), data) }
	const chunked = "Transfer-Encoding: chunked"
	for range streams {
		begin(fmt.Sprint("Content-Length: ", len(rows)), rows[:len(rows)/2])
	}
	for range streams / 2 {
		begin(chunked, chunk(rows[:len(rows)/2]))
		c := begin(chunked, chunk(rows[:len(rows)-8])) // without the end of the stream
		batch := chunk(rows[strings.Index(rows[8:], "\xff\xff\xff\xff")+8 : len(rows)-8])
		go func() { // sends batches and reads no answer
			for err := error(nil); err == nil; {
				_, err = io.WriteString(c, batch)
			}
		}()
	}
	natstest.Await(t, "all clients have stalled", func() bool {
		var reads, writes int
		stacks := make([]byte, 1<<22)
		for one := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			switch {
			case !strings.Contains(one, "console.(*transform)."):
			case strings.Contains(one, "poll.(*FD).Write"):
				writes++
			case strings.Contains(one, "poll.(*FD).Read"):
				reads++
			}
		}
		return reads == streams+streams/2 && writes == streams/2
	})
	if code, got := s.do("POST", path, rows, nil); code != 200 || got != want {
		t.Errorf("while clients stall, a message is answered with %d, %d bytes of %d", code, len(got), len(want))
	}
	c := begin(chunked, chunk(rows))
	if line := sure(bufio.NewReader(c).ReadString('\n')); !strings.Contains(line, " 503 ") {
		t.Errorf("a stream more than the limit: %q", line)
	}
}

// TestCredentials: with a token and users nothing is read without one of them, and wrong ones are answered later and
// later. A browser gets a session.
func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := writeFile(t, dir, "token", "hunter2\n")
	hash := sure(bcrypt.GenerateFromPassword([]byte("swordfish"), bcrypt.MinCost))
	users := writeFile(t, dir, "users.yaml", fmt.Sprintf("basic_auth_users:\n  alice: %s\n", hash))
	s := serveAPI(t, config.HTTP{TokenFile: token, UsersFile: users})
	const p = "/api/v1/pipelines"
	basic := func(user, password string) string {
		r := sure(http.NewRequest("GET", "http://x", nil))
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	for authorization, want := range map[string]int{"": 401, "Bearer hunter2": 200, basic("alice", "swordfish"): 200,
		"Bearer hunter3": 401, basic("alice", "x"): 401, basic("bob", "swordfish"): 401, "Bearer " + string(hash): 401,
		"Bearer": 401} {
		if code, _ := s.do("GET", p, "", nil, "Authorization", authorization); code != want {
			t.Errorf("%q: %d, want %d", authorization, code, want)
		}
	}
	took := make([]time.Duration, 10)
	var wg sync.WaitGroup
	for i := range took {
		wg.Go(func() {
			began := time.Now()
			if code, _ := s.do("GET", p, "", nil, "Authorization", "Bearer wrong"); code != 401 {
				t.Errorf("a wrong token: %d", code)
			}
			took[i] = time.Since(began)
		})
	}
	wg.Wait()
	if slices.Max(took) < 5*time.Second {
		t.Errorf("the last of ten wrong tokens is answered after %v", slices.Max(took))
	}
	if code, text := s.do("GET", "/", "", nil); code != 200 || strings.Contains(text, "hunter2") {
		t.Errorf("the page, which asks for the token: %d", code)
	}
	r := sure(http.NewRequest("POST", "http://"+s.addr.String()+"/api/v1/session", nil))
	r.Header.Set("Authorization", basic("alice", "swordfish"))
	answer := sure(http.DefaultClient.Do(r))
	answer.Body.Close()
	if len(answer.Cookies()) != 1 {
		t.Fatalf("a session has the cookies %v", answer.Cookies())
	}
	cookie := answer.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "" {
		t.Errorf("cookie %+v", cookie)
	}
	session := cookie.Name + "=" + cookie.Value
	var who struct {
		User            string
		Reads, Operates bool
	}
	if s.do("GET", "/api/v1/session", "", &who, "Cookie", session); who.User != "alice" || !who.Operates {
		t.Errorf("the session is %+v", who)
	}
	if code, _ := s.do("GET", p, "", nil, "Cookie", session); code != 200 {
		t.Errorf("with a session: %d", code)
	}
	if code, _ := s.do("GET", p, "", nil, "Cookie", cookie.Name+"=AAAAAAAAAAAAAAAAAAAAAAAAAA"); code != 401 {
		t.Errorf("with a session that does not exist: %d", code)
	}
	writeFile(t, dir, "token", "rotated") // ends sessions
	if code, _ := s.do("GET", p, "", nil, "Cookie", session); code != 401 {
		t.Errorf("with a session of old credentials: %d", code)
	}
}

// TestWrongCredentialsAreDelayed: no answer tells quickly whether credentials are right. Probes answer at once, and for
// a time do not look at the credentials of an address that had wrong ones.
func TestWrongCredentialsAreDelayed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := writeFile(t, dir, "token", "hunter2\n")
	for _, path := range []string{"/api/v1/session", "/api/v1/pipelines", "/metrics", "/", "/readyz", "/healthz"} {
		h := config.HTTP{TokenFile: token}
		current := &atomic.Pointer[config.HTTP]{}
		current.Store(&h)
		handler := monitorHandler(prometheus.NewRegistry(), probes{func() []readiness { return []readiness{{Pipeline: "p"}} },
			func() string { return "trouble with p" }}, idle(), current, nil)
		host, isProbe := "127.0.0.1", strings.HasSuffix(path, "z")
		if path == "/" {
			host = "rebound.example" // its page is open, but not under this name
		}
		get := func(token string) (string, time.Duration) {
			r := httptest.NewRequest("GET", path, nil)
			r.Host = host
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			began := time.Now()
			handler.ServeHTTP(w, r)
			return w.Body.String(), time.Since(began)
		}
		if isProbe {
			natstest.Await(t, path+": a probe is answered at once", func() bool {
				_, took := get("hunter3")
				return took < 100*time.Millisecond
			})
			// The delay doubles with each that comes after the last delay, and so is longer than the time between two calls.
			natstest.Await(t, path+": right credentials are not recognised within the delay of wrong ones", func() bool {
				get("hunter3")
				text, _ := get("hunter2")
				return !strings.Contains(text, `p"`)
			})
			continue
		}
		for range 3 {
			if _, took := get("hunter3"); took < 100*time.Millisecond {
				t.Errorf("%s: wrong credentials are answered after %v", path, took)
			}
		}
	}
}

// TestBehindAPrefix: a proxy that strips a prefix needs no setting, and a session's cookie is sent to the API alone.
func TestBehindAPrefix(t *testing.T) {
	t.Parallel()
	token := writeFile(t, t.TempDir(), "token", "hunter2\n")
	s := serveAPI(t, config.HTTP{TokenFile: token})
	target := sure(url.Parse("http://" + s.addr.String()))
	proxy := httptest.NewServer(http.StripPrefix("/tools/embedd", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}))
	t.Cleanup(proxy.Close)
	jar := sure(cookiejar.New(nil))
	browser := &http.Client{Jar: jar}
	get := func(path string) int {
		answer := sure(browser.Get(proxy.URL + path))
		answer.Body.Close()
		return answer.StatusCode
	}
	if code := get("/tools/embedd/"); code != 200 {
		t.Errorf("the page: %d", code)
	}
	if code := get("/tools/embedd/api/v1/pipelines"); code != 401 {
		t.Errorf("without a session: %d", code)
	}
	r := sure(http.NewRequest("POST", proxy.URL+"/tools/embedd/api/v1/session", nil))
	r.Header.Set("Authorization", "Bearer hunter2")
	answer := sure(browser.Do(r))
	answer.Body.Close()
	if code := get("/tools/embedd/api/v1/pipelines"); code != 200 {
		t.Errorf("with a session: %d", code)
	}
	for path, want := range map[string]int{"/tools/embedd/api/v1/pipelines": 1, "/": 0, "/tools/other": 0} {
		if n := len(jar.Cookies(sure(url.Parse(proxy.URL + path)))); n != want {
			t.Errorf("%s gets %d cookies, want %d", path, n, want)
		}
	}
}

// TestOperationsAreClosed: without permission the API is read-only, and says why.
func TestOperationsAreClosed(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]config.HTTP{"http.operate": {Operate: "false"},
		"http.allow_insecure": {Listen: "0.0.0.0:0", AllowInsecure: true, Operate: "true"}} {
		s := serveAPI(t, h)
		_, port, _ := net.SplitHostPort(s.addr.String())
		s.addr = sure(net.ResolveTCPAddr("tcp", "127.0.0.1:"+port))
		if code, text := s.do("POST", "/api/v1/pipelines/p/retrain", "{}", nil); code != 403 ||
			!strings.Contains(text, name) {
			t.Errorf("%s: %d %s", name, code, text)
		}
		if code, _ := s.do("GET", "/api/v1/pipelines/p", "", nil); code != 200 {
			t.Errorf("%s: reading is %d", name, code)
		}
	}
}

// TestEvents: clients get the state and what happens, and what they have missed. Only so many are served, and a HEAD
// request is not one of them.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, config.HTTP{})
	connect := func(id string) (*bufio.Scanner, *http.Response) {
		r := sure(http.NewRequest("GET", "http://"+s.addr.String()+"/api/v1/events?pipeline=p", nil))
		r.Header.Set("Last-Event-ID", id)
		answer := sure(http.DefaultClient.Do(r))
		t.Cleanup(func() { answer.Body.Close() })
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		return lines, answer
	}
	until := func(lines *bufio.Scanner, prefix string) string {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				return lines.Text()
			}
		}
		t.Fatalf("the stream ends without %q: %v", prefix, lines.Err())
		return ""
	}
	s.console.Observe(s.engine.Status())
	lines, first := connect("")
	until(lines, `data: {"time"`)
	until(lines, "event: status")
	s.learn()
	s.console.Observe(s.engine.Status())
	id := strings.TrimPrefix(until(lines, "id: "), "id: ")
	until(lines, `data: {"time"`)
	lines, _ = connect(strings.Split(id, "-")[0] + "-0")
	if again := until(lines, "id: "); again != "id: "+id {
		t.Errorf("again from the start: %s, want %s", again, id)
	}
	lines, _ = connect("other-7")
	until(lines, "event: gap")
	if _, answer := connect(""); answer.StatusCode != 503 {
		t.Errorf("a client too many: %d", answer.StatusCode)
	}
	if answer := sure(http.Head("http://" + s.addr.String() + "/api/v1/events")); answer.StatusCode != 200 {
		t.Errorf("HEAD: %d", answer.StatusCode)
	}
	first.Body.Close()
	natstest.Await(t, "room for another client", func() bool {
		s.console.Observe(s.engine.Status())
		connected, _ := s.console.Clients()
		return connected == 2
	})
	if _, answer := connect(""); answer.StatusCode != 200 {
		t.Errorf("another client: %d", answer.StatusCode)
	}
}
