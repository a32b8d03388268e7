package health

import "time"

// Timestamp is a time as texts of the status have it.
func Timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
