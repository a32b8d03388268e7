package config

import (
	"strings"
	"testing"
)

// TestRenamedKeys checks that a key of an earlier version is an error that names a key that exists.
func TestRenamedKeys(t *testing.T) {
	for before, now := range renamedKeys {
		if _, exists := lookup(before); exists || isSection(before) {
			t.Errorf("%s is renamed and still a key", before)
		}
		if _, exists := lookup(now); !exists {
			t.Errorf("%s is renamed to %s, which is no key", before, now)
		}
		section, key, _ := strings.Cut(before, ".")
		_, err := Parse("embedd.yaml", []byte(section+": {"+key+": 1}\n"+pipeline(features)), none)
		want := `unknown key "` + key + `": it is now ` + now
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", before, err, want)
		}
	}
}
