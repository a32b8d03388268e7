package console

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/strictjson"
	"github.com/embedd/embedd/stream"
)

// maxBody bounds the body of a request that is no message.
const maxBody = 64 << 10

// server is the console of one listener.
type server struct {
	*Console
	access *Access
	done   <-chan struct{}
}

// request is a request to the API: of whom, for which pipeline.
type request struct {
	*http.Request
	user string
	body body
}

// body is the body of a request that changes something.
type body struct {
	Version string   `json:"version"`
	Live    string   `json:"live"`
	Numbers []uint64 `json:"numbers"`
}

// pipeline is the pipeline that the path names.
func (r *request) pipeline() string { return r.PathValue("pipeline") }

// by says who requests, and from where, for logs and records.
func (r *request) by() string {
	if r.user == "" {
		return "HTTP from " + addressOf(r.Request)
	}
	return r.user + ", HTTP from " + addressOf(r.Request)
}

// errHandled is returned by a route that has answered itself.
var errHandled = errors.New("answered")

// serve answers the requests of a route.
func (s *server) serve(one route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r}
		var ok bool
		if !one.isOpen {
			if q.user, ok = s.access.Identify(r); !ok {
				s.access.Refuse(w, r)
				return
			}
			if r.Header.Get("Authorization") != "" {
				s.access.forget(r)
			}
		}
		if one.operates {
			if why := s.access.mayNotOperate(); why != "" {
				Reply(w, http.StatusForbidden, failed{"not_allowed", why})
				return
			}
		}
		if one.operates && !one.isMessage {
			if err := q.read(w); err != nil {
				Reply(w, http.StatusBadRequest, failed{stream.CodeBadRequest, err.Error()})
				return
			}
		}
		answer, err := one.do(s, w, q)
		switch {
		case errors.Is(err, errHandled):
		case err != nil:
			code := codeOf(err)
			Reply(w, statusOf(code), failed{code, err.Error()})
		default:
			s.answer(w, answer)
		}
	}
}

// read reads the body, a JSON object or nothing.
func (r *request) read(w http.ResponseWriter) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return fmt.Errorf("reading the body, of at most %d bytes: %w", maxBody, err)
	}
	if len(data) == 0 {
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return fmt.Errorf("the body has Content-Type %q; want application/json", kind)
	}
	if err := strictjson.Unmarshal(data, &r.body); err != nil {
		return fmt.Errorf(`the body is not JSON as {"version":"...","live":"..."}: %w`, err)
	}
	return nil
}

// answer writes a message, or JSON.
func (s *server) answer(w http.ResponseWriter, answer any) {
	m, isMessage := answer.(stream.Message)
	if !isMessage {
		Reply(w, http.StatusOK, answer)
		return
	}
	setHeaders(w, m)
	w.Write(m.Data)
}

func setHeaders(w http.ResponseWriter, m stream.Message) {
	for _, pair := range m.Pairs {
		w.Header().Set(pair.Key, pair.Value)
	}
	w.Header().Set("Content-Type", m.Format.ContentType())
	w.Header().Set("Cache-Control", "no-store")
}

// codeClients is the code where other clients take the room of a request.
const codeClients = "clients"

// codeOf is the code of an error.
func codeOf(err error) string {
	switch {
	case errors.Is(err, stream.ErrNoPipeline):
		return "not_found"
	case errors.Is(err, errNotOpen):
		return "starting"
	}
	return stream.ErrorCode(err)
}

// statusOf is the status of an answer that is an error.
func statusOf(code string) int {
	switch code {
	case stream.CodeBadRequest:
		return http.StatusBadRequest
	case "not_found", stream.CodeNotStored, stream.CodeNoModel, stream.CodeNoConversion:
		return http.StatusNotFound
	case stream.CodeDenied:
		return http.StatusForbidden
	case stream.CodePinned, stream.CodeNotPinned, stream.CodeFewRows, stream.CodeFixed, stream.CodeConflict,
		stream.CodeDamaged:
		return http.StatusConflict
	case "starting", stream.CodeStale, stream.CodeStopping, codeClients:
		return http.StatusServiceUnavailable
	case stream.CodeNoAnswer:
		return http.StatusGatewayTimeout
	case string(wire.TooLarge):
		return http.StatusRequestEntityTooLarge
	case string(wire.Internal):
		return http.StatusInternalServerError
	}
	return http.StatusUnprocessableEntity // a code of messages
}
