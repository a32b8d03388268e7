package stream

import "os"

// soak reports whether the long forms of the tests are enabled.
func soak() bool { return os.Getenv("EMBEDD_SOAK") != "" }
