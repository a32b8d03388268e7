package config

import "github.com/embedd/embedd/internal/spell"

// Nearest is the name that is closest to the given one, or empty when all are other words. It is for "did you mean".
func Nearest(given string, names []string) string {
	if len(given) > 64 { // no name is that long, and the distance costs the product of the lengths
		return ""
	}
	best, least := "", len(given)/2+1 // more than half the letters changed is another word
	for _, name := range names {
		if d := spell.Distance(given, name); d < least {
			best, least = name, d
		}
	}
	return best
}
