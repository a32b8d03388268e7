//go:build !(darwin || freebsd || linux)

package bench

import "time"

func processorTime() time.Duration { return 0 }
