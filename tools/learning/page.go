package main

import (
	"fmt"
	"strings"

	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

const preamble = `# Learning

Measurements of training on streams with concept drift, for readers who want to know how fast and how safely %s follows
it. It is compared with the first model kept unchanged (frozen) and with an oracle.
` + "`go run ./tools/learning -o DIR`" + ` writes this page in hours;
` + "`-streams rotation,means -seeds 1`" + ` runs a part and prints its tables;
` + "`-json`" + ` prints every figure.

## How it is measured

%s rows of %d features and %d classes, in messages of %d, go through a stage of the public library (package plugin)
with method %s and the defaults. Each message is answered, then learned, and the next one waits for that, so that a run
is a function of its seed.
Each class has a normal distribution. The means differ in %d directions; %d other directions have %g times as much noise
as the rest, and no information. There are %d seeds; +- is the standard deviation over them.

Accuracy is that of the nearest neighbour in the outputs of the live model, in %%: %s fresh rows with their true
classes are queries, and %s others are references. They have the concept of the *next* row of the stream, and are
never in the stream. It is measured every %d rows, and every %d in the %s rows after an event. Promotions, losses and
stored coordinates are measured on %s and %s rows. On usps each has at most half of the 2,298 images that are not in the
stream.

The oracle refits on the best window: the newest 250, 500, 1,000 ... rows, all rows, or all rows of the current concept,
whichever has the best accuracy on fresh rows with their true classes (not those of the measurement, except on usps,
where both are drawn from the same 2,298 images, which favours the oracle). It does not learn shuffled labels, and its
outputs are as wide as its classes allow, while a stage keeps the width of its first model. No real learner has this
information.

`

// page has all tables of docs/evidence/learning.md, without the text that is written by hand.
func page(o options, all []*figures, trials [][]*trial.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, preamble, "`embedd`", thousands(usualRows), streams.Usual.Features, streams.Usual.Classes, batchRows,
		method, streams.SignalDims, streams.NuisanceDims, streams.Nuisance, o.seeds, thousands(freshRows),
		thousands(freshRows), everyRows, batchRows, thousands(afterRows), thousands(manyQueries), thousands(manyRefs))
	if len(all) == 0 {
		return b.String() + tables(all, trials)
	}
	b.WriteString("The streams:\n\n| stream | what happens |\n|---|---|\n")
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %s: %s |\n", f.Name, f.stream.Title, f.stream.About)
	}
	b.WriteString("\n![accuracy over the stream](learning/streams.png)\n\nAccuracy in % over thousands of rows, the " +
		"mean of the seeds.\n\n")
	b.WriteString(tables(all, trials))
	return b.String()
}

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

%d of %d hold. Bounds on means use the mean of the seeds, other bounds the worst seed. A bound on swaps is left out if
there was none.

| what | stream | at most | found | holds |
|---|---|---|---|---|
%s`, held, len(found), lines.String())
}

func reachTable(all []*figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
## Accuracy

"At first" is the mean of the %s rows after an event (with gradual drift or poison: while it lasts). "Later" is the mean
of as many rows that begin %s rows after the event, or %s if the features were rotated, or of those up to the next event
or the end: the last 2,000 of usps and 1,500 of poison20. Both are means over all events of a stream. For a stationary
stream they are rows after the first quarter. "Below" is the difference from the oracle, in points. The worst loss is
the largest difference, at any later checkpoint, by which training was worse than keeping the model that was live at
the event.

| stream | at first: frozen | embedd | oracle | below | later: frozen | embedd | oracle | below | worst loss |
|---|---|---|---|---|---|---|---|---|---|
`, thousands(afterRows), thousands(soon), thousands(later))
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
	fmt.Fprintf(&b, `
## Promotions and coordinates

The columns:

- first model after: rows; alarms: drift alarms in a run;
- promotions: how often a model replaces another in a run; late: after the first quarter;
- lost > 1, > 2: how many promotions of all runs lost more than 1 and 2 points on the same fresh rows; worst: the most
  that one lost, in points;
- epochs, counted from 1, and widths of the outputs;
%s- stored: the largest loss of accuracy if references keep the coordinates that the first model of the epoch gave them;
- moved: the largest distance by which one promotion moved a row, once the window of %s rows was full; strayed: the
  distance of that row from its coordinates under the first model of the epoch. Both are in units of the distance to
  its nearest neighbour.

| stream | first model after | alarms | promotions | late | lost > 1 | > 2 | worst | epochs | separate | they lose`+
		` | within | widths | stored | moved | strayed |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`, separationColumns, thousands(fullWindow))
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
