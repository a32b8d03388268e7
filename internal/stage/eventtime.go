package stage

import (
	"time"

	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/plugin/spec"
)

// eventTime is the event time of the messages of rows, or of those of labels.
type eventTime struct {
	trainer.EventTime
	kind   string    // messages or labels
	warned time.Time // when a change of the correction was last logged
}

// of returns the event time of a message. The caller holds the lock of the learner.
func (e *eventTime) of(l *learner, at spec.Position) time.Time {
	now := l.config.Clock()
	if at.Time.IsZero() {
		at.Time = now
	}
	t, changed := e.At(rowPosition(at, 0), at.Time.UnixNano(), now.UnixNano())
	if note := e.note(); changed && note != "" && now.Sub(e.warned) >= time.Minute {
		e.warned = now
		l.mu.warn(note)
	}
	return time.Unix(0, t)
}

// note says how timestamps are corrected now, "" if they are not.
func (e *eventTime) note() string { return e.Note(e.kind) }
