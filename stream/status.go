package stream

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/embedd/embedd/plugin"
)

// Status is how one pipeline stands.
type Status struct {
	Pipeline string
	State    State
	Ready    bool          // an input would be answered now, as the configuration says
	Reason   string        // the state in a sentence; "" where the word says all
	Counted  bool          // Lag and Oldest are known: of the replicas of a pipeline one asks, which learns
	Lag      uint64        // messages of the input that are not answered
	Oldest   time.Duration // age of the oldest of them
	// what last happened to the input stream that learning had to follow, with the time; "" where nothing did
	Learning string
	// what happened to the models of the store before the start (damage, or other features), and why the model that is live
	// there does not answer here; "" where nothing did
	Store  string
	Role   Role
	Held   *int      // partitions that this process holds; nil where there are none
	Learns bool      // this process fits; of the replicas of a pipeline that share a lease one does
	Others string    // who learns where this process does not, a sentence; "" where it does
	Hub    string    // domain that has the models, where that is not the server's own
	Heard  time.Time // when it last said what is live; zero where it has not yet
	Term   uint64    // under which this process learns; 0: it does not, or there are no leases
	// Revision is that of the newest pointer of the model store that this process lives with.
	Revision uint64
	Stage    plugin.Status
	Busy     float64            // share of the last seconds in which there were inputs to answer
	Age      time.Duration      // since the live model was last found good: made, or judged on a labelled row and kept
	Stale    bool               // the age is over MaxAge
	Labels   plugin.LabelStatus // zero where labels come with their rows

	Halted   string // why nothing is answered until somebody resumes it; "" while it is
	SetAside int    // messages that are not learned from, since the process died of each
	Stopped  bool   // nothing is learned any more, since the process died of it again and again; Learning says it
	Parked   int    // inputs that cannot leave in any form now
	ParkedBy string // why the last of them cannot

	fixed bool // the model is a file's
	joins bool // labels come apart from their rows
}

// Status tells how the pipelines stand; empty before Run has opened them.
func (e *Engine) Status() []Status {
	e.mu.Lock()
	running := e.running
	e.mu.Unlock()
	var out []Status
	for _, p := range running {
		out = append(out, p.status())
	}
	return out
}

func (p *pipeline) status() Status {
	s := Status{Pipeline: p.Name, Stage: p.stage.Status(), Labels: p.stage.LabelStatus(),
		fixed: p.Stage.Fixed != nil, joins: p.joins()}
	if store := p.store.Load(); store != nil {
		s.Store = *store
	}
	s.Role, s.Learns, s.Others, s.Term = p.Role, p.stage.Learns() && p.mayFit(), p.standingText(), p.tenure.term()
	if p.hub != nil {
		s.Hub, s.Heard = p.hub.Domain(), p.hub.Heard()
	}
	if p.models != nil {
		s.Revision = p.models.Revision()
		if trouble := p.models.Trouble(); trouble != "" {
			s.Store = strings.TrimPrefix(s.Store+"; "+trouble, "; ")
		}
	}
	if p.Partitions > 0 {
		held := int(p.held.Load())
		s.Held = &held
	}
	s.Age, s.Stale = p.age()
	s.Busy = p.spare.busy()
	s.Halted = p.haltReason()
	s.Parked, s.ParkedBy = p.parked.standing(time.Now())
	if turn := p.turn.Load(); turn != nil {
		s.Learning = *turn
	}
	if c := p.care.Load(); c != nil {
		s.SetAside, s.Stopped = int(c.aside.Load()), c.stopped.Load()
	}
	s.Lag, s.Oldest, s.Counted = p.lag()
	s.State, s.Reason = p.state(&s)
	s.Ready = slices.Contains(readyStates, s.State)
	return s
}

// lag is how many inputs are not answered, as was last seen, and how old the oldest of them is, where this replica asks.
func (p *pipeline) lag() (messages uint64, age time.Duration, known bool) {
	var oldest time.Time
	known = true
	if s := p.sight.Load(); s != nil {
		messages, oldest, known = s.lag, s.oldest, s.counted
	} else if q := p.waiting.Load(); q != nil {
		first, n := q.first()
		if messages = uint64(n); n > 0 {
			oldest = first.time
		}
	}
	if !oldest.IsZero() {
		age = max(0, time.Since(oldest))
	}
	return messages, age, known
}

// Report is a status in the form in which it travels.
type Report struct {
	Pipeline string       `json:"pipeline"`
	Instance string       `json:"instance,omitempty"` // the service that says it, where several run the pipeline
	Ready    bool         `json:"ready"`
	State    State        `json:"state"`
	Reason   string       `json:"reason,omitempty"` // the state in a sentence
	Lag      *Lag         `json:"lag"`              // null where another replica asks, the one that learns
	Model    *ReportModel `json:"model"`            // null before the first
	Halted   bool         `json:"halted,omitempty"` // too many messages were bad; reason says it
	Parked   *Parked      `json:"parked,omitempty"` // what cannot leave in any form now
	Role     Role         `json:"role"`
	Held     *int         `json:"partitions,omitempty"` // that this process holds, where there are some
	Learns   bool         `json:"learns"`               // this process fits
	Others   string       `json:"others,omitempty"`     // who learns where it does not
	Term     uint64       `json:"term,omitempty"`       // of the lease under which it does
	Revision uint64       `json:"revision,omitempty"`   // of the model store's pointer that it lives with
	Store    string       `json:"store,omitempty"`      // what happened to the models of the store before the start
	Hub      *Hub         `json:"hub,omitempty"`        // where the models come from one
	Learning Learning     `json:"learning"`
	Labels   *Labels      `json:"labels,omitempty"` // where labels come apart from their rows
}

// Hub is the domain whose models a leaf node mirrors.
type Hub struct {
	Domain string     `json:"domain"`
	Heard  *time.Time `json:"heard"` // when it last said what is live; null where it has not yet
}

// Lag is what is not answered.
type Lag struct {
	Messages uint64  `json:"messages"`
	Seconds  float64 `json:"seconds"` // age of the oldest
}

// ReportModel is the live model.
type ReportModel struct {
	Version    string  `json:"version"`
	Method     string  `json:"method"`
	Dim        int     `json:"dim"`
	Epoch      int     `json:"epoch"`
	Bootstrap  bool    `json:"bootstrap"` // the PCA that serves until a first model exists
	Pinned     bool    `json:"pinned"`
	AgeSeconds float64 `json:"age_seconds"`
	Stale      bool    `json:"stale"`
}

// Parked is what cannot leave in any form now: its dead letters are not taken.
type Parked struct {
	Messages int    `json:"messages"`
	Reason   string `json:"reason"` // of the last
}

// Learning is how far the learning side is.
type Learning struct {
	Rows     int   `json:"rows"` // labelled rows in the window
	Classes  int   `json:"classes"`
	Bytes    int64 `json:"bytes"`
	Needed   int   `json:"needed"`   // labelled rows that make a first model due
	Backlog  int   `json:"backlog"`  // labelled rows that wait to be learned from
	Dropped  int   `json:"dropped"`  // labelled rows that came too fast
	Overfull int   `json:"overfull"` // labelled rows of a class too many
	Sparse   int   `json:"sparse"`   // rows in the window whose class has too few of them to enter a fit
	Far      int   `json:"far"`      // rows so far that enter no fit: a feature is too far from where the others have it
	Capped   int   `json:"capped"`   // rows that left the window since their source had its share; see training.quota
	// which far row is the newest, a sentence
	FarRow  string `json:"far_row,omitempty"`
	Fitting bool   `json:"fitting"`
	Filling bool   `json:"filling"` // the window is filled again after a restart

	Accuracy      *float64 `json:"accuracy"`  // of the live model on rows before they were learned; null: not known yet
	Chance        *float64 `json:"chance"`    // what it would be if labels meant nothing
	Candidate     *float64 `json:"candidate"` // accuracy of the candidate for which most speaks
	CandidateRows int      `json:"candidate_rows"`
	Evidence      float64  `json:"evidence"` // how much speaks for it

	Clock          string  `json:"clock,omitempty"` // where messages are stamped ahead of this machine's clock
	Alarms         int     `json:"alarms"`          // changes of the rows that cut the window
	Fits           int     `json:"fits"`
	LastFitSeconds float64 `json:"last_fit_seconds"`
	LastFit        string  `json:"last_fit,omitempty"` // what came of it
	Input          string  `json:"input,omitempty"`    // what last happened to the input stream
}

// Labels is how labels that come apart from their rows meet them; see [plugin.LabelStatus], whose figures these are.
type Labels struct {
	Joined    uint64 `json:"joined"`
	Corrected uint64 `json:"corrected"`
	Duplicate uint64 `json:"duplicate"`
	Late      uint64 `json:"late"`
	Expired   uint64 `json:"expired"`  // rows
	Repeated  uint64 `json:"repeated"` // rows that replaced one of their key
	Skipped   uint64 `json:"skipped"`  // labels without key or text
	Keyless   uint64 `json:"keyless"`  // rows without a key
	Rows      int    `json:"rows_waiting"`
	Early     int    `json:"labels_waiting"`
	Bytes     int64  `json:"bytes"`
	Note      string `json:"note,omitempty"` // why they do not meet, and what to do
}

// Report is the status for others.
func (s Status) Report() Report {
	g := s.Stage
	r := Report{Pipeline: s.Pipeline, State: s.State, Ready: s.Ready, Reason: s.Reason, Halted: s.Halted != "",
		Store: s.Store,
		Role:  s.Role, Held: s.Held, Learns: s.Learns, Others: s.Others, Term: s.Term, Revision: s.Revision,
		Learning: Learning{Rows: g.Rows, Classes: g.Classes, Bytes: g.Bytes, Needed: g.Needed, Backlog: g.Backlog,
			Dropped: g.Dropped, Overfull: g.Overfull, Sparse: g.Sparse, Far: g.Far, FarRow: g.FarRow,
			Capped: g.Capped, Clock: g.Clock, Fitting: g.Fitting, Filling: g.Filling,
			Accuracy: known(g.Accuracy), Chance: known(g.Chance), Candidate: known(g.Candidate),
			CandidateRows: g.CandidateRows, Evidence: g.Evidence, Alarms: g.Alarms, Fits: g.Fits,
			LastFitSeconds: g.LastFit.Seconds(), LastFit: g.Note, Input: s.Learning}}
	if s.Hub != "" {
		r.Hub = &Hub{Domain: s.Hub}
		if !s.Heard.IsZero() {
			r.Hub.Heard = &s.Heard
		}
	}
	if s.Counted {
		r.Lag = &Lag{s.Lag, s.Oldest.Seconds()}
	}
	if s.Parked > 0 {
		r.Parked = &Parked{s.Parked, s.ParkedBy}
	}
	if l := s.Labels; s.joins {
		r.Labels = &Labels{Joined: l.Joined, Corrected: l.Corrected, Duplicate: l.Duplicate, Late: l.Late,
			Expired: l.Expired, Repeated: l.Repeated, Skipped: l.Skipped, Keyless: l.Keyless, Rows: l.Rows,
			Early: l.Early,
			Bytes: l.Bytes, Note: l.Note}
	}
	if l := g.Live; l != nil {
		r.Model = &ReportModel{Version: l.Version, Method: l.Model.Method(), Dim: l.Model.Dim(), Epoch: l.Epoch,
			Bootstrap: l.Bootstrap, Pinned: g.Pinned, AgeSeconds: s.Age.Seconds(), Stale: s.Stale}
	}
	return r
}

// known is a figure for JSON, nil where there is none.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
