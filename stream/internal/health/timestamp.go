package health

import "time"

// Timestamp formats a time for the texts of the status.
func Timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
