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

func replay(t *testing.T, name string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var p policy
	start := time.Unix(0, 0)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		event, want, _ := strings.Cut(text, "->")
		words := strings.Fields(event)
		if len(words) == 0 {
			continue
		}
		arg := map[string]string{}
		for _, w := range words[1:] {
			k, v, _ := strings.Cut(w, "=")
			arg[k] = v
		}
		at := start.Add(duration(t, arg["at"]))
		got := ""
		switch words[0] {
		case "every":
			p.every = Every{Rows: integer(t, arg["rows"]), Period: duration(t, arg["period"])}
			continue
		case "learn":
			p.learned(integer(t, arg["rows"]), at)
			got = decide(&p, arg["trainable"] != "no")
		case "tick":
			p.tick(at)
			got = decide(&p, arg["trainable"] != "no")
		case "asked":
			p.asked()
			got = decide(&p, arg["trainable"] != "no")
		case "done":
			p.ended()
			got = decide(&p, true)
		case "judge":
			e := evidence{candidate: parseScore(t, arg["candidate"])}
			if arg["live"] != "" {
				s := parseScore(t, arg["live"])
				e.live = &s
			}
			if arg["margin"] != "" {
				e.margin, err = strconv.ParseFloat(arg["margin"], 64)
				if err != nil {
					t.Fatal(err)
				}
			}
			ok, reason := judge(e)
			got = map[bool]string{true: "promote: ", false: "keep: "}[ok] + reason
		default:
			t.Fatalf("%s:%d: unknown event %q", name, n, words[0])
		}
		if want = strings.TrimSpace(want); got != want {
			t.Errorf("%s:%d: %s\n got  %s\n want %s", name, n, strings.TrimSpace(event), got, want)
		}
	}
}

func decide(p *policy, trainable bool) string {
	if p.due(trainable) {
		p.began()
		return "fit"
	}
	return "wait"
}

func parseScore(t *testing.T, s string) (out heldOutScore) {
	t.Helper()
	if _, err := fmt.Sscanf(s, "%g/%d", &out.Value, &out.Rows); err != nil {
		t.Fatalf("score %q: %v", s, err)
	}
	return out
}

func integer(t *testing.T, s string) int {
	t.Helper()
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
