package stage

import (
	"errors"
	"testing"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestLabelsAsText: late labels have the format of the rows, a key of a number is that of its text, and a label with a
// fraction is refused.
func TestLabelsAsText(t *testing.T) {
	t.Parallel()
	for format, texts := range map[wire.Format][3]string{
		wire.FormatJSON:   {`[{"id":7,"label":"a"},{"id":"8","label":3}]`, `{"id":7,"label":3.5}`, `{"id":7}`},
		wire.FormatNDJSON: {"{\"label\":\"a\",\"id\":\"7\"}\n{\"id\":8,\"label\":\"3\"}", `{"id":7,"label":[1]}`, `{"id":7}`},
		wire.FormatCSV:    {"id,label\n7,a\n8,3\n", "id,label\n7,3.5\n", "id\n7\n"},
	} {
		s, err := New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label", Key: "id", Format: format},
			Labels: &spec.Labels{}, Fit: fit.Config{Method: "lda"}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		m, err := s.DecodeLabels([]byte(texts[0]))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for row := range m.Rows() {
			key, _ := m.Batches()[0].Key(row)
			label, _ := m.Batches()[0].Label(row)
			got += key + " " + label + ";"
		}
		if got != "7 a;8 3;" {
			t.Errorf("%s: labels %q", format, got)
		}
		if err := s.LearnLabels(m, spec.Position{Seq: 1}); err != nil {
			t.Error(err)
		}
		if _, err := s.DecodeLabels([]byte(texts[1])); !errors.Is(err, wire.LabelType) {
			t.Errorf("%s: %v", format, err)
		}
		if _, err := s.DecodeLabels([]byte(texts[2])); !errors.Is(err, wire.MissingColumn) {
			t.Errorf("%s: %v", format, err)
		}
	}
}
