package rowtext

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendString appends a text as a JSON string.
func AppendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the text is UTF-8: readers have checked it
	return dst
}

// MaxFloat32 is the most bytes that AppendFloat32 appends.
const MaxFloat32 = len("-1.23456789e-38")

// AppendFloat32 appends the shortest number that reads back as the same float32, null for one that is not finite.
func AppendFloat32(dst []byte, v float32) []byte {
	if f := float64(v); !math.IsInf(f, 0) && !math.IsNaN(f) {
		return strconv.AppendFloat(dst, f, 'g', -1, 32)
	}
	return append(dst, "null"...)
}

// AppendField appends a text as a CSV field: in quotes if it has a character that needs them, or begins or ends with a
// space.
func AppendField(dst []byte, s string) []byte {
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	if !strings.ContainsAny(s, ",\"\r\n") && !unicode.IsSpace(first) && !unicode.IsSpace(last) {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for {
		n := strings.IndexByte(s, '"')
		if n < 0 {
			return append(append(dst, s...), '"')
		}
		dst = append(append(dst, s[:n+1]...), '"')
		s = s[n+1:]
	}
}

// AppendAsField appends a JSON value as a CSV field: numbers and booleans as they are written, null as nothing, a
// string as its text, in quotes if it is empty, arrays and objects as their JSON.
func AppendAsField(dst, raw []byte) []byte {
	switch raw[0] {
	case 'n':
		return dst
	case '"':
		if len(raw) == len(`""`) { // without quotes it would be null
			return append(dst, raw...)
		}
		return AppendField(dst, Unquote(raw))
	case '[', '{':
		return AppendField(dst, string(raw))
	}
	return append(dst, raw...)
}

// AppendAsValue appends a CSV field of a column of these kinds as a JSON value. A number that JSON writes in another
// way becomes the shortest one that is the same float64.
func AppendAsValue(dst, raw []byte, k Kind, isNumber, isBoolean bool) []byte {
	word := bytes.TrimSpace([]byte(Field(raw, k)))
	switch {
	case !isNumber && !isBoolean:
		return AppendString(dst, Field(raw, k))
	case FieldKind(word) == Null:
		return append(dst, "null"...)
	case isBoolean:
		return strconv.AppendBool(dst, FieldKind(word) == True)
	}
	if v := jsontext.Value(word); v.IsValid() && v.Kind() == '0' {
		return append(dst, word...)
	}
	v, _, _ := Float(raw, k)
	if math.IsInf(v, 0) {
		return AppendString(dst, string(word))
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}
