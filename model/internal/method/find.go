package method

import (
	"fmt"
	"slices"
	"strings"

	"github.com/embedd/embedd/internal/spell"
	"github.com/embedd/embedd/model/internal/frame"
)

// Find returns the method of the table with this name. The error lists the names, the most similar one first.
func Find(name string) (*frame.Method, error) {
	names := make([]string, len(Table))
	for i, m := range Table {
		if m.Name == name {
			return m, nil
		}
		names[i] = m.Name
	}
	if spell.Nearest(name, names) == "" {
		slices.Sort(names)
		return nil, fmt.Errorf("unknown method %q; the methods are %s", name, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("unknown method %q; the nearest is %s", name, nearestFirst(name, names))
}

// nearestFirst lists names by edit distance to name, in any case of letters: "lda, the others are pca, srda".
func nearestFirst(name string, names []string) string {
	names, name = slices.Clone(names), strings.ToLower(name)
	slices.SortStableFunc(names, func(a, b string) int { return spell.Distance(name, a) - spell.Distance(name, b) })
	if len(names) == 1 {
		return names[0]
	}
	rest := slices.Clone(names[1:])
	slices.Sort(rest)
	return names[0] + ", the others are " + strings.Join(rest, ", ")
}

// Candidates are the methods that auto chooses from. Of two with equal scores the earlier one wins.
func Candidates() []*frame.Method {
	var out []*frame.Method
	for _, m := range Table {
		if m.Auto != nil {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *frame.Method) int { return a.Auto.Rank - b.Auto.Rank })
	return out
}
