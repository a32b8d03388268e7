package frame

// Pairs is what a fit holds between rows at one time: geodesics, kernels, similarities. Its zero value is nothing that
// grows with their square; sparse graphs and their factors are not counted.
type Pairs struct {
	Bytes int64 // for each pair of rows, as measured
	Most  int   // rows that are looked at at most; 0: all
}

// copies of the rows that such a fit holds beside, as measured.
const copies = 4

// Held is the memory that a fit of rows of so many features takes, 0 where it holds nothing between them.
func (p Pairs) Held(rows, features int) int64 {
	if p.Bytes == 0 {
		return 0
	}
	if p.Most > 0 {
		rows = min(rows, p.Most)
	}
	return int64(rows) * (p.Bytes*int64(rows) + copies*8*int64(features))
}
