package model

import (
	"fmt"
)

// DimError reports more outputs than the rows allow. Max is the largest dimension that can be fitted.
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
