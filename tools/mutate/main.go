// Command mutate plants small faults in the code, one at a time, and reports which of them the tests find.
//
// It reads the packages of -packages, lists every mutant of them, and draws -n of them by -seed. All of them are
// compiled into one test binary for each package: a mutated function is a changed copy in the same file, which an
// environment variable selects. The build uses an overlay, so the source tree stays as it is. Each test of -packages
// runs once without a mutant, to see which mutants it executes. Then the tests that execute a mutant run with it, those
// of the nearest package first, until one fails, at most -budget of tests. Tests that compare a digest or a golden file
// come last: they find a fault without naming it, and are counted apart.
//
// It prints progress on stderr and a table on stdout. -json writes the outcomes to a file, -list prints the mutants
// that are drawn. -only runs those with the given ids, and -constants all named constants, times ten and by a
// tenth: with -page it writes docs/thresholds.md. -run limits the tests, as in go test.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := mutate(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func mutate(args []string) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	n := flags.Int("n", 100, "number of mutants")
	seed := flags.Uint64("seed", 1, "seed of the draw")
	patterns := flags.String("packages", "./model/...,./arrowio/...,./plugin/...,./internal/stage/...",
		"packages that are mutated and whose tests are run, separated by commas")
	list := flags.Bool("list", false, "print the drawn mutants and stop")
	only := flags.String("only", "", "ids of mutants to run instead of a draw, separated by commas")
	names := flags.String("run", "", "regular expression of the names of the tests to run; all if empty")
	constants := flags.Bool("constants", false, "run every named constant ten times off instead of a draw")
	page := flags.String("page", "", "page for the constants, whose rows of these packages are replaced")
	budget := flags.Duration("budget", time.Minute, "time of tests for one mutant, as measured without it")
	workers := flags.Int("workers", 2, "number of test processes at a time")
	report := flags.String("json", "", "file for the outcomes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *page != "" && (!*constants || *names != "") {
		return errors.New("-page replaces all rows of the packages: it needs -constants, without -run")
	}
	chosen, err := regexp.Compile(*names)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	r := &run{names: chosen, budget: *budget, workers: max(1, *workers), log: os.Stderr, started: time.Now()}
	if r.tree, err = load(".", strings.Split(*patterns, ",")); err != nil {
		return err
	}
	all := candidates(r.tree.files, r.tree.root)
	queue, err := choose(all, *n, *seed, *only)
	if err != nil {
		return err
	}
	if *constants {
		queue = tenTimesOff(all)
	}
	if *constants || *only != "" {
		*n = len(queue)
	}
	r.progress("%d places for mutants in %d packages", len(all), len(r.tree.packages))
	if *list {
		for _, m := range queue[:min(*n, len(queue))] {
			fmt.Println(m.ID, m)
		}
		return nil
	}
	if r.work, err = os.MkdirTemp("", "mutate"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	outcomes, err := r.outcomes(queue, min(*n, len(queue)))
	if err != nil {
		return err
	}
	if *report != "" {
		text, err := json.MarshalIndent(outcomes, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile(*report, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("write the outcomes: %w", err)
		}
	}
	if *page != "" {
		if err := updatePage(*page, outcomes); err != nil {
			return err
		}
	}
	fmt.Print(table(outcomes))
	r.progress("done; processor time %s", processorTime())
	return nil
}

// choose queues mutants: those of the ids, or n drawn ones and more of the draw for those that do not compile.
func choose(all []*mutant, n int, seed uint64, only string) ([]*mutant, error) {
	if only == "" {
		return draw(all, 2*n, seed), nil
	}
	var chosen []*mutant
	for id := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(m *mutant) bool { return m.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("no mutant has the id %q; -list prints ids", id)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// tenTimesOff lists the mutants of named constants that change the order of magnitude. An enumeration and the largest
// number of a type have none.
func tenTimesOff(all []*mutant) (chosen []*mutant) {
	for _, m := range all {
		if m.Named != "" && m.Kind != "constant off by one" && !strings.Contains(m.From, "iota") &&
			!strings.HasPrefix(m.From, "math.Max") {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

func (r *run) outcomes(queue []*mutant, n int) ([]outcome, error) {
	mutants, err := r.build(queue, n)
	if err != nil {
		return nil, err
	}
	r.progress("%d mutants are in %d test binaries", len(mutants), len(r.binaries))
	tests, err := r.record(mutants)
	if err != nil {
		return nil, err
	}
	outcomes := make([]outcome, len(mutants))
	r.each(len(mutants), func(i int) {
		outcomes[i] = r.kill(mutants[i], tests)
		r.progress("%s: %s %s", mutants[i], outcomes[i].Status, outcomes[i].Test)
	})
	return outcomes, nil
}

// processorTime is what this process and its children used.
func processorTime() (total time.Duration) {
	for _, of := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(of, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total.Round(time.Second)
}

// table is the report in Markdown.
func table(outcomes []outcome) string {
	var b strings.Builder
	counts := map[string]int{}
	b.WriteString("| id | place | mutation | result | test |\n|---|---|---|---|---|\n")
	sorted := slices.Clone(outcomes)
	slices.SortStableFunc(sorted, func(a, b outcome) int { return strings.Compare(b.Status, a.Status) })
	for _, o := range sorted {
		counts[o.Status]++
		test := o.Test
		if o.How != "" && o.How != "failed" {
			test += " (" + o.How + ")"
		}
		if o.Status == "survived" {
			test = fmt.Sprintf("%d of %d tests that execute it", o.Run, o.Reached)
		}
		fmt.Fprintf(&b, "| %s | %s:%d %s | %s: `%s` -> `%s` | %s | %s |\n", o.ID, o.File, o.Line, o.place(), o.Kind,
			cell(o.From), cell(o.To), o.Status, test)
	}
	fmt.Fprintf(&b, "\n%d mutants: %d killed by a test that names the fault, %d only by a digest, %d survived\n",
		len(outcomes), counts["killed"], counts["killed by a digest"], counts["survived"])
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(oneLine(text), "|", `\|`) }
