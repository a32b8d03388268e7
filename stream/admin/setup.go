// Package admin manages what pipelines need in a server, without an engine: it creates streams and buckets (Setup),
// lists permissions (PermissionsOf), examines server and configuration (Diagnose), and resets models and schemas.
package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// Plan is a stream that pipelines need, or a bucket or stream that belongs to embedd, compared with the server.
type Plan struct {
	Name     string
	Bucket   bool     // it belongs to embedd
	Purpose  string   // what a bucket holds, as in "model store"
	Subjects []string // that a stream takes, or would; of the stream of all edges' summaries, the edges that it lacks
	Exists   bool     // it has all subjects that the pipelines need
	// Outdated: it exists, Setup may change it, and it lacks some of Subjects or has another size limit.
	Outdated bool
	Limit    bool   // it is no stream, but a limit of the account or the server: Problem is why that is too low
	Problem  string // why it can neither be used nor created, with the fix; or ""
	Replicas int    // of what exists; of the buckets of the model store the fewest
	// RaisesReplicas: it exists, Setup may change it, and it has fewer replicas than requested.
	RaisesReplicas  bool
	Warning         string // what will not work as expected, with the fix; or ""
	ConsumerWarning string // why it cannot have as many consumers as the pipelines need, with the fix; or ""
	SubjectWarning  string // that it stores answers and what others publish, with the fix; or ""
	NoConsumers     bool   // some pipelines would get no consumer and answer nothing

	// Created: Setup has created it now. Changed: it has changed what exists.
	Created, Changed bool

	firstUse    string     // needs.Need.Purpose of the first need that a stream serves
	isFromSetup bool       // its metadata says that Setup created it
	conflict    bool       // the problem is that another stream takes the subject
	need        needs.Need // of a bucket

	// Transform is the subject transform that the stream lacks for input.partitions; nil: none.
	Transform *jetstream.SubjectTransformConfig
}

// DefaultDuplicates is the duplicate window of the streams that Setup creates.
const DefaultDuplicates = 2 * time.Minute

// Streams are the limits of the streams that Setup creates, with file storage and limits retention; 0: no limit.
type Streams struct {
	MaxBytes   int64
	MaxAge     time.Duration
	Duplicates time.Duration // default DefaultDuplicates
	// Replicas is the number of replicas, also of what Setup created before with fewer. Default: three in a cluster of as
	// many servers, else one; and what exists stays as it is.
	Replicas int
}

// createdBySetup is the key of a stream's metadata that marks streams to which Setup may add subjects.
const createdBySetup = "embedd_setup"

// streamPurpose is the key of the metadata with what a stream of Setup is for: input, labels, output, dead letters.
const streamPurpose = "embedd_purpose"

// Setup is Streams.Setup with the default limits.
func Setup(ctx context.Context, js jetstream.JetStream, pipelines []spec.Pipeline, apply bool) ([]Plan, error) {
	return Streams{}.Setup(ctx, js, pipelines, apply)
}

// Setup lists the streams and buckets that the pipelines need and, with apply, creates those that are missing: each
// stream with the subjects of the pipelines and no others. New streams for inputs, labels, outputs and dead letters are
// separate. It never changes a stream that it did not create. While a plan has a problem it creates nothing. A nil js
// means a server without JetStream: with apply the error is then ErrNoJetStream if anything is needed.
func (s Streams) Setup(ctx context.Context, js jetstream.JetStream, pipelines []spec.Pipeline, apply bool) ([]Plan,
	error) {
	p := &planner{js: js, needs: needs.For(needs.Config{Pipelines: pipelines})}
	for _, step := range []func(context.Context) error{
		p.planStreams,
		func(ctx context.Context) error { p.compareWithHub(ctx, pipelines); return nil },
		p.planBuckets,
		func(ctx context.Context) error { return p.compareReplicas(ctx, s.Replicas) },
		p.checkConsumers,
		p.checkLimits,
	} {
		if err := step(ctx); err != nil {
			return p.plans, err
		}
	}
	if !apply || slices.ContainsFunc(p.plans, func(p Plan) bool { return p.Problem != "" }) {
		return p.plans, nil
	}
	if js == nil && len(p.plans) > 0 {
		return p.plans, fmt.Errorf("creating streams and buckets: %w", spec.ErrNoJetStream)
	}
	for i := range p.plans {
		plan := &p.plans[i]
		if !plan.Exists {
			if err := s.create(ctx, js, plan); err != nil {
				return p.plans, err
			}
			plan.Created, plan.Changed = !plan.Outdated, plan.Outdated
			plan.Exists, plan.Outdated = true, false
		}
		if plan.RaisesReplicas {
			if err := raiseReplicas(ctx, js, plan, s.Replicas); err != nil {
				return p.plans, err
			}
			plan.Changed = true
		}
	}
	return p.plans, nil
}

func (s Streams) create(ctx context.Context, js jetstream.JetStream, plan *Plan) error {
	if plan.Bucket {
		return plan.need.Create(ctx, js, s.Replicas)
	}
	if plan.Outdated {
		return addSubjects(ctx, js, plan)
	}
	c := jetstream.StreamConfig{Name: plan.Name, Subjects: plan.Subjects, Storage: jetstream.FileStorage,
		SubjectTransform: plan.Transform, Duplicates: cmp.Or(s.Duplicates, DefaultDuplicates), MaxAge: s.MaxAge,
		MaxBytes: s.MaxBytes, Metadata: map[string]string{createdBySetup: "1", streamPurpose: plan.firstUse}}
	if c.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, c.MaxAge) // the server allows no longer one
	}
	err := natsx.WithReplicas(js, s.Replicas, func(replicas int) error {
		c.Replicas = replicas
		_, err := js.CreateStream(ctx, c)
		return err
	})
	if err != nil {
		return fmt.Errorf("creating stream %s for %v: %w", plan.Name, plan.Subjects, err)
	}
	return nil
}

func addSubjects(ctx context.Context, js jetstream.JetStream, plan *Plan) error {
	have, err := js.Stream(ctx, plan.Name)
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	err = natsx.UpdateStream(ctx, js, have, func(c *jetstream.StreamConfig) {
		c.Subjects = with(c.Subjects, plan.Subjects...)
		if plan.Transform != nil {
			c.SubjectTransform = plan.Transform
		}
	})
	if err != nil {
		return fmt.Errorf("adding to the subjects of stream %s, so that it takes %v: %w", plan.Name, plan.Subjects, err)
	}
	return nil
}

func raiseReplicas(ctx context.Context, js jetstream.JetStream, plan *Plan, replicas int) error {
	for _, name := range plan.streams() {
		have, err := natsx.FindStream(ctx, js, name)
		if err != nil {
			return natsx.ExplainAPIError(err)
		}
		if have == nil {
			continue
		}
		err = natsx.UpdateStream(ctx, js, have, func(c *jetstream.StreamConfig) {
			c.Replicas = max(c.Replicas, replicas)
		})
		if err != nil {
			return fmt.Errorf("raising stream %s to %s: %w; the cluster must have as many servers with JetStream", name,
				replicasText(replicas), err)
		}
	}
	plan.Replicas, plan.RaisesReplicas = replicas, false
	return nil
}

// streams are the names of the plan's streams: a bucket can have several.
func (p *Plan) streams() []string {
	if p.Bucket {
		return p.need.Streams
	}
	return []string{p.Name}
}
