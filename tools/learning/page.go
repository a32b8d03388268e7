package main

import (
	"fmt"
	"strings"
)

const preamble = `# Learning

How a stage follows streams with concept drift: %s, compared with the first model kept unchanged (frozen) and
an oracle. ` + "`go run ./tools/learning`" + ` writes this page in a few minutes;
` + "`-streams rotation,means -seeds 1`" + ` runs a part and prints the tables, ` + "`-json`" + ` prints every
figure.

## How it is measured

%s rows of %d features and %d classes, in messages of %d, go through a stage of the public library (package plugin)
with method %s and the defaults: each message is answered, then learned, and the run waits for the stage, so that it
is a function of its seed.
A class is normal; the means differ in %d directions, and %d directions of the noise are %g times as strong as the
others, and carry no information. %d seeds; +- is the standard deviation over them.

Accuracy is that of the nearest neighbour in the outputs of the live model, in %%: %s fresh rows with their true
classes are queries, %s others references, all of the concept of the *next* row and never in the stream. It
is taken every %d rows, and every %d in the %s rows after an event, where a learner cannot know of the change yet.
Promotions, losses and stored coordinates are measured on %s and %s rows.

The oracle refits on the best window: of the newest 250, 500, 1,000 ... rows, all rows, and the whole concept so far
it uses the one with the best accuracy on fresh rows with their true classes, others than those of the measurement.
It learns
no shuffled label, and its outputs are as wide as its classes allow, where a stage keeps the width of its first
model. No learner can know what it knows.

`

// page is docs/evidence/learning.md.
func page(o options, all []*figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, preamble, "`embedd`", thousands(o.rows), featureCount, classCount, batchRows, method, signalDims,
		nuisanceDims, nuisance, o.seeds, thousands(freshRows), thousands(freshRows), everyRows, batchRows,
		thousands(afterRows), thousands(manyQueries), thousands(manyRefs))
	b.WriteString("The streams:\n\n| stream | what happens |\n|---|---|\n")
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %s: %s |\n", f.Name, f.stream.title, f.stream.about)
	}
	b.WriteString("\n![accuracy over the stream](learning/streams.png)\n\nAccuracy in % over thousands of rows, the " +
		"mean of the seeds.\n\n")
	b.WriteString(tables(all))
	return b.String()
}

// tables are all the figures.
func tables(all []*figures) string { return boundTable(all) + reachTable(all) + promotionTable(all) }

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

%d of %d hold. Bounds on means use the mean of the seeds, other bounds the worst seed.

| what | stream | at most | found | holds |
|---|---|---|---|---|
%s`, held, len(found), lines.String())
}

func reachTable(all []*figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
## Accuracy

First the mean of the %s rows after an event (of gradual drift: while it lasts), then that of as many rows from %s
rows after the event on, %s where the features were rotated; over all events of a stream. Where nothing happens it is
the rows after the first quarter, with poison those after it starts, and after its end.
Below is how far it stays below the oracle, in points. The worst loss is the most by which learning was worse than
keeping the model that was live at the event, at any later checkpoint.

| stream | at first: frozen | embedd | oracle | below | later: frozen | embedd | oracle | below | worst loss |
|---|---|---|---|---|---|---|---|---|---|
`, thousands(afterRows), thousands(soon), thousands(later))
	for _, f := range all {
		fmt.Fprintf(&b, "| %s |", f.Name)
		for _, r := range []reach{f.Early, f.Settled} {
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

Alarms are the changes of the rows that the stage saw. Promotions: how often a model replaces another, in a run;
after the first quarter; how many of all runs lost more than 1 and 2 points on the same fresh rows, and the most that
one lost. Epochs, counted from 1, and the widths of the outputs.
Stored: the most by which accuracy falls where the reference has the coordinates that the first model of the epoch
gives it. Moved: how far one promotion moved a row, at most, once the window of %s rows was full; strayed: how far it
was then from where the first model of the epoch had it;
both in units of the distance from its nearest neighbour.

| stream | first model after | alarms | promotions | late | lost > 1 | > 2 | worst | epochs | widths | stored | moved`+
		` | strayed |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`, thousands(fullWindow))
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %.0f | %.1f | %.1f | %.1f | %d | %d | %s | %.1f | %s | %s | %s | %s |\n", f.Name,
			f.First.Mean,
			f.Alarms.Mean, f.Promotions.Mean, f.LatePromotions.Mean, f.LostOne, f.LostTwo, inPoints(f.Worst),
			f.Epochs.Mean,
			strings.Trim(fmt.Sprint(f.Widths), "[]"), most(f.Stored, 100), most(f.Moved, 1), most(f.Strayed, 1))
	}
	return b.String()
}

// thousands writes 40000 as 40,000.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
