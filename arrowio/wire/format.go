package wire

import "strings"

// Format is how a message writes its rows.
type Format string

// The formats. The zero value is FormatArrow.
const (
	FormatArrow  Format = "arrow"
	FormatJSON   Format = "json"   // an object, an array of objects, or columns and data as pandas writes them
	FormatNDJSON Format = "ndjson" // an object a line
	FormatCSV    Format = "csv"    // with a header line
)

// Formats are all formats.
var Formats = []Format{FormatArrow, FormatJSON, FormatNDJSON, FormatCSV}

// IsText reports whether a format is text, not Arrow.
func (f Format) IsText() bool { return f != "" && f != FormatArrow }

// ContentType returns the value of Content-Type of messages in a format.
func (f Format) ContentType() string {
	switch f {
	case FormatJSON:
		return "application/json"
	case FormatNDJSON:
		return "application/x-ndjson"
	case FormatCSV:
		return "text/csv"
	}
	return ContentType
}

// FormatOf returns the format of a value of Content-Type, "" of any other.
func FormatOf(contentType string) Format {
	media, _, _ := strings.Cut(contentType, ";")
	for _, f := range Formats {
		if strings.EqualFold(strings.TrimSpace(media), f.ContentType()) {
			return f
		}
	}
	return ""
}
