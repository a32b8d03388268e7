package main

import (
	"fmt"
	"strings"
)

// demoReport is what `embedd demo --format json` prints.
type demoReport struct {
	BatchesIn   int          `json:"batches_in"`
	BatchesOut  int          `json:"batches_out"` // inputs that were answered with rows
	RowsIn      int          `json:"rows_in"`
	RowsOut     int          `json:"rows_out"`
	DeadLetters int          `json:"dead_letters"`
	Skipped     int          `json:"skipped"`
	Models      []demoModel  `json:"models"`
	Scale       string       `json:"scale"`
	Accuracy    demoAccuracy `json:"accuracy"`
	DimIn       int          `json:"dim_in"`
	DimOut      int          `json:"dim_out"`
	Picture     string       `json:"picture"`
}

type demoModel struct {
	Version  string   `json:"version"`
	Method   string   `json:"method"`
	Score    *float64 `json:"score"` // share of new rows that it was right about; null where nothing judged it
	Promoted bool     `json:"promoted"`
}

type demoAccuracy struct {
	Raw         float64 `json:"raw"`          // 1-NN on the features in the model's scale
	RawUnscaled float64 `json:"raw_unscaled"` // 1-NN on the features as they are
	Reduced     float64 `json:"reduced"`      // 1-NN on the outputs of the stream
	Picture     float64 `json:"picture"`      // 1-NN on the two dimensions of the picture
	Straight    float64 `json:"straight"`     // 1-NN on two dimensions of the same method without landmarks
}

func (d *demo) print(r *demoReport) error {
	d.show.end()
	t := d.out.table("", "BATCHES", "ROWS")
	t.row("in", r.BatchesIn, r.RowsIn)
	t.row("out", r.BatchesOut, r.RowsOut)
	t.row("dead letters", r.DeadLetters, r.RowsIn-r.RowsOut-r.Skipped)
	t.flush()
	d.out.printf("\n")
	t = d.out.table("MODEL", "NEW ROWS RIGHT", "")
	for _, m := range r.Models {
		what, right := "went live", "-"
		if !m.Promoted {
			what = "kept out: not enough speaks for it"
		}
		if m.Score != nil {
			right = fmt.Sprintf("%.1f %%", 100**m.Score)
		}
		t.row(strings.TrimSpace(m.Version+" "+m.Method), right, what)
	}
	t.flush()
	d.out.printf("\n1-NN accuracy on %d digits that were not learned from:\n", len(d.digits.held))
	t = newTable(d.out.w)
	t.row("  64 pixels as they are", fmt.Sprintf("%.1f %%", 100*r.Accuracy.RawUnscaled))
	t.row(fmt.Sprintf("  %d dimensions from the stream", r.DimOut), fmt.Sprintf("%.1f %%", 100*r.Accuracy.Reduced))
	t.row("  2 dimensions, the picture", fmt.Sprintf("%.1f %%", 100*r.Accuracy.Picture))
	t.row("  2 dimensions, without landmarks", fmt.Sprintf("%.1f %%", 100*r.Accuracy.Straight))
	t.flush()
	d.out.printf("\nThe picture is %s\nNext: embedd init, then embedd run.\n", r.Picture)
	return nil
}
