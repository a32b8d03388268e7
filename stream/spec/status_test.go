package spec

import (
	"testing"
	"time"
)

// TestReportOfClocksThatDiffer: a newest row whose timestamp is ahead of the clock is not a negative time behind.
func TestReportOfClocksThatDiffer(t *testing.T) {
	s := Status{}
	s.Stage.Newest = time.Now().Add(time.Hour)
	if behind := s.Report().Learning.BehindSeconds; behind == nil || *behind != 0 {
		t.Errorf("behind by %v, want 0", behind)
	}
}
