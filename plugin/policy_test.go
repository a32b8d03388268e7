package plugin

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDecisions replays transcripts: every line is an event, what follows "->" is what the policy or the gate must say.
func TestDecisions(t *testing.T) {
	files, err := filepath.Glob("testdata/decisions/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) { replay(t, name) })
	}
}

// transcript is what the events of a file act on.
type transcript struct {
	policy policy
	rows   int // in the window
	live   bool
	gate   Gate
	trial  standing
	agree  agreement
}

func replay(t *testing.T, name string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s transcript
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		event, want, asked := strings.Cut(text, "->")
		words := strings.Fields(event)
		if len(words) == 0 {
			continue
		}
		arg := map[string]string{}
		for _, w := range words[1:] {
			k, v, _ := strings.Cut(w, "=")
			arg[k] = v
		}
		got := s.event(t, words[0], arg)
		if want = strings.TrimSpace(want); asked && got != want {
			t.Errorf("%s:%d: %s\n got %s\nwant %s", name, n, strings.TrimSpace(event), got, want)
		}
	}
}

func (s *transcript) event(t *testing.T, name string, arg map[string]string) string {
	p := &s.policy
	at := time.Unix(0, 0).Add(duration(t, arg["at"]))
	switch name {
	case "policy":
		*s = transcript{policy: policy{every: Every{Rows: integer(t, arg["rows"]), Period: duration(t, arg["period"])},
			features: integer(t, arg["features"]), nested: arg["nested"] != "no"}}
	case "learn":
		p.learn(integer(t, arg["rows"]), arg["class"] == "new", at)
		s.rows += integer(t, arg["rows"])
		return s.decide()
	case "tick":
		p.tick(at)
		return s.decide()
	case "asked":
		p.ask()
		return s.decide()
	case "cut":
		s.rows = integer(t, arg["rows"])
		p.cut(s.rows)
		return s.decide()
	case "lead":
		p.Suffix = integer(t, arg["suffix"])
		return s.decide()
	case "gate":
		s.gate = Gate{Evidence: number(t, arg["evidence"]), Margin: number(t, arg["margin"])}
	case "trial":
		s.trial = standing{Test: s.gate.begin(arg["rows"] == "twice"), Growing: arg["rows"] == "twice"}
		s.agree = agreement{}
	case "rows": // so many rows that candidate and live model are right about: both, one of the two, none
		kinds := []string{"both", "candidate", "live", "none"}
		total, done := 0, map[string]int{}
		for _, kind := range kinds {
			total += integer(t, arg[kind])
		}
		for i := range total { // evenly mixed
			for _, kind := range kinds {
				if n := integer(t, arg[kind]); done[kind]*total < n*(i+1) {
					s.scored(kind, done[kind])
					done[kind]++
				}
			}
		}
		pass, reason := s.gate.passes(s.trial, &s.agree)
		if pass {
			return "promote: " + reason
		}
		return "keep: " + reason
	default:
		t.Fatalf("unknown event %s", name)
	}
	return ""
}

// scored takes one row of one of two classes.
func (s *transcript) scored(kind string, i int) {
	label, other := "a", "b"
	if i%2 == 0 {
		label, other = other, label
	}
	switch kind {
	case "both":
		s.trial.Test.Add(0)
		s.agree.add(1, label, label)
	case "candidate":
		s.trial.Test.Add(1)
		s.agree.add(1, label, label)
	case "live":
		s.trial.Test.Add(-1)
		s.agree.add(0, label, other)
	case "none":
		s.trial.Test.Add(0)
		s.agree.add(0, label, other)
	}
}

// decide says what the policy fits now, and takes it as done.
func (s *transcript) decide() string {
	if !s.live {
		if !s.policy.first(s.rows) {
			return "wait"
		}
		s.live = true
		s.policy.began([]int{0}, s.rows)
		return "first"
	}
	due := s.policy.due(s.rows)
	s.policy.began(due, s.rows)
	if len(due) == 0 {
		return "wait"
	}
	text := "fit"
	for _, size := range due {
		if size == 0 {
			text += " all"
		} else {
			text += fmt.Sprint(" ", size)
		}
	}
	return text
}

func duration(t *testing.T, text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func integer(t *testing.T, text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func number(t *testing.T, text string) float64 {
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
