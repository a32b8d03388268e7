package registry

import (
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

// Version describes one model.
type Version struct {
	Name   string `json:"version"`
	Digest string `json:"digest,omitempty"` // "" if the model could not be read
	Parent string `json:"parent,omitempty"` // the version that it replaced
	Epoch  int    `json:"epoch"`
	// SameAs is the first of the epochs that are recorded as one with Epoch, since their outputs are comparable. Undecided
	// is the first of the epochs before, while it is not decided whether their outputs are comparable with those of Epoch.
	SameAs    int `json:"same_as_epoch,omitempty"`
	Undecided int `json:"undecided_with_epoch,omitempty"`
	// NewEpoch marks the first version of its epoch, with which later ones are compared.
	NewEpoch  bool              `json:"new_epoch,omitempty"`
	Bootstrap bool              `json:"bootstrap,omitempty"` // the PCA that serves until a first model exists
	WasReset  bool              `json:"reset,omitempty"`     // the live one, until the first model of the next epoch
	Method    string            `json:"method,omitempty"`
	Dim       int               `json:"dim,omitempty"`
	Features  int               `json:"features,omitempty"`
	Classes   int               `json:"classes,omitempty"`
	Params    map[string]string `json:"params,omitempty"`
	First     uint64            `json:"first,omitempty"` // sequence numbers of the messages that it was fitted on
	Last      uint64            `json:"last,omitempty"`
	Rows      int               `json:"rows,omitempty"`
	Score     *float64          `json:"score,omitempty"`
	LiveScore *float64          `json:"live_score,omitempty"` // of the version that it replaced
	Why       string            `json:"why,omitempty"`
	Door      string            `json:"door,omitempty"` // by which it went live; "" if that is not known
	Created   time.Time         `json:"created,omitzero"`
	Size      int64             `json:"size,omitempty"`    // bytes
	Damaged   bool              `json:"damaged,omitempty"` // it could not be read
}

// versionOf describes a release under a name.
func versionOf(name string, r *plugin.Release, created time.Time, size int64) Version {
	v := Version{
		Name: name, Parent: r.Parent, Epoch: r.Epoch, SameAs: r.SameAs, Undecided: r.Undecided, NewEpoch: r.NewEpoch,
		Bootstrap: r.Bootstrap, First: r.First, Last: r.Last, Rows: r.Rows, Score: finite(r.Score),
		LiveScore: finite(r.LiveScore), Why: truncate(r.Why), Door: r.Door, Created: created, Size: size,
	}
	v.describe(r.Model)
	return v
}

// describe records what a model is.
func (v *Version) describe(m *model.Model) {
	v.Digest, v.Method, v.Dim, v.Features = m.Digest(), m.Method(), m.Dim(), m.M()
	v.Classes, v.Params = len(m.Classes()), m.Params()
}

// finite returns a number for JSON, which has no NaN and no infinities: nil for these.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// maxText is the size limit of each text in a pointer, in bytes.
const maxText = 500

// truncate shortens a text to maxText. A character that the cut splits becomes U+FFFD.
func truncate(s string) string {
	if len(s) > maxText {
		return string([]rune(s[:maxText-3])) + "..."
	}
	return s
}

// versionForm matches the name of a version: PIPELINE-NUMBER-DIGEST with the first eight digits of the digest, or
// PIPELINE-NUMBER-tTERM-DIGEST if it was stored under a lease, so that two writers never share a name.
var versionForm = regexp.MustCompile(`^([A-Za-z0-9_-]+)-([0-9]+)(?:-t[0-9]+)?-[0-9a-f]{8}$`)

func nameOf(pipeline string, number int, term uint64, digest string) string {
	name := pipeline + "-" + strconv.Itoa(number)
	if term > 0 {
		name += "-t" + strconv.FormatUint(term, 10)
	}
	return name + "-" + digest[:8]
}

// PipelineOf returns the pipeline in the name of a version; "" and false if it is not the name of a version.
func PipelineOf(version string) (pipeline string, ok bool) {
	parts := versionForm.FindStringSubmatch(version)
	if parts == nil {
		return "", false
	}
	return parts[1], true
}

// numberOf returns the number in the name of a version; 0 if it is not the name of a version.
func numberOf(version string) int {
	n, _ := strconv.Atoi(append(versionForm.FindStringSubmatch(version), "", "", "")[2])
	return n
}
