package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

var spreadSets = []string{"breastcancer_wbc", "digits", "glass", "iris", "musk", "sonar", "usps", "vowel", "waveform",
	"wdbc", "wine", "zoo"}

// covered returns, for each output of the rows of a fit, the interquartile range divided by the largest absolute
// value, and whether the report has the note about outputs that hardly differ between most rows.
func covered(ctx context.Context, m *model.Model, d *model.Data) (shares []float64, noted bool, err error) {
	y, err := score.Outputs(ctx, m, d)
	if err != nil {
		return nil, false, err
	}
	for c := range m.Dim() {
		column, largest := make([]float64, d.N), 0.0
		for i := range column {
			column[i] = y[i*m.Dim()+c]
			largest = max(largest, math.Abs(column[i]))
		}
		slices.Sort(column)
		at := func(share float64) float64 {
			whole, part := math.Modf(share * float64(d.N-1))
			next := column[min(int(whole)+1, d.N-1)]
			return (1-part)*column[int(whole)] + part*next
		}
		shares = append(shares, (at(0.75)-at(0.25))/largest)
	}
	return shares, slices.ContainsFunc(m.Report().Notes, func(s string) bool {
		return strings.Contains(s, "hardly differs between most of the")
	}), nil
}

// spread measures how much of the range of an output most rows cover, with the defaults of the methods that embed rows.
func spread(ctx context.Context, b *bench, out *bytes.Buffer) error {
	const slow = 600 // rows
	configs := []fit.Config{{Method: "le"}, {Method: "tsimr"}, {Method: "mp-tsimr"}, {Method: "lenews"},
		{Method: "le", Params: map[string]string{"t": "auto"}}}
	fmt.Fprint(out, `| data | le | tsimr | mp-tsimr | lenews | le, t=auto |
|---|---|---|---|---|---|
`)
	for _, name := range spreadSets {
		if !b.isRequested(name) {
			continue
		}
		d, err := readData(b.data, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| %s |", name)
		for _, c := range configs {
			if c.Method == "lenews" && d.N > slow {
				fmt.Fprint(out, " - |")
				continue
			}
			c.Dim = 2
			m, err := fit.Fit(ctx, d, c)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, c.Method, err)
			}
			shares, noted, err := covered(ctx, m, d)
			if err != nil {
				return err
			}
			mark := ""
			if noted {
				mark = "*"
			}
			b.say("%s, %s: %.3f%s, %.1f s", name, c.Method, shares, mark, seconds(m))
			fmt.Fprintf(out, " %.1f, %.1f%s |", 100*shares[0], 100*shares[1], mark)
		}
		fmt.Fprintln(out)
	}
	return nil
}
