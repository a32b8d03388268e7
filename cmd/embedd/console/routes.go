package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/stream"
)

// route is one row of the table of the API. docs/api.md is generated from it.
type route struct {
	stream.Endpoint      // its path is below /api/v1/
	isOpen          bool // needs no credentials
	do              handler
}

// handler answers a request, unless its error is errHandled.
type handler func(*server, http.ResponseWriter, *request) (any, error)

// operates reports whether a route changes something of a pipeline: http.operate must allow it.
func (r *route) operates() bool { return r.Method == "POST" && !r.isOpen && !r.IsMessage }

// routes are all routes of the API: those of this process, and the endpoints of its pipelines.
var routes = func() []route {
	all := []route{
		{stream.Endpoint{Method: "GET", Path: "session", About: "who the request comes from, and what it may do: " +
			"`{\"user\",\"reads\",\"operates\",\"why_not\",\"version\"}`"}, true, (*server).session},
		{stream.Endpoint{Method: "POST", Path: "session", Request: "credentials in the header `Authorization`",
			About: "begins a session: the answer sets a cookie (`HttpOnly`, `SameSite=Strict`, `Secure` with TLS) which " +
				"replaces the credentials until the process ends or they change"}, true, (*server).logIn},
		{stream.Endpoint{Method: "DELETE", Path: "session", About: "ends the session"}, true, (*server).logOut},
		{stream.Endpoint{Method: "GET", Path: "events", Request: "`?pipeline=NAME`",
			About: "server-sent events, see below; with a name also its status once a second"}, false, (*server).events},
		{stream.Endpoint{Method: "GET", Path: "pipelines", About: "the pipelines of this process: " +
			"`{\"time\",\"connection\",\"pipelines\":[...]}`"}, false, (*server).pipelines},
		{stream.Endpoint{Method: "GET", Path: "pipelines/{pipeline}/replicas", About: "the status of each replica that " +
			"answers within a second: `{\"replicas\":[...]}`"}, false, (*server).replicas},
	}
	over := map[string]handler{"points": (*server).points, "resume": (*server).resume, "dlq replay": (*server).replay,
		"transform": (*server).transform}
	for _, e := range stream.Endpoints() {
		do, is := over[e.Name]
		if !is {
			do = ask(e.Name)
		}
		e.Path = strings.TrimSuffix("pipelines/{pipeline}/"+e.Path, "/")
		all = append(all, route{e, false, do})
	}
	return all
}()

// ask is a handler that does an operation of a pipeline.
func ask(endpoint string) handler {
	return func(s *server, _ http.ResponseWriter, r *request) (any, error) {
		version := r.body.Version
		if in := r.PathValue("version"); in != "" && in != "live" {
			version = in
		}
		return s.do(r, endpoint, stream.Request{Version: version, Live: r.body.Live, Numbers: r.body.Numbers, By: r.by()})
	}
}

// answerTimeout is how long the answer of a request to replay dead letters may take to be sent.
const answerTimeout = 10 * time.Second

// replay may take longer than other answers.
func (s *server) replay(w http.ResponseWriter, r *request) (any, error) {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stream.RequestTimeout +
		answerTimeout)); err != nil {
		return nil, err
	}
	return ask("dlq replay")(s, w, r)
}

func (s *server) do(r *request, endpoint string, q stream.Request) (any, error) {
	e, err := s.engine()
	if err != nil {
		return nil, err
	}
	return e.Do(r.Context(), r.pipeline(), endpoint, q)
}

// sessionState is the answer about a session.
type sessionState struct {
	User     string `json:"user"` // "" without credentials
	Reads    bool   `json:"reads"`
	Operates bool   `json:"operates"`
	WhyNot   string `json:"why_not,omitempty"` // it does not operate
	Version  string `json:"version,omitempty"` // of the daemon
}

func (s *server) session(_ http.ResponseWriter, r *request) (any, error) {
	user, ok := s.access.Identify(r.Request)
	if !ok {
		return sessionState{WhyNot: "log in with the token of http.token_file, or as a user of http.users_file"}, nil
	}
	return s.sessionOf(user), nil
}

// sessionOf is the answer about a session that may read.
func (s *server) sessionOf(user string) sessionState {
	why := s.access.mayNotOperate()
	return sessionState{User: user, Reads: true, Operates: why == "", WhyNot: why, Version: s.options.Version}
}

func (s *server) logIn(w http.ResponseWriter, r *request) (any, error) {
	user, ok := "", s.access.IsOpen()
	if !ok {
		if user, ok = s.access.authenticate(r.Request); !ok {
			s.access.delay(r.Request)
			s.access.Refuse(w, r.Request)
			return nil, errHandled
		}
		s.access.forget(r.Request)
		s.access.open(w, user, r.TLS != nil)
	}
	return s.sessionOf(user), nil
}

func (s *server) logOut(w http.ResponseWriter, r *request) (any, error) {
	s.access.end(w, r.Request)
	return sessionState{}, nil
}

func (s *server) pipelines(http.ResponseWriter, *request) (any, error) {
	e, err := s.engine()
	if err != nil {
		return nil, err
	}
	return s.feed.overview(e.Status(), s.options.Trouble()), nil
}

// replicasTimeout is how long replicas have to answer.
const replicasTimeout = time.Second

// replicas asks each replica for its status.
func (s *server) replicas(_ http.ResponseWriter, r *request) (any, error) {
	own, err := s.do(r, "status", stream.Request{})
	if err != nil {
		return nil, err
	}
	reports := []any{own}
	instance := own.(stream.Report).Instance
	err = client.Gather(r.Context(), s.options.Conn().Conn, stream.ServiceSubject(r.pipeline(), "status"), nil,
		replicasTimeout,
		func(msg *nats.Msg) bool {
			if other, err := client.ReadReport(msg); err == nil && other.Instance != instance {
				reports = append(reports, other)
			}
			return len(reports) < maxReplicas
		})
	return map[string]any{"replicas": reports}, err
}

// resume resumes all replicas: any of them may be the halted one. This one resumes also if its service does not work.
func (s *server) resume(_ http.ResponseWriter, r *request) (any, error) {
	q := stream.Request{By: r.by()}
	answer, err := s.do(r, "resume", q) // fails for an unknown pipeline, before other replicas get the request
	if err != nil {
		return nil, err
	}
	reports, silent, failed := client.AskAll(r.Context(), s.options.Conn().Conn, r.pipeline(), "resume", q)
	if failed != nil && len(reports) == 0 {
		return nil, failed
	}
	own := answer.(stream.Report)
	isOwn := func(one stream.Report) bool { return one.Instance == own.Instance }
	return map[string]any{"replicas": append([]stream.Report{own}, slices.DeleteFunc(reports, isOwn)...),
		"silent": slices.DeleteFunc(append([]string{}, silent...), func(id string) bool { return id == own.Instance })}, nil
}

// maxReplicas bounds the replicas that are listed.
const maxReplicas = 100

func (s *server) points(w http.ResponseWriter, r *request) (any, error) {
	limit := s.access.config.Load().Points
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, badRequest(fmt.Errorf("limit=%q: want a number of rows, from 1", text))
		}
		limit = min(n, limit)
	}
	answer, err := s.do(r, "points", stream.Request{Limit: limit})
	isArrow := accepted(r.Header.Get("Accept"), wire.FormatJSON, wire.FormatArrow) == wire.FormatArrow
	if err != nil || !isArrow {
		return answer, err
	}
	points, isHere := answer.(*stream.Points)
	if !isHere { // another replica is the trainer
		points = &stream.Points{}
		if err := json.Unmarshal(answer.(json.RawMessage), points); err != nil {
			return nil, fmt.Errorf("the answer of the trainer: %w", err)
		}
	}
	data, err := arrowOf(points)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Content-Type", wire.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Write(data)
	return nil, errHandled
}

// badRequest is an error of the request.
func badRequest(err error) error { return stream.WithCode(stream.CodeBadRequest, err) }
