//go:build !race

package arrowio

const raceEnabled = false
