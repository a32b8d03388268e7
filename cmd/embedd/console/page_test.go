package console

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
)

var update = flag.Bool("update", false, "write docs/api.md")

// TestAPIPage compares docs/api.md with the table that registers the routes.
func TestAPIPage(t *testing.T) {
	const path = "../../../docs/api.md"
	want := apiPage()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the table of routes; run go test ./cmd/embedd/console -update", path)
	}
}

// TestPageIsSmall holds the page to its weight and, without the charts' library, to its length.
func TestPageIsSmall(t *testing.T) {
	const maxBytes, maxLines = 200_000, 1500
	entries, err := files.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	size, lines := 0, 0
	for _, e := range entries {
		data, err := files.ReadFile("page/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		size += len(data)
		if !strings.HasPrefix(e.Name(), "uPlot") {
			lines += bytes.Count(data, []byte("\n"))
		}
	}
	if size > maxBytes || lines > maxLines {
		t.Errorf("the page has %d bytes, of at most %d, and %d lines, of at most %d", size, maxBytes, lines, maxLines)
	}
}

func apiPage() []byte {
	var b strings.Builder
	b.WriteString(`# The HTTP API

<!-- Written from the table in cmd/embedd/console. After a change there: go test ./cmd/embedd/console -update -->

Reference of the HTTP API of a running daemon: for programs and pages that observe and operate its pipelines. The
console at ~/~ uses nothing else. [Requests over NATS](service.md) offer the same operations with the same answers.

Paths begin with ~/api/v1/~ at [http.listen](configuration.md#http). Bodies and answers are JSON unless stated.

| method | path | request | answer |
|---|---|---|---|
`)
	for _, r := range routes {
		request := r.Request
		if strings.HasPrefix(request, "{") {
			request = "~" + request + "~"
			if r.Method == "GET" { // the path has it
				request = ""
			}
		}
		about := r.About
		if r.operates() {
			about += " *(operates)*"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", r.Method, r.Path, request, about)
	}
	b.WriteString(`
~~~sh
curl http://127.0.0.1:8474/api/v1/pipelines
curl -H 'Authorization: Bearer TOKEN' https://embedd.example:8474/api/v1/pipelines/digits/models
curl -X POST -H 'Content-Type: application/json' -d '{"live":"digits-7-1a2b3c4d"}' \
  http://127.0.0.1:8474/api/v1/pipelines/digits/rollback
curl -N http://127.0.0.1:8474/api/v1/events?pipeline=digits
~~~

## Operations

Routes marked *operates* change something. They need ~http.operate~, which is on by default on loopback only, and beyond
loopback a token or users. ~live~ is the version that the operator saw as the live one: if another one is live, the
answer is 409 with the difference, and nothing changes. Each request is logged, and kept with the models (~turns~):
what, when, by whom and from where. ~resume~ reaches all replicas, and ~retrain~ the trainer. The daemon does what its
own NATS account may do. What it may not, for example publish to the input for a replay, is 403 ~denied~, or an error of
that dead letter, and names the permission.

## Transform

The header ~Content-Type~ names the format of the body, and ~Accept~ that of the answer, whatever the formats of the
pipeline are:

| format | media type |
|---|---|
`)
	for _, f := range wire.Formats {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", f, f.ContentType())
	}
	b.WriteString(`
A body without a type, or with one that clients send for any bytes (~application/octet-stream~,
~application/x-www-form-urlencoded~), has ~input.format~; another type is 415. Without ~Accept~ the answer has
~output.format~, or the format of the body if that is not ~input.format~; an ~Accept~ without a format of the table is
406. Features have the names of the pipeline's schema in each format.

A body of at most ~limits.message~ bytes with a ~Content-Length~ is one message. A longer one, or one that is sent in
chunks, is a stream if body and answer have the same format and it is not JSON: an Arrow IPC stream of many batches,
lines, or CSV. HTTP/1.0 has no streams, because its clients cannot tell an answer that is cut off. Each
batch, or the lines that have arrived (about 64 KiB), is answered before the next is read, all by the model that was
live at the first, which the headers name; the mark of a stale model is that of the first too. ~limits.message~ bounds a
batch, and 24 streams may be open; further ones are 503. A client has to read the answer while it sends, as curl does:
one that first sends all is cut off when the connection's buffers are full.

~~~sh
curl -T rows.arrows -X POST http://127.0.0.1:8474/api/v1/pipelines/digits/transform -o reduced.arrows
curl -H 'Content-Type: text/csv' -H 'Accept: application/json' --data-binary @rows.csv \
  http://127.0.0.1:8474/api/v1/pipelines/digits/transform
~~~

An error of the first batch is an answer as below. After that the connection is closed without the end of the answer, so
that a client sees that it is incomplete, and the log says why. A message or a batch has one minute to arrive and be
answered. As many are transformed at once as the process has cores; others wait. A client that stalls while it sends or
reads holds up no other. What has arrived of messages that are no stream, and their answers, may take as much memory as
sixteen messages of ~limits.message~; a message for which there is no room is 503.

## Access

Without ~http.token_file~ and ~http.users_file~ every client that reaches the listener may read. With them a request
needs ~Authorization: Bearer TOKEN~, HTTP Basic authentication, or the cookie of a session. An answer to wrong
credentials is delayed, longer each time. A request for a host name that is not in ~http.hosts~ is 421, unless it has
credentials. A request that changes something and comes from a page of another site is 403.

## Events

~events~ sends, in the format of server-sent events:

| event | data |
|---|---|
| ~state~ | once a second, the answer of ~pipelines~ |
| ~status~ | once a second, the status of the pipeline that ~?pipeline=~ names |
| ~event~, with an id | ~{"time","pipeline","kind","text"}~; kinds: ~state~, ~model~, ~fit~, ~drift~, ~dead_letters~ |
| ~gap~ | ~{"missed":12}~: events that the daemon no longer has; null if it has restarted |

A client gets the newest 256 events at first; one that connects again with ~Last-Event-ID~ those since then. Up to
~http.clients~ streams are open; further ones are 503. A client that does not read for ten seconds is disconnected, and
counted in ~embedd_console_disconnects_total~; the daemon does not wait for it.

## Errors

An error is ~{"code","error"}~. The codes are those of [requests over NATS](service.md#errors), of [messages](wire.md),
and ~unauthorized~ (401), ~not_allowed~, ~cross_origin~ (403), ~not_found~ (404), ~method_not_allowed~ (405),
~not_acceptable~ (406), ~unsupported_media_type~ (415), ~unknown_host~ (421), ~starting~, ~clients~ (503).
`)
	return []byte(strings.ReplaceAll(b.String(), "~", "`"))
}
