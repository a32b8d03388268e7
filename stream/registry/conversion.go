package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/embedd/embedd/model"
)

// ErrNoConversion is the error of an epoch to which no map leads.
var ErrNoConversion = errors.New("no map leads to the epoch")

// Conversion is the map that leads to the outputs of an epoch from those of the one before.
type Conversion struct {
	Version string `json:"version"` // the first of the epoch, which has the map
	Epoch   uint64 `json:"epoch"`
	*model.Conversion
}

// ConversionOf returns the map of the first model of an epoch.
func ConversionOf(first *model.Model) (*Conversion, error) {
	note := first.Note()
	if note.Conversion == nil {
		return nil, fmt.Errorf("%w %d: it is the first one, or follows a reset, or its models have too many outputs; "+
			"request the outputs again", ErrNoConversion, note.Epoch)
	}
	return &Conversion{note.Version, note.Epoch, note.Conversion}, nil
}

// Conversion reads the map that leads to the epoch of a version.
func (r *Registry) Conversion(ctx context.Context, version string) (*Conversion, error) {
	p, v, err := r.pointers.find(ctx, version)
	if err != nil {
		return nil, err
	}
	if first := p.originOf(v); first != nil {
		v = first
	}
	m, err := r.models.get(ctx, *v)
	if err != nil {
		return nil, err
	}
	return ConversionOf(m)
}
