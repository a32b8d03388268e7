package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// injection is a fault that was injected.
type injection struct {
	name string
	at   time.Time
}

// delivery is when the sender last sent an input, and when the server stored its output.
type delivery struct{ sent, stored time.Time }

// printDelays writes, for each kind of fault, the times from input to output and the longest time without an output
// from the fault to the next one, or to the end of the load.
func printDelays(out io.Writer, faults []injection, deliveries []delivery, end time.Time) {
	type row struct {
		times   int
		took    []time.Duration
		longest time.Duration // without an output
	}
	rows := map[string]*row{}
	slices.SortFunc(deliveries, func(a, b delivery) int { return a.stored.Compare(b.stored) })
	for i, f := range faults {
		until := end
		if i+1 < len(faults) {
			until = faults[i+1].at
		}
		r := rows[f.name]
		if r == nil {
			r = &row{}
			rows[f.name] = r
		}
		r.times++
		last := f.at
		for _, d := range deliveries {
			if d.sent.After(f.at) && d.sent.Before(until) {
				r.took = append(r.took, d.stored.Sub(d.sent))
			}
			if d.stored.After(f.at) && d.stored.Before(until) {
				r.longest, last = max(r.longest, d.stored.Sub(last)), d.stored
			}
		}
		r.longest = max(r.longest, until.Sub(last))
	}
	fmt.Fprint(out, "\nFrom each fault to the next one:\n\n| fault | times | inputs | median | 99th percentile | longest "+
		"| longest time without an output |\n|---|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		slices.Sort(r.took)
		n, took := len(r.took), append(r.took, 0) // one more, for a fault without inputs
		fmt.Fprintf(out, "| %s | %d | %d | %.3f s | %.2f s | %.1f s | %.1f s |\n", name, r.times, n, took[n/2].Seconds(),
			took[n*99/100].Seconds(), took[max(n-1, 0)].Seconds(), r.longest.Seconds())
	}
}
