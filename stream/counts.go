package stream

import (
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
)

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
