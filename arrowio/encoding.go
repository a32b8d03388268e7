package arrowio

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// An Encoding makes numbers of a column that holds none. A category has a feature for each of its values, which is 1 in
// the rows with this value and 0 in the others: a value that is not among them is 0 everywhere. Its text is the value,
// as that of a label. Without values the column is a date, and one feature: days since 1970-01-01, in UTC.
type Encoding struct {
	Column string
	Values []string
}

// MaxValues is the maximum number of values of a category.
const MaxValues = 1000

// valueName is the name of the feature of a category's value.
func valueName(column, value string) string { return column + "=" + value }

// EncodingsOf returns the encodings of a model with these feature elements, given its columns of categories and of
// dates.
func EncodingsOf(elements, categories, dates []string) (all []Encoding, err error) {
	for _, column := range categories {
		e := Encoding{Column: column}
		for _, element := range elements {
			if value, ok := strings.CutPrefix(element, valueName(column, "")); ok {
				e.Values = append(e.Values, value)
			}
		}
		if len(e.Values) == 0 {
			return nil, fmt.Errorf("category %q has no feature %q: fit the model again", column, valueName(column, "..."))
		}
		all = append(all, e)
	}
	for _, column := range dates {
		if !slices.Contains(elements, column) {
			return nil, fmt.Errorf("date %q is no feature: fit the model again", column)
		}
		all = append(all, Encoding{Column: column})
	}
	return all, nil
}

// perDay are the numbers of a day by the unit of a time.
var perDay = [...]float64{86400, 86400e3, 86400e6, 86400e9}

// dateForms are the forms of dates as text. Those without a zone are in UTC. Seconds may have a fraction.
var dateForms = [...]string{time.DateOnly, time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05",
	time.DateTime, "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04"}

// maxDate is the most bytes of a date as text, white space included.
const maxDate = 128

func parseDays(text string) (days float64, ok bool) {
	if len(text) > maxDate {
		return math.NaN(), false
	}
	for _, form := range dateForms {
		if t, err := time.Parse(form, strings.TrimSpace(text)); err == nil {
			return (float64(t.Unix()) + float64(t.Nanosecond())/1e9) / perDay[0], true
		}
	}
	return math.NaN(), false
}
