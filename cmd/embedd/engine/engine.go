// Package engine turns a configuration into what the engine runs.
package engine

import (
	"cmp"
	"strconv"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

// Streams is the configuration of the streams that setup creates.
func Streams(n config.NATS) admin.Streams {
	n.Streams.Replicas = Replicas(n)
	return n.Streams
}

// Replicas is the configured number of replicas, 0 for auto.
func Replicas(n config.NATS) int {
	count, _ := strconv.Atoi(n.Replicas)
	return count
}

// Pipelines converts the pipelines of a configuration. It reads their model files, and compares them with schema. The
// error is config.Problems.
func Pipelines(c *config.Config) ([]stream.Pipeline, error) {
	var out []stream.Pipeline
	var problems config.Problems
	for _, p := range c.Pipelines {
		stage, key, err := schema(&p)
		if err != nil {
			problems = append(problems, c.Problem(p.Name, key, "%v", err))
			continue
		}
		p.Schema.Nulls = stage.Nulls // the settings that a daemon reports have no auto
		out = append(out, pipeline(c, &p, stage))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}

// pipeline completes the configuration of a stage that has its schema, and converts the rest.
func pipeline(c *config.Config, p *config.Pipeline, stage plugin.Config) stream.Pipeline {
	training := p.Training.Training
	training.IgnoreDrift, training.Gate.NeverFirst = p.Training.Drift == "false", p.Training.First == "never"
	if training.Quota.By == "none" {
		training.Quota = plugin.Quota{}
	}
	stage.Output, stage.Fit, stage.Training = p.Output.Output, p.Model.Fit(), training
	stage.Until, stage.Classes = p.Training.UntilReady, p.Limits.Classes
	if p.Input.Labels != "" {
		stage.Labels = &plugin.Labels{Wait: p.Limits.LabelWait, Bytes: p.Limits.Labels}
	}
	return stream.Pipeline{
		Name: p.Name, Role: stream.Role(c.Role), Standby: stream.Standby(c.Standby), Lease: c.NATS.Lease,
		ModelSyncTimeout: cmp.Or(c.NATS.ModelSyncTimeout, -1),
		Stream:           p.Input.Stream, Subject: p.Input.Subject, Labels: p.Input.Labels, Partitions: p.Input.Partitions,
		Output: p.Output.Subject, Dead: p.Output.Dead, Stop: p.Limits.Bad, AckWait: c.NATS.AckWait,
		AckPending: c.NATS.MaxAckPending, InFlight: p.Limits.InFlight, Attempts: uint64(p.Input.Attempts),
		DoubleAck: p.Input.DoubleAck, Edges: c.NATS.Edges, EdgeBytes: c.NATS.EdgeBytes,
		Models: stream.Models{None: p.Model.Store == "none", Directory: p.StoreDirectory(), Limit: p.Limits.Model,
			Replicas: Replicas(c.NATS), Hub: c.NATS.Hub, Strict: p.Model.Damaged == "stop", Keep: p.Model.Keep},
		MaxAge: p.Training.MaxAge, WhenStale: p.Training.WhenStale, Settings: p.Settings(),
		Stage: stage,
	}
}
