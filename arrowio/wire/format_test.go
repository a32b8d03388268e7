package wire

import (
	"strings"
	"testing"
)

// TestFormats: each format has a content type, which says it also with parameters and in other letters.
func TestFormats(t *testing.T) {
	for format, media := range map[Format]string{FormatArrow: "application/vnd.apache.arrow.stream",
		FormatJSON: "application/json", FormatNDJSON: "application/x-ndjson", FormatCSV: "text/csv"} {
		if format.ContentType() != media || format.IsText() != (format != FormatArrow) {
			t.Errorf("%s has the type %s, text %v", format, format.ContentType(), format.IsText())
		}
		for _, value := range []string{media, strings.ToUpper(media), " " + media + " ; charset=utf-8"} {
			if got := FormatOf(value); got != format {
				t.Errorf("%q is %q, want %q", value, got, format)
			}
		}
	}
	if FormatOf("text/html") != "" || FormatOf("") != "" || Format("").IsText() ||
		Format("").ContentType() != ContentType {
		t.Error("another type is a format")
	}
}
