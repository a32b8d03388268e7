package file

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
)

// TestLabelsOfFractions: a label of any type of fractions is read as integers if its values are whole numbers.
func TestLabelsOfFractions(t *testing.T) {
	for _, c := range []struct {
		typ    arrow.DataType
		values string
		want   string // the labels, or a part of the error
	}{
		{arrow.FixedWidthTypes.Float16, `[1,-2,null]`, "1 -2 (null)"}, {arrow.PrimitiveTypes.Float32, `[3,0,7]`, "3 0 7"},
		{arrow.PrimitiveTypes.Float64, `[9007199254740992,0,null]`, "9007199254740992 0 (null)"},
		{&arrow.Decimal128Type{Precision: 5, Scale: 2}, `["3.00","-1.00",null]`, "3 -1 (null)"},
		{arrow.PrimitiveTypes.Float64, `[1,2.5,3]`, `: column "c0" is the label and holds 2.5: a class is text, a whole ` +
			"number (1.0 is read as 1) or a boolean"},
		{arrow.PrimitiveTypes.Float64, `[1,1e300,3]`, `: column "c0" is the label and holds 1e+300: a class is text, a ` +
			"whole number (1.0 is read as 1) or a boolean"},
	} {
		path := filepath.Join(t.TempDir(), "a.arrow")
		write(t, path, columns(t, c.typ, c.values), 3)
		r, err := Options{Label: "c0"}.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := r.Next()
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), path)
		} else {
			rows := text(rec)
			got = rows[0][0] + " " + rows[1][0] + " " + rows[2][0]
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.typ, c.values, got, c.want)
		}
		r.Close()
	}
}
