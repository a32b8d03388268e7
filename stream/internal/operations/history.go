package operations

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/embedd/embedd/stream/spec"
)

// The history of a pipeline: a step each HistoryStep for two hours. Its memory is 720 steps of 64 bytes, 46 KB.
const (
	HistoryStep  = 10 * time.Second
	historySteps = 720
)

// historyNames are the series of a history, in the order of step.
var historyNames = [...]string{"lag_messages", "lag_seconds", "messages_per_second", "dead_rows_per_second", "accuracy",
	"candidate", "evidence", "evidence_required", "last_fit_seconds", "window_rows", "alarms", "drift",
	"held_out", "effective_rows"}

// step is one point of each series, NaN where it is not known.
type step struct {
	at     int64 // seconds since 1970
	values [len(historyNames)]float32
}

// History keeps the newest steps of what the console's charts show. It outlives the pipeline's reopening.
type History struct {
	mu    sync.Mutex
	steps []step // a ring once it is full
	next  int    // the oldest of a full ring

	counted        time.Time // when messages and dead were read
	messages, dead float64
}

// Add appends a step.
func (h *History) Add(now time.Time, s *spec.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing := math.NaN()
	v := []float64{missing, missing, missing, missing, s.Stage.Accuracy, s.Stage.Candidate, s.Stage.Evidence,
		s.Stage.EvidenceRequired, s.Stage.LastFit.Seconds(), float64(s.Stage.Rows), float64(s.Stage.Alarms),
		s.Stage.Drift, s.Stage.HeldOut, s.Stage.EffectiveRows}
	if s.LagKnown {
		v[0], v[1] = float64(s.Lag), s.Oldest.Seconds()
	}
	if seconds := now.Sub(h.counted).Seconds(); !h.counted.IsZero() && seconds > 0 {
		v[2], v[3] = (s.Messages-h.messages)/seconds, (s.DeadRows-h.dead)/seconds
	}
	if s.Stage.Door == "" {
		v[6], v[7] = missing, missing
	}
	h.counted, h.messages, h.dead = now, s.Messages, s.DeadRows
	one := step{at: now.Unix()}
	for i := range one.values {
		one.values[i] = float32(v[i])
	}
	if len(h.steps) < historySteps {
		h.steps = append(h.steps, one)
		return
	}
	h.steps[h.next] = one
	h.next = (h.next + 1) % historySteps
}

// Series are the steps of a history.
type Series struct {
	Pipeline string `json:"pipeline"`
	// StepSeconds is the time between two steps. Processes that were not running have none.
	StepSeconds int                  `json:"step_seconds"`
	Time        []int64              `json:"time"`   // seconds since 1970
	Series      map[string][]Decimal `json:"series"` // a number for each time, null where it is not known
}

func history(p *Pipeline, _ context.Context, _ *Request) (any, error) {
	if err := p.onlyTrainer(); err != nil {
		return nil, err
	}
	h := p.History
	h.mu.Lock()
	defer h.mu.Unlock()
	out := Series{p.Name, int(HistoryStep / time.Second), []int64{}, map[string][]Decimal{}}
	for _, name := range historyNames {
		out.Series[name] = []Decimal{}
	}
	for i := range h.steps {
		one := &h.steps[(h.next+i)%len(h.steps)]
		out.Time = append(out.Time, one.at)
		for k, name := range historyNames {
			out.Series[name] = append(out.Series[name], Decimal(one.values[k]))
		}
	}
	return out, nil
}
