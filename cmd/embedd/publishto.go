package main

import (
	"errors"
	"fmt"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/engine"
)

// pipelineInput is the input of a pipeline of the configuration, as far as that and its model file determine it.
type pipelineInput struct {
	config.Pipeline
	decoder  *arrowio.Decoder
	contract *arrowio.Contract // nil: messages decide it
	features []string          // of the model file; nil without one
}

// inputOf returns the input of a pipeline of the configuration.
func inputOf(server *client.Server, name string) (*pipelineInput, error) {
	path, c, err := server.Config()
	if err != nil {
		return nil, err
	}
	only := *c
	only.Pipelines = nil
	var names []string
	for _, one := range c.Pipelines {
		if names = append(names, one.Name); one.Name == name {
			only.Pipelines = append(only.Pipelines, one)
		}
	}
	if len(only.Pipelines) == 0 {
		return nil, unknownPipeline(path, name, names)
	}
	pipelines, err := engine.Pipelines(&only)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	p, spec := &pipelineInput{Pipeline: only.Pipelines[0]}, pipelines[0].Stage.Spec
	p.contract, _ = spec.Contract()
	if m := pipelines[0].Stage.Fixed; m != nil {
		p.features = m.Features()
		if p.contract, err = spec.ContractOf(p.features); err != nil {
			return nil, err
		}
		spec = spec.Fixed(p.contract)
	}
	p.decoder, err = arrowio.NewDecoder(spec)
	return p, err
}

// packed are the columns that --pack packs, in their order: those of a model file that reads the list. nil: all columns
// of numbers.
func (p *pipelineInput) packed(list string) []string {
	if p == nil || p.features == nil || p.contract.Has(p.features) || p.contract.Columns()[0].Name != list {
		return nil
	}
	return p.features
}

// check returns an error if the pipeline would answer a message with a dead letter. list is the column of --pack.
func (p *pipelineInput) check(body []byte, list string) error {
	_, err := p.decoder.Decode(body, p.contract)
	var refused *arrowio.Error
	if !errors.As(err, &refused) {
		return err
	}
	if list != "" {
		list = fmt.Sprintf("; --pack makes one column %q of all numbers, and without it they are columns of their own names",
			list)
	}
	return cli.Usagef("publish: pipeline %s would answer with dead letters (%s): %v%s; --subject without --pipeline "+
		"publishes without this check", p.Name, refused.Code, refused, list)
}

// checkFirst calls check for the first message and then send for each.
func (p *pipelineInput) checkFirst(list string, send func(body []byte, rows int) error) func([]byte, int) error {
	if p == nil {
		return send
	}
	isChecked := false
	return func(body []byte, rows int) error {
		if !isChecked {
			if err := p.check(body, list); err != nil {
				return err
			}
			isChecked = true
		}
		return send(body, rows)
	}
}
