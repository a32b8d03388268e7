// Package strictjson reads JSON whose unknown fields are errors: a misspelt field of a request must not be ignored.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Unmarshal is json.Unmarshal that refuses fields which v does not have.
func Unmarshal(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("data after the JSON value")
	}
	return nil
}
