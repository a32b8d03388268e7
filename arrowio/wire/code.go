package wire

// Code classifies why a message, or rows of it, cannot be used. Codes are sent in the header of a dead letter and never
// change their meaning. errors.Is finds a Code in an *arrowio.Error: errors.Is(err, wire.SchemaChanged).
type Code string

func (c Code) Error() string { return string(c) }

// The codes.
const (
	NotArrow      Code = "not_arrow"       // the message is not an Arrow IPC stream
	NotJSON       Code = "not_json"        // the message, or a row of it, is not JSON, or no object of fields
	NotCSV        Code = "not_csv"         // the message, or a row of it, is not CSV with a header line
	Truncated     Code = "truncated"       // the stream ends early
	Malformed     Code = "malformed"       // invalid or inconsistent Arrow data
	TooLarge      Code = "too_large"       // more bytes than a limit allows
	TooManyRows   Code = "too_many_rows"   // more rows or batches than a limit allows
	TooManyFields Code = "too_many_fields" // more fields, metadata or nesting than a limit allows
	Unsupported   Code = "unsupported"     // valid Arrow that is not supported
	FeatureCount  Code = "feature_count"   // a feature column with an unexpected number of elements
	MissingColumn Code = "missing_column"  // a feature column is not in the message
	NotNumeric    Code = "not_numeric"     // a feature column does not hold numbers
	LabelType     Code = "label_type"      // the label column has a type that cannot name a class
	KeyType       Code = "key_type"        // the key column has a type that cannot be a key
	SchemaChanged Code = "schema_changed"  // the features are not those of the contract
	NameTaken     Code = "name_taken"      // a kept column has the name of the output column
	Dictionary    Code = "dictionary"      // a dictionary is replaced or extended inside the message
	NonFinite     Code = "non_finite"      // rows with a null, NaN or infinite feature, or one beyond float32
	TooWide       Code = "too_wide"        // one row alone is over the size limit
	LargeHeaders  Code = "large_headers"   // the message's headers leave no room in an output
	BadSubject    Code = "bad_subject"     // the message's subject cannot be mapped to that of an output
	ProcessDied   Code = "process_died"    // the process crashed each time while it had this message
	Internal      Code = "internal"        // a bug in embedd, or wrong use of its packages
)
