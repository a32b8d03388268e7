// Package schema stores the schema contract of a pipeline, so that every process reads messages in the same way
// (Invariant 13).
package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/statestore"
)

// recordVersion is the version of a record's JSON form.
const recordVersion = 1

// Record is the stored value: the contract, or the position from which messages are counted to find one.
type Record struct {
	// Generation counts the schemas of the pipeline, from 1. A process that sees another generation than it has loaded
	// reopens the pipeline.
	Generation uint64 `json:"generation"`
	// Messages up to After of the input stream that was created at Stream are not counted. 0: all are.
	After    uint64            `json:"after,omitempty"`
	Stream   time.Time         `json:"stream_created,omitzero"`
	Contract *arrowio.Contract `json:"contract,omitempty"` // nil: it is being counted
	IsStored bool              `json:"-"`
}

// versioned is the form in which a record is stored.
type versioned struct {
	Version int `json:"version"`
	Record
}

// Elements are the names of the contract's feature elements, nil while there is no contract.
func (r Record) Elements() []string { return r.Contract.Elements() }

// IsReset reports whether the schema was reset and the next one is being counted.
func (r Record) IsReset() bool { return r.Generation > 1 && r.Contract == nil }

// encode returns the record as it is stored.
func (r Record) encode() ([]byte, error) { return json.Marshal(versioned{recordVersion, r}) }

// parse parses a stored record; nil is none: generation 1 without a contract.
func parse(text []byte) (r Record, err error) {
	if text == nil {
		return Record{Generation: 1}, nil
	}
	var in struct {
		versioned
		Contract json.RawMessage `json:"contract"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return r, fmt.Errorf("the stored schema cannot be read: %w; 'embedd schema reset' replaces it", err)
	}
	if in.Version != recordVersion {
		return r, fmt.Errorf("the stored schema has version %d, and this program reads version %d: upgrade embedd",
			in.Version, recordVersion)
	}
	r = in.Record
	r.IsStored = true
	if in.Contract != nil {
		r.Contract, err = arrowio.ParseContract(in.Contract)
	}
	return r, err
}

// Store has the record of one pipeline.
type Store struct{ entry statestore.Entry }

// In returns the store of a pipeline in the state bucket.
func In(bucket *natsx.Bucket, pipeline string) *Store {
	return &Store{statestore.Key(bucket, statestore.ContractKey(pipeline))}
}

// Directory returns the store of a pipeline in a directory of models, for core NATS.
func Directory(path, pipeline string) *Store {
	return &Store{statestore.File(filepath.Join(path, pipeline, "schema.json"))}
}

// Read returns the record and its revision; while there is none, generation 1 without a contract. When the record
// cannot be read, the revision is returned with the error.
func (s *Store) Read(ctx context.Context) (r Record, revision uint64, err error) {
	text, revision, err := s.entry.Read(ctx)
	if err != nil {
		return Record{Generation: 1}, revision, err
	}
	r, err = parse(text)
	return r, revision, err
}

// Write replaces the record with a revision. It fails with natsx.ErrConflict when that is not the newest.
func (s *Store) Write(ctx context.Context, r Record, revision uint64) error {
	text, err := r.encode()
	if err == nil {
		_, err = s.entry.Write(ctx, text, revision)
	}
	return err
}

// Fix stores the contract that was counted, unless one of the same generation is stored: the first write wins. It
// returns the contract that is stored. It fails with natsx.ErrConflict when the schema was reset since generation.
func Fix(ctx context.Context, s *Store, generation uint64, counted *arrowio.Contract) (fixed *arrowio.Contract,
	err error) {
	_, _, err = natsx.Modify(ctx, s.entry.Read, s.entry.Write, func(old []byte, _ uint64) ([]byte, error) {
		r, err := parse(old)
		switch {
		case err != nil:
			return nil, err
		case r.Generation != generation:
			return nil, natsx.ErrConflict
		case r.Contract != nil:
			fixed = r.Contract
			return old, nil
		}
		fixed, r.Contract = counted, counted
		return r.encode()
	})
	if err != nil {
		return nil, err
	}
	return fixed, nil
}

// Replace begins a new generation, with a contract, or with none: then the messages after a sequence number of the
// input stream, which was created at a time, are counted. It returns the record that it stored.
func Replace(ctx context.Context, s *Store, contract *arrowio.Contract, after uint64, created time.Time) (r Record,
	err error) {
	_, _, err = natsx.Modify(ctx, s.entry.Read, s.entry.Write, func(old []byte, revision uint64) ([]byte, error) {
		before, err := parse(old)
		if err != nil { // it cannot be read: no process has loaded it
			before.Generation = revision
		}
		r = Record{Generation: before.Generation + 1, Contract: contract, After: after, Stream: created, IsStored: true}
		return r.encode()
	})
	return r, err
}
