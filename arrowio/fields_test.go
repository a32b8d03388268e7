package arrowio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
)

// TestFieldsOfAMessage: what the columns of a message hold, in the words of users.
func TestFieldsOfAMessage(t *testing.T) {
	b := arrow.BinaryTypes
	columns := []any{"a", from(t, i32, `[1,null]`), "b", from(t, arrow.ListOf(f32), `[[1],[2]]`), "c",
		from(t, b.LargeString, `["x",null]`), "d",
		from(t, &arrow.DictionaryType{IndexType: i32, ValueType: str}, `["x","y"]`),
		"e", from(t, b.Binary, `["AA==",null]`), "f", from(t, arrow.ListOf(str), `[["x"],null]`), "g",
		from(t, arrow.StructOf(arrow.Field{Name: "s", Type: i32, Nullable: true}), `[{"s":1},null]`), "h",
		from(t, arrow.FixedWidthTypes.Date32, `["2024-05-01",null]`), "i", from(t, arrow.Null, `[null,null]`), "j",
		from(t, str, `[null,null]`), "k", from(t, &arrow.FixedSizeBinaryType{ByteWidth: 1}, `["AA==",null]`), "l",
		from(t, arrow.FixedWidthTypes.Boolean, `[true,null]`), "m", from(t, b.StringView, `["x","y"]`)}
	m := decode(t, newDecoder(t, Spec{Features: []string{"a", "b"}, Label: "m", Key: "c"}), message(t, columns...))
	var got []string
	for _, f := range m.Fields() {
		got = append(got, fmt.Sprintf("%s:%s", f.Name, f.Holds))
		if f.Feature != (f.Name == "a" || f.Name == "b") || f.Empty != (f.Name == "i" || f.Name == "j") {
			t.Errorf("%+v", f)
		}
	}
	if want := "a:number b:list of numbers c:text d:text e:binary f:list g:nested h:date i:null j:text k:binary " +
		"l:number m:text"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
	if m.LabelKind() != "text" || m.KeyKind() != "text" {
		t.Errorf("the label is %s, the key %s", m.LabelKind(), m.KeyKind())
	}
	for label, want := range map[string]string{"a": "integers", "l": "booleans", "i": "", "none": "", "": ""} {
		m := decode(t, newDecoder(t, Spec{Label: label}), message(t, columns...))
		if got := m.LabelKind(); got != want || m.KeyKind() != "" {
			t.Errorf("the label %q is %q, want %q", label, got, want)
		}
	}
}
