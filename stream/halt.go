package stream

import (
	"fmt"

	"github.com/embedd/embedd/stream/internal/health"
)

// judge halts the pipeline where this answer is one dead letter too many. A message is bad where none of its rows could
// be answered.
func (p *relay) judge(a *answer) {
	bad := len(a.letters) > 0 && a.rows.Out+a.rows.Pass+a.rows.Skip == 0
	what := ""
	if bad {
		what = a.letters[0].Error
	}
	if p.halt.Record(bad, what) {
		p.Series.Set(health.Halted, 1)
		p.Log.Error("halted: too many messages are bad", "reason", p.haltReason())
	}
}

// haltReason is the sentence of status and readiness, "" while the pipeline is not halted.
func (p *relay) haltReason() string {
	why := p.halt.Reason()
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s; nothing is answered and nothing is lost until `embedd resume %s` or a restart; `embedd dlq "+
		"ls %s` lists them",
		why, p.Name, p.Name)
}

// unhalt lets a halted pipeline go on.
func (p *relay) unhalt() bool {
	if !p.halt.Resume() {
		return false
	}
	p.Series.Set(health.Halted, 0)
	p.Log.Info("resumed")
	return true
}
