package spec

// Blocks is the kind of answer that a condition keeps from being stored.
type Blocks string

// The kinds of answers that conditions block.
const (
	BlocksAnswers     Blocks = "answers"      // no input can be answered
	BlocksDeadLetters Blocks = "dead_letters" // inputs that become dead letters wait; the others are answered
	BlocksNothing     Blocks = "nothing"      // inputs are answered, and an operator should know
)

// Condition is a reason for attention, with what it blocks.
type Condition struct {
	Name   string `json:"name"` // as in the label condition of embedd_condition
	Blocks Blocks `json:"blocks"`
	Reason string `json:"reason"` // with the figures and the fix
}
