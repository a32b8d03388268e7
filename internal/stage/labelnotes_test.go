package stage

import (
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/plugin/spec"
)

// TestLabelNoteFrom: each reason why labels and rows are not joined is named from its limit on, the likeliest first.
func TestLabelNoteFrom(t *testing.T) {
	for _, c := range []struct {
		name string
		s    spec.LabelStatus
		rows uint64
		want string
	}{
		{"nothing came", spec.LabelStatus{}, 0, ""},
		{"no row has a key", spec.LabelStatus{Keyless: 5, Late: 9}, 0, "none of 5 rows has a key"},
		{"one row has a key", spec.LabelStatus{Keyless: 5}, 1, ""},
		{"keys of a tenth repeat", spec.LabelStatus{Joined: 50, Repeated: 10}, 100, ""},
		{"keys of more repeat", spec.LabelStatus{Joined: 50, Repeated: 11}, 100, "keys repeat: 11 of 100 rows"},
		{"none met", spec.LabelStatus{Late: 1, Expired: 1}, 100, "1 labels arrived and none has the key"},
		{"none met, labels wait", spec.LabelStatus{LabelsWaiting: 3, Expired: 1}, 100,
			"3 labels arrived and none has the key"},
		{"none met, rows wait", spec.LabelStatus{Late: 2, RowsWaiting: 1}, 100, "2 labels arrived and none has the key"},
		{"all wait", spec.LabelStatus{LabelsWaiting: 3, RowsWaiting: 3}, 100, ""},
		{"no rows expired", spec.LabelStatus{Late: 1}, 100, "1 labels found no row"},
		{"one met", spec.LabelStatus{Joined: 1, Late: 1, Expired: 1}, 100, "1 labels found no row and 1 rows"},
		{"a tenth late", spec.LabelStatus{Joined: 50, Corrected: 30, Duplicate: 20, Late: 10}, 1000, ""},
		{"more late", spec.LabelStatus{Joined: 50, Corrected: 30, Duplicate: 20, Late: 11}, 1000, "11 labels found no row"},
		{"a tenth expired", spec.LabelStatus{Joined: 50, Expired: 100}, 1000, ""},
		{"more expired", spec.LabelStatus{Joined: 50, Expired: 101}, 1000, "and 101 rows have no label"},
	} {
		got := labelNote(&c.s, "id", spec.Labels{Wait: time.Hour, Bytes: 3 << 20}, c.rows)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if strings.Contains(got, "wait at most") &&
			!strings.Contains(got, "wait at most 1h0m0s for each other within 3 MiB") {
			t.Errorf("%s: %q does not say what the limits are", c.name, got)
		}
	}
}
