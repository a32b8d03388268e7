package stream

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestSparing(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var s sparing
	for range 5 {
		s.warn(log, "again")
	}
	if n := strings.Count(out.String(), "msg=again"); n != 1 {
		t.Errorf("of five in a row %d are told", n)
	}
	s.last = s.last.Add(-time.Minute)
	s.warn(log, "again")
	if !strings.Contains(out.String(), `"left out since the last"=4`) {
		t.Errorf("the next says %s", out.String())
	}
}
