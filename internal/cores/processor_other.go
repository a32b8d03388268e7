//go:build !(darwin || freebsd || linux)

package cores

import "time"

func ProcessorTime() time.Duration { return 0 }
