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
}

func overviewOf(status []stream.Status, trouble string, now time.Time) overview {
	out := overview{Time: now.UTC(), Connection: trouble, Pipelines: []summary{}}
	for _, s := range status {
		r := s.Report()
		out.Pipelines = append(out.Pipelines, summary{Pipeline: r.Pipeline, State: r.State, Ready: r.Ready, Reason: r.Reason,
			IsTrainer: r.IsTrainer, Fixed: s.FixedModel, Lag: r.Lag, Model: r.Model, Rows: r.Learning.Rows,
			Needed: r.Learning.Needed, Accuracy: r.Learning.Accuracy, Messages: r.Messages, DeadRows: r.DeadRows,
			Conditions: r.Conditions})
	}
	return out
}
