package frame

// Memo keeps what fits on the same rows share: evaluation fits a method at
// several dimensions, and the similarity is the same for all. It is for fits one
// after the other.
type Memo struct {
	Learned map[string]any
}
