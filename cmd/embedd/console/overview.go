package console

import (
	"time"

	"github.com/embedd/embedd/stream"
)

// overview is the state of all pipelines of the process.
type overview struct {
	Time       time.Time `json:"time"`
	Connection string    `json:"connection,omitempty"` // what is wrong with it
	Pipelines  []summary `json:"pipelines"`
}

// summary is what the overview shows of a pipeline.
type summary struct {
	Pipeline   string              `json:"pipeline"`
	State      stream.State        `json:"state"`
	Since      time.Time           `json:"since"`             // of the state, or of the stall
	Stalled    bool                `json:"stalled,omitempty"` // input waits, it is ready, and none is answered
	Ready      bool                `json:"ready"`
	Reason     string              `json:"reason,omitempty"`
	IsTrainer  bool                `json:"is_trainer"`
	Fixed      bool                `json:"fixed"` // the model is a file
	Lag        *stream.Lag         `json:"lag"`
	Model      *stream.ReportModel `json:"model"`
	Rows       int                 `json:"rows"` // labelled, in the window
	Needed     int                 `json:"needed"`
	Accuracy   *float64            `json:"accuracy"`
	Messages   float64             `json:"messages"`  // answered since the start
	DeadRows   float64             `json:"dead_rows"` // that became dead letters since the start
	Conditions []stream.Condition  `json:"conditions,omitempty"`
	Doubts     []string            `json:"doubts,omitempty"` // about the accuracy of the live model
}

// stalledAfter is how long input waits without an answer in a pipeline that is stalled.
const stalledAfter = 15 * time.Second

// history is when the state of a pipeline changed and when it last made progress.
type history struct {
	last  *stream.Status
	since time.Time // of the state
	moved time.Time // when a message was answered, or none waited
}

// follow adds a status.
func (c *history) follow(s *stream.Status, now time.Time) {
	if c.last == nil || c.last.State != s.State {
		c.since = now.UTC()
	}
	if c.last == nil || c.last.Messages != s.Messages || !s.LagKnown || s.Lag == 0 {
		c.moved = now.UTC()
	}
	c.last = s
}

func overviewOf(status []stream.Status, histories map[string]*history, trouble string, now time.Time) overview {
	out := overview{Time: now.UTC(), Connection: trouble, Pipelines: []summary{}}
	for i := range status {
		s, r := &status[i], status[i].Report()
		c := histories[r.Pipeline]
		if c == nil {
			c = &history{}
			c.follow(s, now)
		}
		since, isStalled := c.since, r.Ready && now.Sub(c.moved) > stalledAfter
		if isStalled {
			since = c.moved
		}
		var doubts []string
		for _, u := range r.Learning.Unusual {
			if u.Kind.IsInaccurate() {
				doubts = append(doubts, u.Text)
			}
		}
		out.Pipelines = append(out.Pipelines, summary{Pipeline: r.Pipeline, State: r.State, Ready: r.Ready, Reason: r.Reason,
			Since: since, Stalled: isStalled,
			IsTrainer: r.IsTrainer, Fixed: s.FixedModel, Lag: r.Lag, Model: r.Model, Rows: r.Learning.Rows,
			Needed: r.Learning.Needed, Accuracy: r.Learning.Accuracy, Messages: r.Messages, DeadRows: r.DeadRows,
			Conditions: r.Conditions, Doubts: doubts})
	}
	return out
}
