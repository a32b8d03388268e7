// Package operations has what can be requested of a running pipeline: its status, transforms, the choice of the live
// model, and what a console shows. The NATS service and the HTTP API are two ways to request it.
package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/internal/strictjson"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/relay"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
)

// Pipeline is a running pipeline as its operations see it.
type Pipeline struct {
	*scope.Scope
	Relay    *relay.Relay
	Replica  *replica.Replica
	Status   func() spec.Status
	Progress func() string // why no model is live yet
	History  *History
	// Service is the identity of this process's service on NATS; "" without one.
	Service func() string

	points  chan *points  // has the newest, or nil; the owner of the only element may project
	letters chan struct{} // has an element while dead letters are read: a stream has four consumers for readers
}

// New completes the pipeline.
func New(p Pipeline) *Pipeline {
	p.points, p.letters = make(chan *points, 1), make(chan struct{}, 1)
	p.points <- nil
	return &p
}

// Request is a request to a pipeline. Which fields an operation uses is in the table.
type Request struct {
	// Version is a version of the model; "": the default of the operation. Live is the one that the operator saw as the
	// live one, if the request is only meant for that.
	Version string   `json:"version,omitempty"`
	Live    string   `json:"live,omitempty"`
	Limit   int      `json:"limit,omitempty"`   // of rows
	Numbers []uint64 `json:"numbers,omitempty"` // of dead letters
	Data    []byte   `json:"-"`                 // a message to transform
	First   *Message `json:"-"`                 // of an answer that this transform continues; nil: none
	// Input is the format of Data, and Output that of the answer; "": the configured one.
	Input  wire.Format `json:"-"`
	Output wire.Format `json:"-"`
	By     string      `json:"by,omitempty"` // who requests it, and from where
}

// maxBy bounds By, in bytes, because it is logged.
const maxBy = 500

// Read reads a request that was sent as JSON. An empty one has no fields.
func Read(data []byte) (q Request, err error) {
	if len(data) == 0 {
		return q, nil
	}
	if err := strictjson.Unmarshal(data, &q); err != nil {
		return q, WithCode(CodeBadRequest, fmt.Errorf(`the request is not JSON as {"version":"..."}: %w`, err))
	}
	if len(q.By) > maxBy {
		q.By = strings.ToValidUTF8(q.By[:maxBy], "") + "..."
	}
	return q, nil
}

// Message is an answer that is a message, with its headers. Other answers are sent as JSON.
type Message struct {
	Data   []byte
	Format wire.Format
	Pairs  []wire.Pair
	Model  *plugin.Live // nil: the message is the input itself, because the live model is stale
	marks  []wire.Pair  // of a stale model
	of     *Pipeline
	codec  *stage.Codec
}

// ErrNotTrainer is returned by operations that only the trainer answers.
var ErrNotTrainer = errors.New("the trainer answers")

// Endpoint is a row of the table of operations, as the NATS service and the HTTP API offer it.
type Endpoint struct {
	Name         string // in the NATS service, and of the verb
	Method, Path string // over HTTP; "": not over HTTP. The path is below that of the pipeline.
	Request      string // what it reads, "" for nothing
	About        string
	IsForAll     bool // over NATS every replica receives a request, else one of them
	IsMessage    bool // the request is a message, else JSON
}

// Operation is an endpoint and what it does.
type Operation struct {
	Endpoint
	Do do
}

// do does an operation.
type do = func(*Pipeline, context.Context, *Request) (any, error)

// All are the operations. Over HTTP those that are posted change something, except for transform.
var All = []Operation{
	{Endpoint{Name: "status", Method: "GET", IsForAll: true, About: "the status, as `embedd status --format json`"},
		(*Pipeline).status},
	{Endpoint{Name: "history", Method: "GET", Path: "history", IsForAll: true,
		About: "two hours in steps of ten seconds of what the charts show"}, history},
	{Endpoint{Name: "points", Method: "GET", Path: "points", Request: `{"limit"}`, IsForAll: true,
		About: "at most `http.points` rows of the window, or `limit` (`?limit=N` over HTTP), an equal share of each " +
			"class, under the live and the previous model. With `Accept: application/vnd.apache.arrow.stream` an Arrow stream"},
		(*Pipeline).project},
	{Endpoint{Name: "model ls", Method: "GET", Path: "models",
		About: "the versions and the rejected candidates, as `embedd model ls --format json`, and the changes of the live " +
			"version: `{\"models\":[...],\"turns\":[...],\"dropped_turns\":{...}}`"}, (*Pipeline).list},
	{Endpoint{Name: "model show", Method: "GET", Path: "models/{version}", Request: `{"version"}`,
		About: "a model, as `embedd model show --format json`; default, and `live` over HTTP: the live version"},
		find(modelOf, (*registry.Registry).Model)},
	{Endpoint{Name: "model conversion", Method: "GET", Path: "models/{version}/conversion", Request: `{"version"}`,
		About: "the map from the outputs of the epoch before; default, and `live` over HTTP: of the live version"},
		find(conversionOf, (*registry.Registry).Conversion)},
	{Endpoint{Name: "dlq ls", Method: "GET", Path: "dead-letters",
		About: "the newest hundred dead letters among the newest thousand messages of their stream, as `embedd dlq " +
			"ls --format json`, without their bodies; `why_not` says why the daemon would not replay one: " +
			"`{\"dead_letters\":[...]}`"}, listLetters},
	{Endpoint{Name: "retrain", Method: "POST", Path: "retrain", Request: `{"live"}`, IsForAll: true,
		About: "has the trainer fit a candidate; the status"}, (*Pipeline).retrain},
	{Endpoint{Name: "resume", Method: "POST", Path: "resume", IsForAll: true,
		About: "resumes a pipeline that `limits.bad` has halted, in all replicas: over NATS each answers with its status. " +
			"Over HTTP: those of all that answered, and the identities of those that answered a ping within 3 s alone: " +
			"`{\"replicas\":[...],\"silent\":[...]}`"}, (*Pipeline).resume},
	{Endpoint{Name: "model pin", Method: "POST", Path: "pin", Request: `{"version","live"}`,
		About: "makes a version live and keeps it; default: the live version. The answer of pin, unpin and rollback is " +
			"`{\"pipeline\",\"live\",\"previous\",\"pinned\"}`"}, choose("model pin", (*registry.Registry).Pin)},
	{Endpoint{Name: "model unpin", Method: "POST", Path: "unpin", Request: `{"live"}`,
		About: "lets training continue from the pinned version"}, choose("model unpin", (*registry.Registry).Unpin)},
	{Endpoint{Name: "model rollback", Method: "POST", Path: "rollback", Request: `{"version","live"}`,
		About: "makes an earlier version live; default: the previous one"},
		choose("model rollback", (*registry.Registry).Rollback)},
	{Endpoint{Name: "dlq replay", Method: "POST", Path: "dead-letters/replay", Request: `{"numbers":[...]}`,
		About: "publishes dead letters to the input again and deletes them, at most a hundred; an object for each, as " +
			"`embedd dlq replay --format json`: `{\"replayed\":[...]}`"}, replay},
	{Endpoint{Name: "transform", Method: "POST", Path: "transform", Request: "a message of the input", IsMessage: true,
		About: "the output of the live model, with the headers of [the wire format](wire.md); it changes no counter. " +
			"See [Transform](#transform)"}, (*Pipeline).transform},
}

// Find returns the operation of a name, nil if there is none.
func Find(name string) *Operation {
	for i := range All {
		if All[i].Name == name {
			return &All[i]
		}
	}
	return nil
}

// errNoTrainer is the error of a request that waits for an election.
var errNoTrainer = errors.New("no replica holds the trainer's lease yet; send the request again in some seconds")

// onlyTrainer returns an error unless this process is the trainer.
func (p *Pipeline) onlyTrainer() error {
	switch {
	case !p.Running.Learns() || p.Replica.IsTrainer():
		return nil
	case p.Replica.HasTrainer():
		return ErrNotTrainer
	}
	return WithCode(CodeConflict, errNoTrainer)
}

// store is the model store of the pipeline.
func (p *Pipeline) store() (*registry.Registry, error) {
	switch {
	case p.Replica.Models != nil:
		return p.Replica.Models, nil
	case p.Stage.Fixed != nil:
		return nil, plugin.ErrFixed
	}
	return nil, WithCode(CodeNoModel, errors.New("the pipeline stores no models; set model.store"))
}
