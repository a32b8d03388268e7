// Package configured stores the configuration with which a pipeline works, so that a start can report what a changed
// key becomes.
package configured

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/spec"
)

// recordVersion is the version of a record's JSON form.
const recordVersion = 1

// Record has the values that are in effect, by key.
type Record struct {
	Version int               `json:"version"`
	Values  map[string]string `json:"values"`
}

// Read returns the stored record and its revision; an empty record where there is none, or one that cannot be read.
func Read(ctx context.Context, entry statestore.Entry) (r Record, revision uint64, err error) {
	text, revision, err := entry.Read(ctx)
	return parse(text), revision, err
}

func parse(text []byte) (r Record) {
	if json.Unmarshal(text, &r) != nil || r.Version != recordVersion {
		return Record{} // it is replaced: nothing but reports depend on it
	}
	return r
}

// Actual is what a pipeline works with, besides the record.
type Actual struct {
	// Dim is the number of outputs of the live model; 0 if there is none, or the next first model replaces it.
	Dim int
	// Contract is the stored schema; nil while there is none.
	Contract  *arrowio.Contract
	IsTrainer bool
}

// Compare returns the keys whose configured values differ from the record, with their effects, in the order of
// Settings.
func Compare(p *spec.Pipeline, r Record, a Actual) (changes []spec.Change) {
	for _, s := range p.Settings {
		was, isKnown := r.Values[s.Key]
		if s.Key == spec.KeyDim && a.Dim > 0 {
			if _, err := strconv.Atoi(s.Value); err == nil {
				was, isKnown = strconv.Itoa(a.Dim), true
			}
		}
		if isKnown && was != s.Value {
			changes = append(changes, spec.Change{Key: s.Key, Was: was, Now: s.Value, Effect: effect(p, s, a)})
		}
	}
	return changes
}

func effect(p *spec.Pipeline, s spec.Setting, a Actual) spec.Effect {
	switch {
	case p.Stage.Fixed != nil && s.IsLearning:
		return spec.EffectIgnored
	case s.Effect == spec.EffectModelReset && a.Dim > 0:
		return spec.EffectModelReset
	case s.Effect == spec.EffectSchemaReset && p.Stage.Fixed == nil && isKept(p, a.Contract):
		return spec.EffectSchemaReset
	case (s.IsLearning || isShared(s.Key)) && !a.IsTrainer:
		return spec.EffectTrainer
	}
	return spec.EffectApplied
}

// isShared reports whether all replicas must agree on a key, although not only training uses it.
func isShared(key string) bool {
	return strings.HasPrefix(key, "input.") || strings.HasPrefix(key, "schema.")
}

// isKept reports whether the stored schema stays although schema.features may select other columns.
func isKept(p *spec.Pipeline, stored *arrowio.Contract) bool {
	return stored != nil && p.Stage.Spec.Accepts(stored.Elements()) && strings.ContainsAny(
		strings.Join(p.Stage.Spec.Features, ""), "*?[")
}

// Apply stores the configured values, except those that are not in effect, and returns all changes.
func Apply(ctx context.Context, entry statestore.Entry, p *spec.Pipeline, a Actual) (next Record,
	changes []spec.Change, err error) {
	_, _, err = natsx.Modify(ctx, entry.Read, entry.Write, func(old []byte, _ uint64) ([]byte, error) {
		stored := parse(old)
		changes, next = Compare(p, stored, a), Record{recordVersion, make(map[string]string, len(p.Settings))}
		for _, s := range p.Settings {
			next.Values[s.Key] = s.Value
		}
		for _, c := range changes {
			if c.IsOpen() {
				next.Values[c.Key] = c.Was
			}
		}
		if maps.Equal(next.Values, stored.Values) {
			return old, nil
		}
		return json.Marshal(next)
	})
	if err != nil {
		err = fmt.Errorf("storing the configuration that is in effect: %w", err)
	}
	return next, changes, err
}
