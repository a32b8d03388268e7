package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model"
)

// TestMembersThatAreListedAgain: the report of a fit has the reason why a blend has a member twice.
func TestMembersThatAreListedAgain(t *testing.T) {
	lda := model.Member{Method: "lda", Scale: model.ScaleStandard, Dim: 2, Params: map[string]string{"ridge": "1"}}
	other := lda
	other.Scale = model.ScaleNone
	for again, members := range map[bool][]model.Member{false: {lda, other}, true: {lda, other, lda}} {
		var text bytes.Buffer
		out := report.Flag(cli.FlagsOf(&cobra.Command{}), &cli.Env{Stdout: &text})
		if err := printChoice(out, &model.Choice{Rule: "cv", Method: "blend", Dim: 4, Members: members,
			Scores: []model.Score{{Method: "blend", Dim: 4, Scored: 9}}}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text.String(), "listed again"); got != again {
			t.Errorf("%d members: %s", len(members), &text)
		}
	}
}
