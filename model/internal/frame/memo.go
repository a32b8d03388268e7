package frame

// Memo shares results between fits on the same rows: an evaluation fits a method at several dimensions, and a learned
// similarity is the same for all. Its fits must not run concurrently.
type Memo struct {
	Learned map[string]any
}
