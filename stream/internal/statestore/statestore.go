// Package statestore has the key-value bucket of what replicas of a pipeline must agree on and a restart must find
// again, but models and leases: the schema contract, the configuration in effect, the key of the answers' identities,
// and notes about messages that crash a process. Each value has its own key, which is written by compare-and-set, so
// writers do not lose each other's changes.
package statestore

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
)

// Bucket is the name of the bucket, in the JetStream domain of the input, and Stream that of the stream behind it.
const (
	Bucket = "EMBEDD_STATE"
	Stream = "KV_" + Bucket
)

// ContractKey is the key of a pipeline's schema contract.
func ContractKey(pipeline string) string { return pipeline + ".contract" }

// IdentityKey is the key of the secret that makes the identities of a pipeline's answers. Only replicas of the pipeline
// may read it.
func IdentityKey(pipeline string) string { return pipeline + ".identity" }

// ConfiguredKey is the key of the configuration with which a pipeline works.
func ConfiguredKey(pipeline string) string { return pipeline + ".configured" }

// AttemptsKey is the key of the messages that the hot path is about to try again after crashes, of the partition with a
// name, or of a pipeline without partitions.
func AttemptsKey(pipeline, partition string) string { return pipeline + ".attempts." + partition }

// TrainingKey is the key of how far the trainer came before it crashed, and which messages it skips.
func TrainingKey(pipeline string) string { return pipeline + ".training" }

// Open opens the bucket, and creates it with a number of replicas (see natsx.WithReplicas) where it is missing.
func Open(ctx context.Context, js jetstream.JetStream, replicas int) (*natsx.Bucket, error) {
	b, err := natsx.EnsureBucket(ctx, js, jetstream.KeyValueConfig{Bucket: Bucket, Storage: jetstream.FileStorage,
		Description: "state of embedd pipelines"}, replicas)
	if err != nil {
		return nil, fmt.Errorf("opening the state of the pipelines (key-value bucket %s): %w", Bucket, err)
	}
	return b, nil
}
