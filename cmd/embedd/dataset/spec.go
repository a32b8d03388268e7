package dataset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
)

// Formats is the part of a flag's usage that names the files of rows which verbs read.
const Formats = "`FILE` of rows: .csv .csv.gz .tsv .json .ndjson .parquet .arrow .arrows, a directory of files in " +
	"one of these formats, a quoted pattern of their names such as 'rows/*.csv', or - for standard input"

// FileFlags declares the flags that describe a file of rows.
func FileFlags(f *cli.Flags, how *file.Options) {
	format := append([]string{"auto"}, file.FormatNames()...)
	f.Words("input-format", "`FORMAT` of the rows, of a name without a suffix and of standard input: "+
		strings.Join(format, ", ")+" (default auto: by the suffix, or by the first bytes of standard input)",
		func(word string) { how.Format = strings.TrimPrefix(word, "auto") }, format...)
	character := func(to *rune, names map[string]rune) func(string) error {
		return func(s string) error {
			r, ok := names[s]
			if runes := []rune(s); !ok && len(runes) == 1 {
				r, ok = runes[0], true
			}
			if !ok || strings.ContainsRune("\"\r\n\uFFFD", r) {
				return fmt.Errorf("want one character")
			}
			*to = r
			return nil
		}
	}
	f.Func("delimiter", "`CHARACTER` between the fields of CSV, or tab (default: a tab for .tsv, else what the header "+
		"line uses: comma, semicolon, tab or |)", character(&how.Delimiter, map[string]rune{"tab": '\t', `\t`: '\t'}))
	f.Func("decimal", "`CHARACTER` before the fraction of a CSV number (default a point)", character(&how.Decimal, nil))
	f.BoolVar(&how.NoHeader, "no-header", false, "the first line of CSV is a row; the columns are named x0, x1, ...")
	f.CommasVar(&how.Missing, "missing", "`WORDS` that mean a missing value in any CSV column; in numeric columns NA, "+
		"N/A, NaN, nan, null, NULL, None and an empty field always do")
}

// Spec selects the rows of a file and the meaning of its columns.
type Spec struct {
	Path          string
	Label, Key    string
	Features      []string // names and globs; none: every numeric column but label and key
	Nulls         string   // what becomes of rows with a missing feature: impute, reject or skip; "" is impute
	Labelled      bool     // skip rows without a label
	Categories    []string // columns of text with a feature for each value
	Dates         []string // columns whose feature is a number of days
	ModelFeatures []string // the feature elements of a model, in its order; nil: those of Features
	File          file.Options
	encodings     []arrowio.Encoding // of Categories and Dates
	CanSpool      bool               // many rows may be kept in a temporary file, as Rows.Stored
}

// Flags declares the flags of the verbs that read labelled rows.
func Flags(f *cli.Flags, s *Spec) {
	f.Data(&s.Path, Formats)
	f.StringVar(&s.Label, "label", "", "`COLUMN` of the class: text, integers or booleans")
	f.StringVar(&s.Key, "key", "", "`COLUMN` that identifies a row and is not a feature")
	f.StringArrayVar(&s.Features, "features", nil,
		"feature columns by name or `GLOB`, separated by commas or repeated (default every numeric or boolean column but "+
			"label and key)")
	f.CommasVar(&s.Categories, "categories", "`COLUMNS` of text that become a feature for each value, 1 or 0; in "+
		"other rows a value that the fit did not see is 0 in all of them")
	f.CommasVar(&s.Dates, "dates", "`COLUMNS` of dates or times that become days since 1970; text is 2024-05-01 or "+
		"2024-05-01T12:00:00Z")
	NullsFlag(f, &s.Nulls, "(default impute, or with --model that of the fit)")
	FileFlags(f, &s.File)
}

// NullsFlag declares the flag for rows with a missing feature. If it is not given, to stays "".
func NullsFlag(f *cli.Flags, to *string, byDefault string) {
	f.Words("nulls", "`POLICY` for rows with a feature that is missing, infinite or beyond float32: impute (the "+
		"feature's mean), reject (an error), skip "+byDefault, func(word string) { *to = word }, "impute", "reject", "skip")
}

// Decoder returns the decoder of a file's batches, and the contract of the model that they are for, nil without one.
func (s Spec) Decoder() (*arrowio.Decoder, *arrowio.Contract, error) {
	spec := arrowio.Spec{Features: s.Features, Label: s.Label, Key: s.Key, Limits: file.Limits()}
	if len(s.Features) == 0 {
		spec.Features = []string{"*"}
	}
	spec.Encodings = s.encodings
	for _, one := range s.encodings {
		if !slices.Contains(spec.Features, one.Column) {
			spec.Features = append(slices.Clip(spec.Features), one.Column)
		}
	}
	var contract *arrowio.Contract
	if s.ModelFeatures != nil {
		var err error
		spec.Features = nil
		if contract, err = spec.ContractOf(s.ModelFeatures); err != nil {
			return nil, nil, err
		}
		spec = spec.Fixed(contract)
	}
	d, err := arrowio.NewDecoder(spec)
	return d, contract, err
}

// splitNames splits names at commas, except those of a column.
func splitNames(names []string, schema *arrow.Schema) (split []string) {
	for _, name := range names {
		if len(schema.FieldIndices(name)) > 0 {
			split = append(split, name)
		} else {
			split = append(split, strings.Split(name, ",")...)
		}
	}
	return split
}

// ColumnNames are the names of the columns of a file.
func ColumnNames(schema *arrow.Schema) (names []string) {
	for _, f := range schema.Fields() {
		names = append(names, f.Name)
	}
	return names
}

// Check returns an error if the file lacks the label or key column. In a message a missing label column is allowed, in
// a file it is a typo.
func (s Spec) Check(schema *arrow.Schema) error {
	names := ColumnNames(schema)
	type use struct{ flag, column string }
	named := []use{{"label", s.Label}, {"key", s.Key}}
	for _, column := range s.Categories {
		named = append(named, use{"categories", column})
	}
	for _, column := range s.Dates {
		named = append(named, use{"dates", column})
	}
	for i, c := range named {
		isSame := func(other use) bool { return c.column != "" && other.column == c.column }
		if j := slices.IndexFunc(named[:i], isSame); j >= 0 && i > 1 {
			return cli.Usagef("column %q is in --%s and in --%s: leave it out of one", c.column, named[j].flag, c.flag)
		}
		if c.column != "" && !slices.Contains(names, c.column) {
			if len(names) == 0 {
				return cli.Usagef("%s has no column %q for --%s, nor any other: name another file", s.Path, c.column, c.flag)
			}
			listed := cli.Listed(names)
			if fields := strings.Fields(names[0]); len(names) == 1 && slices.Contains(fields, c.column) {
				listed += ", which is one: replace the spaces between columns by commas (awk -v OFS=, '{$1 = $1} 1')"
			}
			return cli.Usagef("%s has no column %q for --%s%s: its columns are %s", s.Path, c.column, c.flag,
				cli.DidYouMean(c.column, names), listed)
		}
	}
	return nil
}
