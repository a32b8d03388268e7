package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// The tables of docs/thresholds.md: constants that a test notices, and those that none does.
const (
	noticed   = "| constant | value | why | ten times | a tenth |\n|---|---|---|---|---|\n"
	unnoticed = "| constant | value | what it is |\n|---|---|---|\n"
)

// updatePage replaces the rows of a page for the packages of the outcomes.
func updatePage(name string, outcomes []outcome) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the page of constants: %w", err)
	}
	updated, err := withRows(string(text), outcomes)
	if err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	if err := os.WriteFile(name, []byte(updated), 0o644); err != nil {
		return fmt.Errorf("write the page of constants: %w", err)
	}
	return nil
}

func withRows(page string, outcomes []outcome) (string, error) {
	folders := map[string]bool{}
	for _, o := range outcomes {
		folders[path.Dir(o.File)] = true
	}
	tests, others := rowsOf(outcomes)
	for _, t := range []struct {
		head string
		rows []string
	}{{noticed, tests}, {unnoticed, others}} {
		before, rest, found := strings.Cut(page, t.head)
		if !found {
			return "", fmt.Errorf("there is no table with the head %q", strings.SplitN(t.head, "\n", 2)[0])
		}
		old, after, _ := strings.Cut(rest, "\n\n")
		rows := t.rows
		for row := range strings.SplitSeq(strings.TrimSuffix(old, "\n"), "\n") {
			where, _, _ := strings.Cut(strings.TrimPrefix(row, "| `"), " ")
			if row != "" && !folders[where] {
				rows = append(rows, row)
			}
		}
		slices.Sort(rows)
		page = before + t.head + strings.Join(rows, "\n") + "\n\n" + after
	}
	return strings.TrimRight(page, "\n") + "\n", nil
}

// rowsOf writes a row for each constant, with the tests that fail when it is ten times off.
func rowsOf(outcomes []outcome) (noticed, unnoticed []string) {
	byConstant := map[string]map[string]outcome{}
	for _, o := range outcomes {
		key := fmt.Sprintf("`%s %s`", path.Dir(o.File), o.place())
		if byConstant[key] == nil {
			byConstant[key] = map[string]outcome{}
		}
		byConstant[key][o.Kind] = o
	}
	for _, key := range slices.Sorted(maps.Keys(byConstant)) {
		large, small := byConstant[key]["constant times ten"], byConstant[key]["tenth of a constant"]
		any := large
		if any.mutant == nil {
			any = small
		}
		about := fmt.Sprintf("| %s | `%s` | %s |", key, oneLine(any.From), strings.ReplaceAll(any.Why, "|", `\|`))
		if large.Test == "" && small.Test == "" {
			unnoticed = append(unnoticed, about)
			continue
		}
		noticed = append(noticed, fmt.Sprintf("%s %s | %s |", about, killer(large), killer(small)))
	}
	return noticed, unnoticed
}

// killer names the test that found a mutant.
func killer(o outcome) string {
	_, name, _ := strings.Cut(path.Base(o.Test), ".")
	return cmp.Or(name, "-")
}
