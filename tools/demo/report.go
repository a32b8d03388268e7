package demo

// Report is what `embedd demo --format json` prints.
type Report struct {
	BatchesIn   int      `json:"batches_in"`
	BatchesOut  int      `json:"batches_out"` // inputs with an output
	RowsIn      int      `json:"rows_in"`
	RowsOut     int      `json:"rows_out"`
	DeadLetters int      `json:"dead_letters"`
	Skipped     int      `json:"skipped"`
	Models      []Model  `json:"models"`
	Scale       string   `json:"scale"`
	Accuracy    Accuracy `json:"accuracy"`
	DimIn       int      `json:"dim_in"`
	DimOut      int      `json:"dim_out"`
	Picture     string   `json:"picture"`
	HeldOut     int      `json:"-"` // rows of the accuracies
}

// Model is a candidate that was fitted.
type Model struct {
	Version  string   `json:"version"`
	Method   string   `json:"method"`
	Score    *float64 `json:"score"` // share of new rows that it classified correctly; null if it was not scored
	Promoted bool     `json:"promoted"`
}

// Accuracy is the 1-NN accuracy on the held-out rows, by what the neighbours are computed from.
type Accuracy struct {
	Raw         float64 `json:"raw"`          // the features in the model's scale
	RawUnscaled float64 `json:"raw_unscaled"` // the unscaled features
	Reduced     float64 `json:"reduced"`      // the outputs of the stream
	Picture     float64 `json:"picture"`      // the two dimensions of the picture
	Straight    float64 `json:"straight"`     // two dimensions of the same method without landmarks
}
