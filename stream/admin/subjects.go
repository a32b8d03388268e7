package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
)

// compareSubjects warns of streams of outputs or dead letters that store what others publish: they share the limits of
// the stream with the outputs, and one stream has one set of message ids.
func (p *planner) compareSubjects(ctx context.Context) error {
	for i := range p.plans {
		plan := &p.plans[i]
		if plan.Bucket || plan.conflict || !plan.Exists {
			continue
		}
		have, err := p.stream(ctx, plan.Name)
		if err != nil {
			return err
		}
		if have != nil {
			plan.SubjectWarning = otherSubjects(p.needs, plan.Name, have.Subjects)
		}
	}
	return nil
}

// otherSubjects returns the warning about a stream, "" if it stores answers alone, or none. A wildcard that covers
// answers counts as theirs.
func otherSubjects(all []needs.Need, stream string, subjects []string) string {
	var answers, others []string
	for _, n := range all {
		switch {
		case n.Kind != needs.Stream || !wildcard.CoveredBy(n.Subject, subjects):
		case n.Purpose == "output" || n.Purpose == "dead letters":
			answers = with(answers, n.Subject)
		default:
			others = with(others, n.Subject)
		}
	}
	if len(answers) == 0 {
		return ""
	}
	known := slices.Concat(answers, others)
	for _, s := range subjects {
		if !slices.ContainsFunc(known, func(one string) bool { return wildcard.Overlap(s, one) }) {
			others = append(others, s)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("stream %s stores %s and also %s, whose publishers share its limits and its message ids with the "+
		"answers: give the answers a separate stream", stream, strings.Join(answers, ", "), strings.Join(others, ", "))
}
