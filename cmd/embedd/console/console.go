// Package console is the HTTP API of a running daemon, and the page that uses it: it observes and operates pipelines,
// and authors nothing.
package console

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"

	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/stream"
)

// Options are what a console shows.
type Options struct {
	Engine  func() *stream.Engine   // nil until the pipelines are being opened
	Conn    func() *connection.Conn // nil until there is one
	Trouble func() string           // what is wrong with the connection, "" for nothing
	Version string
	Log     *slog.Logger // nil: nothing is logged
}

// Console is shared by the listeners of a process.
type Console struct {
	options Options
	feed    *feed
}

// New makes a console. Observe must be called about every second.
func New(o Options) *Console {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Console{o, newFeed()}
}

// policy lets the page load nothing but its own files, and no other page frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'"

// Protect adds the headers of every answer, and refuses requests that change something and come from another site.
func Protect(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Refuse(w, "cross_origin", "the request comes from a page of another site")
	}))
	inner := crossOrigin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		inner.ServeHTTP(w, r)
	})
}

//go:embed page
var files embed.FS

// Handler serves the page at / and the API at /api/v1/. Event streams end when done is closed.
func (c *Console) Handler(a *Access, done <-chan struct{}) http.Handler {
	mux := http.NewServeMux()
	s := &server{Console: c, access: a, done: done}
	for _, r := range routes {
		mux.HandleFunc(r.Method+" /api/v1/"+r.Path, s.serve(r))
	}
	mux.HandleFunc("/api/v1/", func(w http.ResponseWriter, r *http.Request) { noRoute(mux, w, r) })
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	static := http.FileServerFS(page)
	mux.HandleFunc("/{$}", static.ServeHTTP)
	mux.HandleFunc("GET /{file}", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".mjs") {
			w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		}
		w.Header().Set("Cache-Control", "no-cache")
		static.ServeHTTP(w, r)
	})
	return mux
}

// noRoute answers a request that no route is for.
func noRoute(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "POST", "DELETE"} {
		if _, pattern := mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != r.Pattern {
			allowed = append(allowed, method)
			if method == "GET" {
				allowed = append(allowed, "HEAD")
			}
		}
	}
	if allowed == nil {
		Refuse(w, "not_found", "the API has no such path")
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	Refuse(w, "method_not_allowed", "want "+strings.Join(allowed, " or "))
}

// Reply answers with JSON.
func Reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	data, err := json.Marshal(v)
	if err != nil {
		code, data = http.StatusInternalServerError, []byte(`{"code":"internal","error":"the answer cannot be encoded"}`)
	}
	w.WriteHeader(code)
	w.Write(append(data, '\n'))
}

// errNotOpen is the error of requests before the pipelines are open.
var errNotOpen = stream.WithCode("starting",
	errors.New("the pipelines are being opened; repeat the request in some seconds"))

// engine is the engine, unless the pipelines are not open yet.
func (c *Console) engine() (*stream.Engine, error) {
	e := c.options.Engine()
	if e == nil || e.Status() == nil {
		return nil, errNotOpen
	}
	return e, nil
}
