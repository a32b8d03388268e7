package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Plan is a stream that pipelines need.
type Plan struct {
	Name     string
	Subjects []string
	Exists   bool
}

// Duplicates is the duplicate window of streams that Setup makes.
const Duplicates = 2 * time.Minute

// Setup lists the streams that the pipelines need and, with apply, makes those that are missing: file storage, limits
// retention. It never changes one that is there.
func Setup(ctx context.Context, js jetstream.JetStream, pipelines []Pipeline, apply bool) ([]Plan, error) {
	var plans []Plan
	need := func(name, subject string) error {
		for i := range plans {
			if plans[i].Name == name {
				return nil
			}
		}
		have, err := js.StreamNameBySubject(ctx, subject)
		switch {
		case err == nil:
			for i := range plans {
				if plans[i].Name == have {
					return nil
				}
			}
			plans = append(plans, Plan{Name: have, Subjects: []string{subject}, Exists: true})
			return nil
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return reach(err)
		}
		plan := Plan{Name: name, Subjects: []string{streamSubjects(subject)}}
		if apply {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: plan.Subjects,
				Storage: jetstream.FileStorage, Duplicates: Duplicates})
			if err != nil {
				return fmt.Errorf("making stream %s for %v: %w", name, plan.Subjects, err)
			}
			plan.Exists = true
		}
		plans = append(plans, plan)
		return nil
	}
	for _, p := range pipelines {
		if p.Stream == "" {
			continue // core NATS needs none
		}
		if err := need(p.Stream, p.Subject); err != nil {
			return plans, err
		}
		if p.Labels != "" {
			if err := need(streamName(p.Labels), p.Labels); err != nil {
				return plans, err
			}
		}
		for _, subject := range []string{p.Output, p.Dead} {
			if err := need(streamName(subject), subject); err != nil {
				return plans, err
			}
		}
	}
	return plans, nil
}
