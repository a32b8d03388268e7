package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/embedd/embedd/arrowio"
)

type formatName int

const (
	csvFormat formatName = iota
	csvGzip
	parquetFormat
	arrowFile
	arrowStream
	jsonFormat
	linesFormat
)

// suffixes lists the file name suffixes that Open and Create accept.
var suffixes = []struct {
	end    string
	format formatName
}{
	{".csv", csvFormat}, {".csv.gz", csvGzip}, {".tsv", csvFormat}, {".tsv.gz", csvGzip},
	{".parquet", parquetFormat},
	{".arrow", arrowFile}, {".feather", arrowFile}, {".arrows", arrowStream},
	{".json", jsonFormat}, {".ndjson", linesFormat}, {".jsonl", linesFormat},
}

func formatOf(path string) (formatName, error) {
	lower := strings.ToLower(path)
	for _, s := range suffixes {
		if strings.HasSuffix(lower, s.end) {
			return s.format, nil
		}
	}
	return 0, fmt.Errorf("%s: its suffix is that of no format: %s", path, suffixFix(lower))
}

// suffixFix is what to do with a file of another suffix.
func suffixFix(path string) string {
	switch suffix := filepath.Ext(path); suffix {
	case ".xlsx", ".xls", ".ods", ".numbers":
		return "save the sheet as CSV"
	case ".bz2", ".xz", ".zst", ".zip", ".7z":
		return "unpack it first (of compressed files, only .csv.gz and .tsv.gz are read)"
	case ".npy", ".npz", ".h5", ".pkl", ".pickle", ".orc", ".avro", ".mat", ".sas7bdat":
		return "write the rows as .parquet, .arrow or .csv"
	}
	return "if it has rows, --input-format says how they are written: " + strings.Join(FormatNames(), ", ")
}

// tabDelimiter returns a tab if the suffix means tab-separated values, else 0.
func tabDelimiter(path string) rune {
	if strings.HasSuffix(strings.TrimSuffix(strings.ToLower(path), ".gz"), ".tsv") {
		return '\t'
	}
	return 0
}

// Limits returns the limits for batches of a file, which its user chose to open. They are wider than those for messages
// from the network.
func Limits() arrowio.Limits {
	return arrowio.Limits{Message: maxFrame, Body: 2 * maxFrame, Rows: 1<<31 - 1, Fields: 1 << 16, Metadata: 1 << 16}
}

// batchValues is the approximate number of values in a batch read from CSV or Parquet: large enough to amortize the
// cost of a batch, small enough for a cache.
const batchValues = 1 << 18

// batchRows returns the number of rows in a batch with this many columns.
func batchRows(columns int) int { return min(max(batchValues/max(columns, 1), 64), 8192) }

// looksLike returns an error if the content clearly has another format than the file name.
func looksLike(file *os.File, path string, want formatName) error {
	head := headOf(file)
	switch is, marked := recognise(head); {
	case head == nil:
		return nil // not a regular file, so nothing can be read ahead
	case len(head) == 0:
		return fmt.Errorf("%s is empty: write the names of the columns in its first line, and rows after it", path)
	case isUTF16(head) && (want == csvFormat || want == csvGzip):
		return fmt.Errorf("%s: the content is UTF-16: write it as UTF-8 (iconv -f UTF-16 -t UTF-8)", path)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return fmt.Errorf("%s: the content is a ZIP archive, as XLSX is: unpack it, or save the sheet as CSV", path)
	case CheckContent(head) != nil:
		return fmt.Errorf("%s: %w", path, CheckContent(head))
	case marked && is != want && !is.isText():
		return fmt.Errorf("%s: the content is %s", path, contents[is])
	case want == csvGzip && is != csvGzip:
		return fmt.Errorf("%s: the content is not gzip: name it .csv if it is plain text", path)
	case want == csvFormat && (is == jsonFormat || is == linesFormat):
		return fmt.Errorf("%s: the content is JSON: name it .json, or .ndjson with an object a line", path)
	case !want.isText() && want != csvGzip && want != arrowStream && is != want:
		return fmt.Errorf("%s: the content is not the format of its name; it begins with %.12q: --input-format says "+
			"which it is", path, head)
	}
	return nil
}

// isText reports whether a format is text. The first bytes of a file do not distinguish these formats reliably.
func (f formatName) isText() bool { return f == csvFormat || f == jsonFormat || f == linesFormat }

// headOf returns the first bytes of a file, nil if it is not a regular one.
func headOf(file *os.File) []byte {
	head := make([]byte, 64)
	n, err := file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil
	}
	return head[:n]
}

// contents is how to name a file of each format that is recognised by its first bytes.
var contents = map[formatName]string{
	arrowFile:     "an Arrow IPC file: name it .arrow",
	parquetFormat: "Parquet: name it .parquet",
	arrowStream:   "an Arrow IPC stream: name it .arrows",
	csvGzip:       "gzip: name it .csv.gz if it holds CSV, else unpack it",
}

// mark matches the beginning of a web page or of another document of tags.
var mark = regexp.MustCompile(`^(?i:\x{feff}?\s*<(!DOCTYPE|html|\?xml|table)\b)`)

// CheckContent returns an error if the first bytes of a file are a web page or a Git LFS pointer instead of data.
func CheckContent(head []byte) error {
	switch {
	case mark.Match(head):
		return errors.New("the content is HTML or XML, such as a page to log in: download the file itself, or save the " +
			"table as CSV")
	case bytes.HasPrefix(head, []byte("version https://git-lfs")):
		return errors.New("the content is a pointer of Git LFS, not the file: get it with git lfs pull")
	}
	return nil
}

// split is how an object of columns and data begins, as pandas writes it with orient="split", mostly in one line.
var split = regexp.MustCompile(`^\{\s*"(columns"\s*:\s*\["|index"\s*:\s*\[|data"\s*:\s*\[\s*\[)`)

// follows is where an object is followed by one in another line: no comma is between them.
var follows = regexp.MustCompile(`\}[ \t\r]*\n\s*\{`)

// recognise returns the format of content by its first bytes. Text is CSV unless it begins as JSON.
func recognise(head []byte) (f formatName, found bool) {
	switch {
	case bytes.HasPrefix(head, []byte("ARROW1")):
		return arrowFile, true
	case bytes.HasPrefix(head, []byte("PAR1")), bytes.HasPrefix(head, []byte("PARE")): // PARE: with an encrypted footer
		return parquetFormat, true
	case bytes.HasPrefix(head, []byte{0xff, 0xff, 0xff, 0xff}):
		return arrowStream, true
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return csvGzip, true
	}
	if text := bytes.TrimSpace(head); len(text) > 1 {
		inside := bytes.TrimSpace(text[1:]) // not empty: text does not end with white space
		space := text[1 : len(text)-len(inside)]
		switch {
		case split.Match(text) && !follows.Match(text):
			return jsonFormat, true
		case text[0] == '{' && inside[0] == '"' && !bytes.Contains(space, []byte{'\n'}):
			return linesFormat, true
		case text[0] == '{' && inside[0] == '"', text[0] == '[' && inside[0] == '{':
			return jsonFormat, true
		}
	}
	return csvFormat, len(head) > 0 && (isUTF16(head) || !bytes.Contains(head, []byte{0}))
}

// isUTF16 reports whether text begins with the byte order mark of UTF-16.
func isUTF16(head []byte) bool {
	return len(head) > 1 && (head[0] == 0xff && head[1] == 0xfe || head[0] == 0xfe && head[1] == 0xff)
}

// named are the formats of Options.Format. The name csv is that of compressed CSV too.
var named = map[string]formatName{"csv": csvFormat, "tsv": csvFormat, "json": jsonFormat, "ndjson": linesFormat,
	"parquet": parquetFormat, "arrow": arrowFile, "arrows": arrowStream}

// FormatNames are the words for Options.Format.
func FormatNames() []string {
	return []string{"csv", "tsv", "json", "ndjson", "parquet", "arrow", "arrows"}
}
