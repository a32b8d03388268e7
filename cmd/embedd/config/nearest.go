package config

import "github.com/embedd/embedd/internal/spell"

// Nearest is the name that is most similar to the given one, "" if none is similar. It is for "did you mean".
func Nearest(given string, names []string) string {
	if len(given) > 64 { // longer than any name; the distance costs the product of the lengths
		return ""
	}
	best, least := "", len(given)/2+1 // more than half of the letters changed: not similar
	for _, name := range names {
		if d := spell.Distance(given, name); d < least {
			best, least = name, d
		}
	}
	return best
}
