package plugin

import (
	"fmt"
	"time"
)

// Every says how often a model is fitted anew: after Rows labelled rows or after Period with at least one new labelled
// row, whichever comes first. A zero field never fires.
type Every struct {
	Rows   int
	Period time.Duration
}

// policy decides when to fit. It is a pure function of its events in virtual time: no clock, no goroutine, no lock,
// so that a transcript of events is a complete test of it.
type policy struct {
	every Every

	rows    int       // labelled rows since the last fit began
	since   time.Time // when the first of them arrived
	now     time.Time // latest time that any event brought
	fitting bool
	wanted  bool // the host asked for a fit that has not begun
}

// learned records rows labelled rows that arrived at the given time. Rows that are read again after a restart, up to
// where the live model already looked, are not counted: the caller does not report them.
func (p *policy) learned(rows int, at time.Time) {
	p.tick(at)
	if rows > 0 && p.rows == 0 {
		p.since = p.now
	}
	p.rows += rows
}

// tick moves the virtual time; it never moves backwards.
func (p *policy) tick(at time.Time) {
	if at.After(p.now) {
		p.now = at
	}
}

// asked records that the host wants a fit, whatever the counts say.
func (p *policy) asked() { p.wanted = true }

// due tells whether a fit should begin now. trainable says whether the window can be fitted at all: for a supervised
// method two classes of two rows.
func (p *policy) due(trainable bool) bool {
	if p.fitting || !trainable || p.rows == 0 && !p.wanted {
		return false
	}
	if p.wanted {
		return true
	}
	if p.every.Rows > 0 && p.rows >= p.every.Rows {
		return true
	}
	return p.every.Period > 0 && p.now.Sub(p.since) >= p.every.Period
}

// began records that a fit has begun: what arrives from now on counts towards the next one.
func (p *policy) began() { p.fitting, p.rows, p.wanted = true, 0, false }

// ended records that the fit is over, whatever came of it. A fit that is due by then begins at once, with the window
// as it is, so a slow fit makes fits rarer and never piles them up.
func (p *policy) ended() { p.fitting = false }

// heldOutScore is what the held-out rows say of one model: with labels the share of them whose nearest reference row
// has their class, without labels the share of their variance that the projection keeps.
type heldOutScore struct {
	Value float64
	Rows  int // held-out rows that were judged
}

// evidence is all that the gate looks at.
type evidence struct {
	candidate heldOutScore
	live      *heldOutScore // nil: no model is live, or the live one is the stand-in until a first model exists
	margin    float64
}

// judge is the gate. A candidate goes live when its score on the held-out rows is not below the live model's, on the
// same rows, plus the margin (Invariant 8). Without a live model it goes live as it is; without held-out rows nothing
// speaks for it, and the live model stays.
func judge(e evidence) (promote bool, reason string) {
	c := e.candidate
	switch {
	case e.live == nil && c.Rows == 0:
		return true, "first model; no held-out rows to judge it on"
	case e.live == nil:
		return true, fmt.Sprintf("first model; held-out score %.4f on %d rows", c.Value, c.Rows)
	case c.Rows == 0:
		return false, "no held-out rows to judge the candidate on"
	}
	l := *e.live
	promote = c.Value >= l.Value+e.margin
	verdict := "not below"
	if !promote {
		verdict = "below"
	}
	return promote, fmt.Sprintf("held-out score %.4f is %s the live model's %.4f plus margin %g, on %d rows",
		c.Value, verdict, l.Value, e.margin, c.Rows)
}
