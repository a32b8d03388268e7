package stream

import (
	"strconv"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
)

// countOutcome counts the outcome of a candidate.
func (p *pipeline) countOutcome(f plugin.Outcome) {
	result := "refused"
	switch {
	case f.Err != nil:
		result = "failed"
	case f.Promoted:
		result = "promoted"
		p.showLive(f.Live)
		p.Series.Observe(health.FitSeconds, f.Duration.Seconds())
		p.Series.Set(health.Displacement, f.Displacement)
	}
	p.Series.Add(health.Outcomes, 1, result)
}

// showLive sets the metric of the live model.
func (p *pipeline) showLive(l *plugin.Live) {
	p.Series.Replace(health.Model, 1, l.Version, l.Model.Method(), strconv.Itoa(l.Epoch))
}

// countJoined adds to the metrics of late labels what changed between two reads of their status.
func (p *pipeline) countJoined(before, now plugin.LabelStatus) {
	for _, c := range []struct {
		result      string
		before, now uint64
	}{
		{"joined", before.Joined, now.Joined}, {"corrected", before.Corrected, now.Corrected},
		{"duplicate", before.Duplicate, now.Duplicate}, {"late", before.Late, now.Late},
		{"expired", before.Expired, now.Expired}, {"skip", before.Skipped, now.Skipped},
	} {
		p.Series.Add(health.Labels, float64(c.now-c.before), c.result)
	}
	p.Series.Set(health.LabelsWaiting, float64(now.Rows), "rows")
	p.Series.Set(health.LabelsWaiting, float64(now.Early), "labels")
	p.Series.Set(health.LabelBytes, float64(now.Bytes))
}

// noteLetters counts and logs the dead letters of an answer that was stored.
func (p *pipeline) noteLetters(a *answer) {
	for _, l := range a.letters {
		p.letterLog.Add(&l.Letter)
	}
}
