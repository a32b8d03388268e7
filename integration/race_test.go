//go:build race

package integration

func init() { raceFlags = []string{"-race"} }
