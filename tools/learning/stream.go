package main

import (
	"strings"

	"github.com/embedd/embedd/tools/learning/streams"
)

const (
	usualRows  = streams.UsualRows
	usualSeeds = 3
	batchRows  = streams.BatchRows // events and checkpoints are at the borders of messages
)

// stream is a stream of independent rows, and what is required on it.
type stream struct {
	streams.Stream
	settle int     // rows after the end of an event within which the stage must have recovered
	slack  float64 // maximum difference from the oracle in the 5,000 rows after an event, in points
}

const (
	usualSlack = 6
	noiseSlack = 8
)

const (
	soon  = 3500
	later = 5000 // rotations
)

// abrupt returns a stream of independent rows with its requirements.
func abrupt(s streams.Stream) stream {
	required := stream{Stream: s, settle: soon}
	switch s.Name {
	case "rotation", "gradual", "imbalance", "noise", "recurring", "usps":
		required.settle = later
	}
	switch {
	case s.Noise > 0:
		required.slack = noiseSlack
	case len(s.Events) > 0:
		required.slack = usualSlack
	}
	return required
}

// chosen returns the streams with these names, all if there are none: those with independent rows, and the others.
func chosen(names string) (independent []stream, dependent []streams.Stream, err error) {
	if names == "" {
		names = strings.Join(append(streams.Names(streams.Abrupt), streams.Names(streams.Dependent)...), ",")
	}
	for name := range strings.SplitSeq(names, ",") {
		s, err := streams.Named(name)
		if err != nil {
			return nil, nil, err
		}
		if s.IsDependent() {
			dependent = append(dependent, s)
		} else {
			independent = append(independent, abrupt(s))
		}
	}
	return independent, dependent, nil
}

// changes returns the events, poison included. For a stationary stream it is a quarter of the stream, after which a
// learner has nothing to gain.
func (s stream) changes() []streams.Event {
	switch {
	case s.Poison.End > 0:
		return []streams.Event{s.Poison}
	case len(s.Events) == 0:
		return []streams.Event{{Start: 0.25, End: 0.25}}
	}
	return s.Events
}

func rowOf(place float64, rows int) int { return streams.RowOf(place, rows) }
