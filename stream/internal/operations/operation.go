// Package operations has what can be requested of a running pipeline: its status, transforms, the choice of the live
// model, and what a console shows. The NATS service and the HTTP API are two ways to request it.
package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/embedd/embedd/arrowio/wire"
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
	By      string   `json:"by,omitempty"`      // who requests it, and from where
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
}

// ErrNotTrainer is returned by operations that only the trainer answers.
var ErrNotTrainer = errors.New("the trainer answers")

// Operation is one row of the table of operations.
type Operation struct {
	Name, About string
	IsForAll    bool // over NATS every replica receives a request, else one of them
	IsMessage   bool // the request is a message, else JSON
	Do          do
}

// do does an operation.
type do = func(*Pipeline, context.Context, *Request) (any, error)

// All are the operations.
var All = []Operation{
	{"status", "status of the pipeline", true, false, (*Pipeline).status},
	{"retrain", `fit a candidate now: {"live":"..."}, if that version is still live`, true, false, (*Pipeline).retrain},
	{"resume", "resume after too many bad messages", true, false, (*Pipeline).resume},
	{"transform", "transform an Arrow message", false, true, (*Pipeline).transform},
	{"model ls", "list the versions and the rejected candidates, and the changes of the live version", false, false,
		(*Pipeline).list},
	{"model show", `show a model: {"version":"..."}; default: the live version`, false, false,
		find(modelOf, (*registry.Registry).Model)},
	{"model conversion", `the map from the outputs of the epoch before: {"version":"..."}; default: the live version`,
		false, false, find(conversionOf, (*registry.Registry).Conversion)},
	{"model pin", `make a version live and keep it: {"version":"...","live":"..."}; default: the live version`, false,
		false, choose("model pin", (*registry.Registry).Pin)},
	{"model unpin", `unpin the live version: {"live":"..."}`, false, false,
		choose("model unpin", (*registry.Registry).Unpin)},
	{"model rollback", `make an earlier version live: {"version":"...","live":"..."}; default: the previous version`,
		false, false, choose("model rollback", (*registry.Registry).Rollback)},
	{"dlq ls", "list the newest hundred dead letters, without their bodies", false, false, listLetters},
	{"dlq replay", `publish dead letters to the input again: {"numbers":[...]}, at most a hundred`, false, false,
		replay},
	{"history", "two hours of what the console's charts show", true, false, history},
	{"points", `rows of the window under the live and the previous model: {"limit":5000}`, true, false,
		(*Pipeline).project},
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
