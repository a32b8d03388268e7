package trial

import (
	"encoding/json"
	"math"
)

// Figure is a number that may be missing: NaN, in JSON null.
type Figure float64

var missing = Figure(math.NaN())

// MarshalJSON writes NaN and infinities as null.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}
