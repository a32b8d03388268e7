package health

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStaleness replays the transcripts in testdata/staleness: a line is the time since the start, an event, and the
// age after it.
func TestStaleness(t *testing.T) {
	files, err := filepath.Glob("testdata/staleness/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		now := start
		s := NewFreshness(0, func() time.Time { return now })
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			event, want, _ := strings.Cut(line, "->")
			words := strings.Fields(event)
			after, err := time.ParseDuration(words[0])
			if err != nil {
				t.Fatalf("%s:%d: %v", path, i+1, err)
			}
			now = start.Add(after)
			switch words[1] {
			case "max_age":
				s.maxAge = duration(t, words[2])
			case "chosen":
				s.Replace(start.Add(duration(t, words[2])))
			case "judged":
				s.Confirm(start.Add(duration(t, words[2])))
			case "tick":
			default:
				t.Fatalf("%s:%d: no event %s", path, i+1, words[1])
			}
			age, isStale := s.Age()
			if staleAge, is := s.Stale(); is != isStale || is && staleAge != age {
				t.Errorf("%s:%d: after %s Stale returns %v, %t, and Age %v, %t", path, i+1, event, staleAge, is, age, isStale)
			}
			got := fmt.Sprintf("age %v", age)
			if isStale {
				got += " stale"
			}
			if got != strings.TrimSpace(want) {
				t.Errorf("%s:%d: after %s it is %q, want %q", path, i+1, event, got, strings.TrimSpace(want))
			}
		}
	}
}

// TestAgeAfterAClockStep: when a model was confirmed has a monotonic reading, so that its age is right after the wall
// clock was set.
func TestAgeAfterAClockStep(t *testing.T) {
	before := time.Now().Add(-time.Hour).Round(0)
	f := NewFreshness(0, time.Now)
	for name, record := range map[string]func(time.Time){"Replace": f.Replace, "Confirm": f.Confirm} {
		f.confirmed = time.Time{}
		record(before)
		if f.confirmed == f.confirmed.Round(0) {
			t.Errorf("%s: no monotonic reading in %v", name, f.confirmed)
		}
		if age, _ := f.Age(); age < time.Hour || age > time.Hour+time.Minute {
			t.Errorf("%s: the age is %v, want an hour", name, age)
		}
	}
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
