// Package testsize defines how much a test should do, by two environment variables. Without either, tests run their
// short form.
package testsize

import (
	"flag"
	"os"
	"strconv"
)

// Long reports whether tests run their long form: all methods, seeds and whole streams. .ci/run sets EMBEDD_LONG.
func Long() bool { return os.Getenv("EMBEDD_LONG") != "" || Soak() }

// Soak reports whether tests run for minutes or hours, with more messages and more kills: EMBEDD_SOAK, which .ci/run
// does not set.
func Soak() bool { return os.Getenv("EMBEDD_SOAK") != "" }

// Of returns the first number, or in the long form the second one.
func Of(short, long int) int {
	if Long() {
		return long
	}
	return short
}

// AtOnce lets n parallel tests of a package run at a time, for tests that wait more than they compute: go test lets as
// many run as there are cores. On a busy machine, where .ci/run sets EMBEDD_BUSY, a quarter of them run. TestMain calls
// it. What the command line says holds.
func AtOnce(n int) {
	if os.Getenv("EMBEDD_BUSY") != "" {
		n = max(2, n/4)
	}
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
