package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/operations"
)

// Endpoints lists the endpoints of a pipeline.
func Endpoints() (all []Endpoint) {
	for _, o := range operations.All {
		all = append(all, o.Endpoint)
	}
	return all
}

// RequestTimeout is how long Engine.Do and the service of a pipeline work on a request at most.
const RequestTimeout = needs.RequestTimeout

// trainerTimeout is how long the trainer may take to answer, if it is another replica.
const trainerTimeout = 6 * time.Second

// ErrNoPipeline is returned by Engine.Do if no pipeline of the name is open.
var ErrNoPipeline = errors.New("no such pipeline")

// Do does in this process what an endpoint of a pipeline's service does: docs/service.md has their names and answers.
// Only the trainer answers some of them; Do asks it, if it is another replica. It takes RequestTimeout at most. The
// answer is a Message, a json.RawMessage of the trainer, or a value for encoding/json. ErrorCode returns a code.
func (e *Engine) Do(ctx context.Context, pipeline, endpoint string, q Request) (any, error) {
	o := operations.Find(endpoint)
	if o == nil {
		return nil, operations.WithCode(CodeBadRequest, fmt.Errorf("a pipeline has no endpoint %q", endpoint))
	}
	p, err := e.find(pipeline)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, needs.RequestTimeout)
	defer cancel()
	answer, err := o.Do(p.operations, ctx, &q)
	if errors.Is(err, operations.ErrNotTrainer) {
		return p.askTrainer(ctx, endpoint, q)
	}
	return answer, err
}

// find returns the open pipeline of a name, or ErrNoPipeline.
func (e *Engine) find(name string) (*pipeline, error) {
	for _, p := range e.pipelines() {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoPipeline, name)
}

// askTrainer requests what only the trainer answers, which is another replica.
func (p *pipeline) askTrainer(ctx context.Context, endpoint string, q Request) (any, error) {
	data, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, trainerTimeout)
	defer cancel()
	msg, err := p.Conn.RequestWithContext(ctx, needs.ServiceSubject(p.Name, endpoint), data)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
		return nil, operations.WithCode(CodeNoAnswer, fmt.Errorf("the trainer did not answer within %v: %s",
			trainerTimeout, p.replica.TrainerText()))
	case err != nil:
		return nil, err
	}
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, operations.WithCode(code, errors.New(msg.Header.Get(micro.ErrorHeader)))
	}
	return json.RawMessage(msg.Data), nil
}

// Messages are the limit and the formats of a pipeline's messages.
func (e *Engine) Messages(pipeline string) (Messages, error) {
	p, err := e.find(pipeline)
	if err != nil {
		return Messages{}, err
	}
	return p.operations.Messages(), nil
}

// WithCode returns an error with a code, for a host's own requests.
func WithCode(code string, err error) error { return operations.WithCode(code, err) }

// ErrorCode is the code of an error that Engine.Do returned. The error is not nil.
func ErrorCode(err error) string { return operations.CodeOf(err) }
