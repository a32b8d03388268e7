package strictjson

import "testing"

// TestUnmarshal: unknown fields and further values are errors.
func TestUnmarshal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{`{"version":"a"}`: true, ` {} `: true, `{"vesion":"a"}`: false,
		`{"version":"a"}{}`: false, `{"version":"a"}]`: false, `{"version":1}`: false, ``: false} {
		var v struct {
			Version string `json:"version"`
		}
		if err := Unmarshal([]byte(text), &v); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
