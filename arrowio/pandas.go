package arrowio

import "encoding/json"

// IndexColumns returns the columns that pandas stored as the index of its rows: metadata is the value of the key pandas
// in the metadata of a schema, a note for readers that is not part of the format.
func IndexColumns(metadata []byte) (names []string) {
	var pandas struct {
		Columns []any `json:"index_columns"` // a name, or an object for an index that is no column
	}
	if json.Unmarshal(metadata, &pandas) != nil {
		return nil
	}
	for _, c := range pandas.Columns {
		if name, ok := c.(string); ok {
			names = append(names, name)
		}
	}
	return names
}
