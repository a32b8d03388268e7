// Package engine turns a configuration into what the engine runs.
package engine

import (
	"cmp"
	"strconv"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/model"
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
		var fixed *model.Model
		if p.Model.File != "" {
			var err error
			if fixed, err = files.ReadModel(p.Model.File); err != nil {
				problems = append(problems, c.Problem(p.Name, "model.file", "%v", err))
				continue
			}
			if p.Schema.Nulls == "auto" {
				p.Schema.Nulls = plugin.Nulls(fixed.Note().Nulls)
			}
		}
		if p.Schema.Nulls == "" || p.Schema.Nulls == "auto" {
			p.Schema.Nulls = plugin.NullsReject
		}
		p.Schema.Limits.Message, p.Schema.Limits.Body = int(p.Limits.Message), int(p.Limits.Expanded)
		training := p.Training.Training
		training.IgnoreDrift, training.Gate.NeverFirst = p.Training.Drift == "false", p.Training.First == "never"
		if training.Quota.By == "none" {
			training.Quota = plugin.Quota{}
		}
		one := stream.Pipeline{
			Name: p.Name, Role: stream.Role(c.Role), Standby: stream.Standby(c.Standby), Lease: c.NATS.Lease,
			ModelSyncTimeout: cmp.Or(c.NATS.ModelSyncTimeout, -1),
			Stream:           p.Input.Stream, Subject: p.Input.Subject, Labels: p.Input.Labels, Partitions: p.Input.Partitions,
			Output: p.Output.Subject, Dead: p.Output.Dead, Stop: p.Limits.Bad, AckWait: c.NATS.AckWait,
			AckPending: c.NATS.MaxAckPending, InFlight: p.Limits.InFlight, Attempts: uint64(p.Input.Attempts),
			DoubleAck: p.Input.DoubleAck, Edges: c.NATS.Edges, EdgeBytes: c.NATS.EdgeBytes,
			Models: stream.Models{Limit: p.Limits.Model, Replicas: Replicas(c.NATS), Hub: c.NATS.Hub,
				Strict: p.Model.Damaged == "stop", Keep: p.Model.Keep},
			MaxAge: p.Training.MaxAge, WhenStale: p.Training.WhenStale, Settings: p.Settings(),
			Stage: plugin.Config{Spec: p.Schema.Spec, Nulls: p.Schema.Nulls, Output: p.Output.Output, Fit: p.Model.Fit(),
				Training: training, Until: p.Training.UntilReady, Classes: p.Limits.Classes},
		}
		one.Models.None, one.Models.Directory = p.Model.Store == "none", p.StoreDirectory()
		if p.Input.Labels != "" {
			one.Stage.Labels = &plugin.Labels{Wait: p.Limits.LabelWait, Bytes: p.Limits.Labels}
		}
		if fixed != nil {
			n := fixed.Note()
			encodings, err := arrowio.EncodingsOf(fixed.Features(), n.Categories, n.Dates)
			if err != nil {
				problems = append(problems, c.Problem(p.Name, "model.file", "%s: %v", p.Model.File, err))
				continue
			}
			one.Stage.Spec.Encodings = encodings
			if _, err := one.Stage.Spec.ContractOf(fixed.Features()); err != nil {
				problems = append(problems, c.Problem(p.Name, "schema.features", "%s", otherFeatures(&p, fixed.Features(), err)))
				continue
			}
			one.Stage.Fixed = fixed
		}
		out = append(out, one)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}
