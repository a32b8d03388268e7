package ratelog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var l Limiter
	for range 5 {
		l.Warn(log, "again")
	}
	if n := strings.Count(out.String(), "msg=again"); n != 1 {
		t.Errorf("%d of five in a row are logged", n)
	}
	l.last = l.last.Add(-time.Minute)
	l.Warn(log, "again")
	if !strings.Contains(out.String(), "suppressed=4") {
		t.Errorf("the next is %s", out.String())
	}
	l.Warn(log, "again")
	out.Reset()
	for range 2 { // the second time nothing was suppressed since
		l.Flush(log, "the rest")
	}
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "suppressed=1") {
		t.Errorf("the rest is logged as %q", text)
	}
}
