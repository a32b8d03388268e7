package main

import (
	"fmt"
	"strings"
)

// page is docs/learning.md.
func page(o options, all []*figures) string {
	return "# Learning\n\n" + tables(all)
}

func tables(all []*figures) string {
	var b strings.Builder
	b.WriteString("## Accuracy\n\n")
	b.WriteString("| stream | frozen | embedd | oracle | below | frozen | embedd | oracle | below | worst loss |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range all {
		fmt.Fprintf(&b, "| %s |", f.Name)
		for _, r := range []reach{f.Early, f.Settled} {
			fmt.Fprintf(&b, " %.1f | %.1f | %.1f | %s |", 100*r.Frozen.Mean, 100*r.Live.Mean, 100*r.Oracle.Mean, points(r.Gap))
		}
		fmt.Fprintf(&b, " %s |\n", points(f.Loss))
	}
	b.WriteString("\n## Promotions\n\n| stream | promotions | late | lost > 1 | lost > 2 | worst | epochs | widths | first model | stored | moved | strayed |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %d | %d | %.1f | %.1f | %v | %.0f | %s | %s | %s |\n", f.Name, f.Promotions.Mean,
			f.LatePromotions.Mean, f.LostOne, f.LostTwo, 100*f.Worst, f.Epochs.Mean, f.Widths, f.First.Mean, most(f.Stored, 100), most(f.Moved, 1), most(f.Strayed, 1))
	}
	b.WriteString("\n## Bounds\n\n| what | stream | bound | found | holds |\n|---|---|---|---|---|\n")
	for _, c := range bounds(all) {
		holds := "yes"
		if !c.Holds {
			holds = "**no**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.What, c.Stream, c.Limit, c.Found, holds)
	}
	return b.String()
}
