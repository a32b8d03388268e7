package main

import (
	"fmt"
	"strings"

	"github.com/embedd/embedd/tools/learning/trial"
)

// tables are all the figures.
func tables(all []*figures, trials [][]*trial.Result) string {
	text := ""
	if len(all) > 0 {
		text = boundTable(all) + reachTable(all) + promotionTable(all)
	}
	if len(trials) > 0 {
		text += trialTable(trials)
	}
	return text
}

func boundTable(all []*figures) string {
	var lines strings.Builder
	found, held := bounds(all), 0
	for _, c := range found {
		holds := "**no**"
		if c.Holds {
			holds = "yes"
			held++
		}
		fmt.Fprintf(&lines, "| %s | %s | %s | %s | %s |\n", c.What, c.Stream, c.Limit, c.Found, holds)
	}
	return fmt.Sprintf(`## Bounds

%d of %d hold.

| what | stream | at most | found | holds |
|---|---|---|---|---|
%s`, held, len(found), lines.String())
}

func reachTable(all []*figures) string {
	var b strings.Builder
	b.WriteString(`
## Accuracy

| stream | at first: frozen | embedd | oracle | below | later: frozen | embedd | oracle | below | worst loss |
|---|---|---|---|---|---|---|---|---|---|
`)
	for _, f := range all {
		fmt.Fprintf(&b, "| %s |", f.Name)
		for _, r := range []accuracies{f.Early, f.Settled} {
			fmt.Fprintf(&b, " %.1f | %.1f | %.1f | %s |", 100*r.Frozen.Mean, 100*r.Live.Mean, 100*r.Oracle.Mean,
				points(r.Gap))
		}
		fmt.Fprintf(&b, " %s |\n", points(f.Loss))
	}
	return b.String()
}

func promotionTable(all []*figures) string {
	var b strings.Builder
	b.WriteString(`
## Promotions and coordinates

| stream | first model after | alarms | promotions | late | lost > 1 | > 2 | worst | epochs | separate | they lose` +
		` | within | widths | stored | moved | strayed |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	var epochs separation
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %.0f | %.1f | %.1f | %.1f | %d | %d | %s | %.1f | %s | %s | %s | %s | %s |\n", f.Name,
			f.First.Mean,
			f.Alarms.Mean, f.Promotions.Mean, f.LatePromotions.Mean, f.LostOne, f.LostTwo, inPoints(f.Worst),
			f.Epochs.Mean, f.Separate.cells(),
			strings.Trim(fmt.Sprint(f.Widths), "[]"), most(f.Stored, 100), most(f.Moved, 1), most(f.Strayed, 1))
		epochs.merge(f.Separate)
	}
	b.WriteString(epochs.sentence())
	return b.String()
}

// thousands writes 40000 as 40,000.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
