package model

import (
	"fmt"
)

// DimError reports more outputs asked for than the rows allow. A caller that
// wants as many as there are fits again with Max.
type DimError struct {
	Asked, Max int
	What       string
}

func (e *DimError) Error() string {
	return fmt.Sprintf("dim %d exceeds %s", e.Asked, e.What)
}

// RowError is an error of one row of a call.
type RowError struct {
	Row    int
	Detail string
}

func (e *RowError) Error() string { return fmt.Sprintf("row %d: %s", e.Row, e.Detail) }
