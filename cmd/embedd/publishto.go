package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/engine"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/plugin"
)

// pipelineInput is the input of a pipeline of the configuration, as far as that and its model file determine it.
type pipelineInput struct {
	config.Pipeline
	decoder  *arrowio.Decoder
	contract *arrowio.Contract // nil: messages decide it
	features []string          // of the model file; nil without one
}

// stageOf returns a pipeline of the configuration, and what its stage is configured with.
func stageOf(file *client.File, name string) (*config.Pipeline, plugin.Config, error) {
	one, err := file.Pipeline(name)
	if err != nil {
		return nil, plugin.Config{}, err
	}
	_, c, err := file.Config()
	if err != nil {
		return nil, plugin.Config{}, err
	}
	only := *c
	only.Pipelines = []config.Pipeline{*one}
	pipelines, err := engine.Pipelines(&only)
	if err != nil {
		return nil, plugin.Config{}, cli.Usagef("%w", err)
	}
	return one, pipelines[0].Stage, nil
}

// inputOf returns the input of a pipeline of the configuration.
func inputOf(server *client.Server, name string) (*pipelineInput, error) {
	one, stage, err := stageOf(server.File, name)
	if err != nil {
		return nil, err
	}
	p, spec := &pipelineInput{Pipeline: *one}, stage.Spec
	p.contract, _ = spec.Contract()
	if m := stage.Fixed; m != nil {
		p.features = m.Features()
		if p.contract, err = spec.ContractOf(p.features); err != nil {
			return nil, err
		}
		spec = spec.Fixed(p.contract)
	}
	p.decoder, err = arrowio.NewDecoder(spec)
	return p, err
}

// checkSubject returns an error if the pipeline does not read a subject.
func (p *pipelineInput) checkSubject(subject string) error {
	switch {
	case strings.ContainsAny(subject, "*>"):
		return cli.Usagef("publish: the input of pipeline %s has wildcards (%s): set --subject to one of its subjects",
			p.Name, subject)
	case !wildcard.Covers(p.Input.Subject, subject):
		return cli.Usagef("publish: --subject %s: pipeline %s reads %s; without --pipeline any subject may be named", subject,
			p.Name, p.Input.Subject)
	}
	return nil
}

// publisher returns a publisher to a subject of the pipeline. It waits for the stream as long as for a connection: an
// embedded server that has just started is still creating it.
func (p *pipelineInput) publisher(ctx context.Context, nc *connection.Conn, subject string,
	as wire.Format) (*publisher, error) {
	for end := time.Now().Add(client.ConnectTimeout); ; {
		to, err := newPublisher(ctx, nc, subject, as)
		if p == nil || err != nil {
			return to, err
		}
		if err = p.checkStored(to); err == nil || to.stream != "" || time.Now().After(end) {
			return to, err
		}
		if err := cli.Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// checkStored returns an error if messages would not reach the pipeline: another stream stores their subject, or none.
func (p *pipelineInput) checkStored(to *publisher) error {
	switch want := p.Input.Stream; {
	case want == "" || to.stream == want:
		return nil
	case to.stream == "":
		return fmt.Errorf("publish: no stream stores %s, and pipeline %s reads it from stream %s: create it with `embedd "+
			"setup --apply`, or start `embedd run`", to.subject, p.Name, want)
	default:
		return fmt.Errorf("publish: stream %s stores %s, and pipeline %s reads stream %s: `embedd setup` shows what the "+
			"server has", to.stream, to.subject, p.Name, want)
	}
}

// checkLabels returns an error if no stream stores the late labels of a pipeline that reads them from one.
func (p *pipelineInput) checkLabels(to *publisher) error {
	if p.Input.Stream == "" || to.stream != "" {
		return nil
	}
	return fmt.Errorf("publish: no stream stores the labels of %s, and pipeline %s reads them from one: create it with "+
		"`embedd setup --apply`", to.subject, p.Name)
}

// inputsOf are the inputs of the pipelines of the configuration, if there is one.
func inputsOf(server *client.Server) (subjects []string, err error) {
	c, err := server.OptionalConfig()
	if err != nil {
		return nil, err
	}
	for _, p := range c.Pipelines {
		subjects = append(subjects, p.Input.Subject)
	}
	return subjects, nil
}

// packed are the columns that --pack packs, in their order: those of a model file that reads the list. nil: all columns
// of numbers.
func (p *pipelineInput) packed(list string) []string {
	if p == nil || p.features == nil || p.contract.Has(p.features) || p.contract.Columns()[0].Name != list {
		return nil
	}
	return p.features
}

// categories are the columns of the model file that hold categories.
func (p *pipelineInput) categories() (names []string) {
	if p == nil || p.contract == nil {
		return nil
	}
	for _, column := range p.contract.Columns() {
		if column.Values != nil {
			names = append(names, column.Name)
		}
	}
	return names
}

// check returns an error if the pipeline would answer a message with a dead letter. list is the column of --pack, in
// the file of the rows.
func (p *pipelineInput) check(body []byte, list string, in *file.Reader) error {
	if p == nil {
		return nil
	}
	_, err := p.decoder.Decode(body, p.contract)
	refused, ok := errors.AsType[*arrowio.Error](err)
	if !ok {
		return err
	}
	cause := refused.Error()
	if why, _ := in.NotNumeric(refused.Column); why != "" && refused.Code == wire.NotNumeric {
		cause = fmt.Sprintf("column %q is text: %s", refused.Column, why)
	}
	if list != "" {
		list = fmt.Sprintf("; --pack makes one column %q of all numbers, and without it they are columns of their own names",
			list)
	}
	return cli.Usagef("publish: pipeline %s would answer with dead letters (%s): %s%s; --subject without --pipeline "+
		"publishes without this check", p.Name, refused.Code, cause, list)
}
