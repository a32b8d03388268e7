package console

import (
	"cmp"
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

// by names the user who requests, and the address, for logs and records.
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
		if one.operates() {
			if why := s.access.mayNotOperate(); why != "" {
				Refuse(w, "not_allowed", why)
				return
			}
			if err := q.read(w); err != nil {
				Refuse(w, stream.CodeBadRequest, err.Error())
				return
			}
		}
		answer, err := one.do(s, w, q)
		switch {
		case errors.Is(err, errHandled):
		case err != nil:
			refuse(w, err)
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

// Codes of errors of requests over HTTP.
const (
	codeClients       = "clients" // too many requests are running
	codeMediaType     = "unsupported_media_type"
	codeNotAcceptable = "not_acceptable"
)

// statuses are those of answers that are errors, by their codes. Other codes are those of messages.
var statuses = map[string]int{
	stream.CodeBadRequest: http.StatusBadRequest, "unauthorized": http.StatusUnauthorized,
	stream.CodeDenied: http.StatusForbidden, "not_allowed": http.StatusForbidden, "cross_origin": http.StatusForbidden,
	"not_found": http.StatusNotFound, stream.CodeNotStored: http.StatusNotFound, stream.CodeNoModel: http.StatusNotFound,
	stream.CodeNoConversion: http.StatusNotFound, "method_not_allowed": http.StatusMethodNotAllowed,
	stream.CodePinned: http.StatusConflict, stream.CodeNotPinned: http.StatusConflict,
	stream.CodeFewRows: http.StatusConflict, stream.CodeFixed: http.StatusConflict,
	stream.CodeConflict: http.StatusConflict, stream.CodeDamaged: http.StatusConflict,
	codeMediaType: http.StatusUnsupportedMediaType, codeNotAcceptable: http.StatusNotAcceptable,
	string(wire.TooLarge): http.StatusRequestEntityTooLarge, "unknown_host": http.StatusMisdirectedRequest,
	string(wire.Internal): http.StatusInternalServerError,
	"starting":            http.StatusServiceUnavailable, stream.CodeStale: http.StatusServiceUnavailable,
	stream.CodeStopping: http.StatusServiceUnavailable, codeClients: http.StatusServiceUnavailable,
	stream.CodeNoAnswer: http.StatusGatewayTimeout,
}

// Refuse answers with an error: a code, which determines the status, and a sentence.
func Refuse(w http.ResponseWriter, code, text string) {
	Reply(w, cmp.Or(statuses[code], http.StatusUnprocessableEntity), map[string]string{"code": code, "error": text})
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	code := stream.ErrorCode(err)
	if errors.Is(err, stream.ErrNoPipeline) {
		code = "not_found"
	}
	Refuse(w, code, err.Error())
}
