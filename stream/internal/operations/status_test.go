package operations

import "testing"

// TestTransformOfReopened: a stream ends when its pipeline is opened again, which may be with another schema: the
// stream's model would take one feature for another.
func TestTransformOfReopened(t *testing.T) {
	before, now := New(Pipeline{}), New(Pipeline{})
	if _, err := now.transform(t.Context(), &Request{First: &Message{of: before}}); CodeOf(err) != CodeConflict {
		t.Error(err)
	}
}
