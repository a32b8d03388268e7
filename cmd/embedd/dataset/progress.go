package dataset

import (
	"fmt"
	"time"
)

// progressOf describes how far a file has been read: its rows, after a second their rate and, if the file declares how
// many it has, the time that is left. done is the share that was read; negative: it is unknown.
func progressOf(name string, read, total int64, took time.Duration) (text string, done float64) {
	text, done = fmt.Sprintf("reading %s: %d rows", name, read), -1
	if took < time.Second || read == 0 {
		return text, done
	}
	rate := float64(read) / took.Seconds()
	text += fmt.Sprintf(", %.0f rows/s", rate)
	if total >= read {
		left := time.Duration(float64(total-read) / rate * float64(time.Second))
		text += fmt.Sprintf(", %v left", left.Round(time.Second))
		done = float64(read) / float64(total)
	}
	return text, done
}
