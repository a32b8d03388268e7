package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// TestDeadLettersPage: the commands in docs/how-to/replay-dead-letters.md exist.
func TestDeadLettersPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/replay-dead-letters.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.Lines(string(page)) {
		args := strings.Fields(strings.Split(line, "#")[0])
		if len(args) == 0 || args[0] != "embedd" {
			continue
		}
		shown++
		cmd, rest, err := newRoot(&cli.Env{}).Find(args[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || cmd.Run == nil && cmd.RunE == nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if shown < 4 {
		t.Errorf("%d commands are shown", shown)
	}
}

// TestParseTime: --since and --until take a time, or a duration before now.
func TestParseTime(t *testing.T) {
	for value, want := range map[string]time.Time{"2026-01-02T15:04:05Z": time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC),
		"1h": time.Now().Add(-time.Hour)} {
		if at, err := parseTime(value); err != nil || at.Sub(want).Abs() > time.Minute {
			t.Errorf("%s is %v: %v", value, at, err)
		}
	}
	if _, err := parseTime("yesterday"); err == nil {
		t.Error("yesterday is a time")
	}
}

// TestChosen: a number selects a dead letter, another word a pipeline.
func TestChosen(t *testing.T) {
	for args, want := range map[string]string{"": "", "digits": "digits", "p-1": "p-1", "17": ""} {
		pipeline, numbers, err := chosen(strings.Fields(args))
		if pipeline != want || err != nil || (args == "17") != (len(numbers) == 1 && numbers[0] == 17) {
			t.Errorf("%q: pipeline %q, %v, %v", args, pipeline, numbers, err)
		}
	}
	for _, args := range []string{"17 digits", "0", "digits 17", "a b"} {
		if _, _, err := chosen(strings.Fields(args)); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
