package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Format is the version of the pointer's encoding. A newer one is an error and is never overwritten.
const Format = 2

// Pointer is everything that is known of the models of a pipeline, except their bytes.
type Pointer struct {
	Format int `json:"format"`
	Number int `json:"number"` // of versions so far
	Epochs int `json:"epochs"` // the highest epoch so far

	// Stream is the input stream that the pipeline's name is bound to; "" where none has claimed it yet, as on core NATS.
	Stream string `json:"stream,omitempty"`
	// Term is the newest term of a lease under which a trainer wrote: a holder of an older one may not write any more. 0:
	// there were no leases. Replaces is the revision that this one replaces, for diagnosis.
	Term     uint64 `json:"term,omitempty"`
	Replaces uint64 `json:"replaces,omitempty"`

	Live      string `json:"live,omitempty"`
	Previous  string `json:"previous,omitempty"`  // what was live before
	Candidate string `json:"candidate,omitempty"` // claimed and being written; no version yet
	Pin       string `json:"pin,omitempty"`       // the live one, while nothing may replace it

	Versions []Version     `json:"versions"`                // oldest first
	Refused  []Refusal     `json:"refused,omitempty"`       // the newest, oldest first
	Turns    []Turn        `json:"turns,omitempty"`         // changes of Live and Pin, and requests, oldest first
	Dropped  *DroppedTurns `json:"dropped_turns,omitempty"` // nil: none

	// ConfirmedAt is when the live model was last confirmed: fitted, or evaluated on labelled rows and kept.
	ConfirmedAt time.Time `json:"good,omitzero"`

	StateOf string `json:"state_of,omitempty"` // the live model to which State belongs
	State   []byte `json:"state,omitempty"`    // the learner's newest checkpoint

	damage  string // why this differs from the stored pointer; "" if it does not
	rebuilt bool   // no pointer could be read at all
}

// Damage explains why the stored pointer is not used and what is used instead; "" if the pointer could be read.
func (p *Pointer) Damage() string { return p.damage }

// Refusal is a candidate that was not promoted.
type Refusal struct {
	Time      time.Time `json:"time"`
	Live      string    `json:"live,omitempty"` // the version that it was compared with
	Rows      int       `json:"rows"`
	Score     *float64  `json:"score,omitempty"`
	LiveScore *float64  `json:"live_score,omitempty"`
	Reason    string    `json:"reason"`
}

// maxRefused is how many refusals a pointer keeps.
const maxRefused = 20

// Keep says which versions are kept next to the live, the previous and the pinned one. Zero fields mean the defaults.
type Keep struct {
	Versions int           // maximum number, those three included; default 20, at most 200
	Age      time.Duration // none older; 0: no bound
}

// parse decodes a pointer. Empty data is the pointer of a pipeline without a model.
func parse(value []byte) (*Pointer, error) {
	p := &Pointer{Format: Format}
	if len(value) == 0 {
		return p, nil
	}
	var head struct{ Format int }
	err := json.Unmarshal(value, &head)
	switch {
	case err != nil:
	case head.Format > Format:
		return nil, fmt.Errorf("%w: it has format %d and this one writes %d; use a newer embedd", ErrNewer,
			head.Format, Format)
	case head.Format != Format:
		err = fmt.Errorf("format %d", head.Format)
	default:
		err = json.Unmarshal(value, p)
	}
	for _, name := range []string{p.Live, p.Previous, p.Pin} {
		if err == nil && name != "" && p.Find(name) == nil {
			err = fmt.Errorf("it names %s and does not list it", name)
		}
	}
	if err != nil {
		return nil, withKind(ErrDamaged, fmt.Errorf("it is damaged: %w", err))
	}
	return p, nil
}

// Find returns the version of a name, nil if the pointer does not list it.
func (p *Pointer) Find(name string) *Version {
	i := slices.IndexFunc(p.Versions, func(v Version) bool { return v.Name == name })
	if i < 0 || name == "" { // any client may have stored a version without a name
		return nil
	}
	return &p.Versions[i]
}

// selection returns what the pointer selects.
func (p *Pointer) selection() selection {
	s := selection{live: p.Live, pin: p.Pin}
	if v := p.Find(p.Live); v != nil {
		s.wasReset, s.sameAs, s.undecided = v.WasReset, v.SameAs, v.Undecided
	}
	return s
}

// setLive makes a version the live one. The live version becomes the previous one, without its checkpoint and reset.
func (p *Pointer) setLive(name string, confirmedAt time.Time) {
	if v := p.Find(p.Live); v != nil {
		v.WasReset = false
	}
	if p.Live != name {
		if p.Live != "" {
			p.Previous = p.Live
		}
		p.Live = name
		p.State, p.StateOf = nil, ""
	}
	p.ConfirmedAt = confirmedAt
}

// fallBack marks the live version, which cannot be read, as damaged, and makes the newest other one the live one, the
// previous one first. Only versions with the same features and dimensions qualify, since inputs and readers rely on
// them. If none qualifies, no model is live. If the live version was pinned, its replacement is pinned.
func (p *Pointer) fallBack() {
	bad, isPinned := p.Find(p.Live), p.Pin != ""
	candidates := []*Version{p.Find(p.Previous)}
	for i := range slices.Backward(p.Versions) {
		v := &p.Versions[i]
		v.Damaged = v.Damaged || v.Name == bad.Name || v.Name == "" // any client may have listed one twice
		candidates = append(candidates, v)
	}
	p.Live, p.Pin, p.Previous, p.State, p.StateOf = "", "", "", nil, ""
	for _, v := range candidates {
		if v == nil || v.Damaged || bad.Dim != 0 && v.Dim != 0 && (v.Dim != bad.Dim || v.Features != bad.Features) {
			continue
		}
		p.setLive(v.Name, v.Created)
		if isPinned {
			p.Pin = v.Name
		}
		return
	}
}

// originOf returns the first version of another version's epoch, or of the epochs that are recorded as one with it; nil
// if that is the first, or the first is not listed.
func (p *Pointer) originOf(v *Version) *Version {
	first := p.firstOf(cmp.Or(v.SameAs, v.Epoch))
	if first == nil || first.Name == v.Name {
		return nil
	}
	return first
}

// firstOf returns the first version of an epoch, nil if it is not listed.
func (p *Pointer) firstOf(epoch int) *Version {
	if i := slices.IndexFunc(p.Versions, func(v Version) bool { return v.NewEpoch && v.Epoch == epoch }); i >= 0 {
		return &p.Versions[i]
	}
	return nil
}

// prune removes the versions that exceed Keep, the oldest first, and returns their names. The live, previous and pinned
// versions stay, and the first of an epoch as long as another of its epoch does, or one of an epoch that is recorded as
// one with it, or whose comparison with it is undecided.
func (p *Pointer) prune(k Keep, now time.Time) (gone []string) {
	count := len(p.Versions)
	remove := func(mayRemove func(Version) bool) {
		p.Versions = slices.DeleteFunc(p.Versions, func(v Version) bool {
			if v.Name == p.Live || v.Name == p.Previous || v.Name == p.Pin || !mayRemove(v) ||
				count <= k.Versions && (k.Age == 0 || now.Sub(v.Created) <= k.Age) {
				return false
			}
			count--
			gone = append(gone, v.Name)
			return true
		})
	}
	remove(func(v Version) bool { return !v.NewEpoch })
	uses := map[int]int{} // of an epoch, by the versions
	for _, v := range p.Versions {
		uses[v.Epoch]++
		uses[v.SameAs]++
		uses[v.Undecided]++
	}
	remove(func(v Version) bool { return uses[v.Epoch] == 1 })
	return gone
}

// names lists the versions for a message.
func (p *Pointer) names() string {
	var names []string
	for _, v := range p.Versions {
		names = append(names, v.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// Listed is one entry of a list of models: a version, or a rejected candidate, which has no name.
type Listed struct {
	Pipeline string `json:"pipeline"`
	State    string `json:"state"` // live, previous, kept, damaged or rejected
	Pinned   bool   `json:"pinned"`
	Version
}

// Chosen says which models of a pipeline the pointer names.
type Chosen struct {
	Pipeline string `json:"pipeline"`
	Live     string `json:"live"`
	Previous string `json:"previous"`
	Pinned   bool   `json:"pinned"`
}

// Chosen is what the pointer of a pipeline names.
func (p *Pointer) Chosen(pipeline string) Chosen {
	return Chosen{pipeline, p.Live, p.Previous, p.Pin != ""}
}

// List returns the versions that the pointer of a pipeline lists and then the rejected candidates, each oldest first.
func (p *Pointer) List(pipeline string) []Listed {
	out := []Listed{}
	for _, v := range p.Versions {
		state := "kept"
		if v.Damaged {
			state = "damaged"
		}
		switch v.Name {
		case p.Live:
			state = "live"
		case p.Previous:
			state = "previous"
		}
		out = append(out, Listed{pipeline, state, v.Name == p.Pin, v})
	}
	for _, r := range p.Refused {
		out = append(out, Listed{pipeline, "rejected", false, Version{Parent: r.Live, Rows: r.Rows, Score: r.Score,
			LiveScore: r.LiveScore, Why: r.Reason, Created: r.Time}})
	}
	return out
}
