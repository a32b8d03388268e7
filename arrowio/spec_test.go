package arrowio

import (
	"fmt"
	"testing"
)

// TestSpecErrors: the error of a Spec or an Output that cannot be used says what is wrong with it.
func TestSpecErrors(t *testing.T) {
	for _, c := range []struct {
		of   any
		want string
	}{
		{Spec{}, ""}, {Spec{Format: "csv"}, ""}, {Spec{Format: "xml"},
			`format "xml" is unknown; use one of [arrow json ndjson csv]`},
		{Spec{Features: []string{"a", ""}},
			"an empty feature name; name a column or a glob"},
		{Spec{Features: []string{"a["}},
			`feature glob "a[": syntax error in pattern; close the bracket or escape it with a backslash`},
		{Spec{Features: []string{"a["}, Sizes: map[string]int{"a[": 1}}, ""},
		{Spec{Features: []string{"a["}, Encodings: []Encoding{{Column: "a["}}}, ""},
		{Spec{Features: []string{"a", "l"}, Label: "l"},
			`column "l" is a feature and also the label or the key; take it out of one`},
		{Spec{Features: []string{"k"}, Key: "k"},
			`column "k" is a feature and also the label or the key; take it out of one`},
		{Spec{Features: []string{"a"}, Sizes: map[string]int{"b": 1}},
			`size 1 of column "b": want a column among the features, and 1 to 65536; correct the size`},
		{Spec{Features: []string{"a"}, Sizes: map[string]int{"a": 0}},
			`size 0 of column "a": want a column among the features, and 1 to 65536; correct the size`},
		{Spec{Features: []string{"a"}, Sizes: map[string]int{"a": 65537}},
			`size 65537 of column "a": want a column among the features, and 1 to 65536; correct the size`},
		{Spec{Features: []string{"a"}, Sizes: map[string]int{"a": 65536}}, ""},
		{Spec{Label: "l", Key: "l"}, `column "l" is both the label and the key; name two columns`},
		{Spec{Features: []string{"a", "a"}, Sizes: map[string]int{"a": 1}},
			`column "a": the schema has this feature column twice; name it once`},
		{Output{}, ""}, {Output{Keep: []string{"a*", "none"}}, ""}, {Output{Keep: []string{""}},
			`kept columns "": not a name or glob; name a column, or close the bracket`},
		{Output{Keep: []string{"[a"}},
			`kept columns "[a": not a name or glob; name a column, or close the bracket`},
		{Output{Format: "xml"},
			`format "xml" is unknown; use one of [arrow json ndjson csv]`},
		{Output{Compression: "gzip"},
			`compression "gzip"; use none, lz4 or zstd`},
		{Output{Compression: "lz4", Format: "json"},
			`compression "lz4" is of Arrow buffers, and outputs are json; set no compression`},
		{Output{Compression: "none", Format: "json"}, ""},
		{Output{Compression: "zstd", Format: "arrow"}, ""},
	} {
		var err error
		switch of := c.of.(type) {
		case Spec:
			_, err = NewDecoder(of)
		case Output:
			_, err = NewEncoder(of)
		}
		checkError(t, fmt.Sprintf("%+v", c.of), err, c.want)
	}
}

// checkError compares the text of an error; "" is none.
func checkError(t *testing.T, of string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%s: %q, want %q", of, got, want)
	}
}
