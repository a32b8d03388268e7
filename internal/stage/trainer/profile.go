package trainer

import (
	"log/slog"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/internal/stage/profile"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

const (
	// A profile is made again when profileRows rows, or a sixteenth of the window, have arrived since the last one, so
	// that each row is described a limited number of times.
	profileRows  = 100
	profileShare = 16 // of the rows of the window, the part after which its profile is made again
	// minSeenRows is the number of rows that make a label a class of the stream.
	minSeenRows = 10
)

// description is the last profile of the window, for the status. No decision depends on it.
type description struct {
	profile.Profile
	arrived int // rows since it was made
	absent  int // classes of the stream without rows in the window
	unusual []spec.Unusual
	logged  map[spec.UnusualKind]bool
}

// isDue reports whether the profile is to be made again.
func (d *description) isDue(w *window.Window) bool {
	return w != nil && d.arrived >= max(profileRows, w.Len()/profileShare)
}

// update makes the profile again, and logs what is unusual, each kind once.
func (d *description) update(w *window.Window, s profile.Stream, pause func(), log *slog.Logger) {
	d.arrived = 0
	d.Profile = profile.Of(w, pause)
	d.absent, d.unusual = len(d.Absent(s.Seen)), d.Unusual(s)
	for _, u := range d.unusual {
		if d.logged[u.Kind] {
			continue
		}
		if d.logged == nil {
			d.logged = map[spec.UnusualKind]bool{}
		}
		d.logged[u.Kind] = true
		if u.Kind == spec.UnusualOutputs {
			log.Warn("the model has few outputs for its classes", "description", u.Text)
		} else {
			log.Info("the stream is unusual", "kind", u.Kind, "description", u.Text)
		}
	}
}

// seenClasses lists the classes that the scored rows had lately.
func seenClasses(s *evidence.LabelSequence) (labels []string) {
	for label, n := range s.Rows {
		if n >= minSeenRows {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	return labels
}

// addTo adds the description to a status.
func (d *description) addTo(s *spec.Status) {
	s.ClassesSeen = s.Classes + d.absent
	s.RunRows, s.HasRuns = d.RunRows(), d.HasRuns()
	s.EffectiveRows, s.LabelledShare = math.NaN(), math.NaN()
	if s.LabelsSuspect {
		s.Unusual = append(s.Unusual, profile.LabelsSuspect)
	}
	s.Unusual = append(s.Unusual, d.unusual...)
}
