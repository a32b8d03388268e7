package plugin

import (
	"strings"
	"testing"
)

// TestEmptyConfig: a stage that names no features would never learn, so that New says what it needs.
func TestEmptyConfig(t *testing.T) {
	s, err := New(Config{})
	if err == nil {
		s.Close()
		t.Fatal("an empty configuration is accepted")
	}
	for _, word := range []string{"Config.Spec.Features", "Config.Spec.Label", `"*"`} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}
