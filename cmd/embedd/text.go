package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// numbers prints up to limit values and the count of all.
func numbers(v []float64, limit int) string {
	var b strings.Builder
	for i, x := range v {
		if i == limit {
			fmt.Fprintf(&b, " ... (%d)", len(v))
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%.4g", x)
	}
	return b.String()
}

// settings prints parameters as " (a=1, b=2)", or nothing.
func settings(params map[string]string) string {
	var parts []string
	for name, value := range params {
		if v, err := strconv.ParseFloat(value, 64); err == nil && len(value) > 8 {
			value = strconv.FormatFloat(v, 'g', 4, 64) // chosen by the fit, with all its digits
		}
		parts = append(parts, name+"="+value)
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return " (" + strings.Join(parts, ", ") + ")"
}

// count prints a number that is unknown if it is 0.
func count(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
