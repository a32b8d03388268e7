package main

import (
	"bytes"
	"context"
	"fmt"
)

var fieldContenders = []contender{
	{name: "raw pixels", paper: [2]string{"2.72 (256)", "3.25 (256)"}},
	{name: "lpfe", method: "lpfe", dim: 100, paper: [2]string{"4.33 (184.4)", "3.61 (180.3)"}},
	{name: "lpfe, columns as solved", method: "lpfe", dim: 100, grid: product("metric=plain", "ridge=oas"),
		paper: [2]string{"4.33 (184.4)", "3.61 (180.3)"}},
}

// fields compares the two forms of lpfe on the first of the repeats of usps: a fit takes too long for more.
func fields(ctx context.Context, b *bench, out *bytes.Buffer) error {
	d, err := readData(b.data, "usps")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `| method | even/odd | to raw | d = %d | paper | to raw | 0-4/5-9 | to raw | d = %d | paper | to raw |
|---|---|---|---|---|---|---|---|---|---|---|
`, fixedDim, fixedDim)
	train, test := drawImages(d, 100, 1)
	var raw [2]trial
	for i, c := range fieldContenders {
		got, err := c.try(ctx, train, test)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if i == 0 {
			raw = got
		}
		fmt.Fprintf(out, "| %s |", c.name)
		for k, t := range got {
			b.say("%s, %s: %.2f %% at %d", c.name, labellings[k].name, t.best, t.dim)
			fmt.Fprintf(out, " %.2f (%d) | %.2f | %.2f | %s | %.2f |", t.best, t.dim, t.best/raw[k].best, t.fixed, c.paper[k],
				leading(c.paper[k])/leading(fieldContenders[0].paper[k]))
		}
		fmt.Fprintln(out)
	}
	return nil
}
