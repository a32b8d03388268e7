package wire

import "testing"

// TestReserved: names of the server and of embedd are reserved in any case of letters, and others are not.
func TestReserved(t *testing.T) {
	for name, want := range map[string]bool{"Nats-Msg-Id": true, "nats-msg-id": true, "NATS-": true, "embedd-model": true,
		"EMBEDD-X": true, "Nats": false, "Natsy": false, "X-Nats-A": false, "Embedded": false, "Content-Type": false,
		"": false} {
		if Reserved(name) != want {
			t.Errorf("%q reserved: %t", name, !want)
		}
	}
}

// TestParsePart: what PartOf writes is parsed, and nothing else.
func TestParsePart(t *testing.T) {
	for value, want := range map[string][2]int{"": {0, 1}, PartOf(0, 2): {0, 2}, PartOf(4, 5): {4, 5}} {
		if part, parts, ok := ParsePart(value); !ok || part != want[0] || parts != want[1] {
			t.Errorf("%q is part %d of %d, %t", value, part, parts, ok)
		}
	}
	for _, value := range []string{"0/2", "3/2", "1", "a/b", "-1/3", "1/", "/2"} {
		if _, _, ok := ParsePart(value); ok {
			t.Errorf("%q is a part", value)
		}
	}
}
