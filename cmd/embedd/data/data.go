// Package data contains the rows that embedd ships for its demo.
package data

import _ "embed"

// Digits is digits.csv.gz: 1797 handwritten digits of 64 pixels, and a label column.
//
//go:embed digits.csv.gz
var Digits []byte
