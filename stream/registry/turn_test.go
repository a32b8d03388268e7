package registry

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRequestsForAnotherLiveVersion: a request for a version that is not live any more changes nothing, and its error
// says what has changed. Of two operators who decide at once, one wins. Each change is recorded once.
func TestRequestsForAnotherLiveVersion(t *testing.T) {
	t.Parallel()
	store, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := New(store, "digits", Options{})
	a, err := r.Save(t.Context(), release(t, 1, ""))
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Save(t.Context(), release(t, 2, a))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Pin(t.Context(), Request{Live: a, By: "late"})
	if !errors.Is(err, ErrOvertaken) || !strings.Contains(err.Error(), b) || !strings.Contains(err.Error(), "promote") {
		t.Errorf("a request for the version before: %v", err)
	}
	const rounds = 20
	versions, live := map[string]string{a: b, b: a}, b
	for range rounds {
		var wg sync.WaitGroup
		var errs [2]error
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = New(store, "digits", Options{}).Rollback(t.Context(),
					Request{Version: versions[live], Live: live, By: "an operator"})
			})
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), ErrOvertaken) {
			t.Fatalf("two operators at once: %v", errs)
		}
		live = versions[live]
	}
	p, err := r.Pointer(t.Context())
	if err != nil || p.Live != live {
		t.Fatalf("%s is live, want %s: %v", p.Live, live, err)
	}
	if len(p.Turns) != 2+rounds {
		t.Fatalf("%d changes are recorded of %d", len(p.Turns), 2+rounds)
	}
	for i, turn := range p.Turns[2:] {
		if turn.What != "rollback" || turn.By != "an operator" || turn.Was == "" || turn.Was != p.Turns[i+1].Live {
			t.Errorf("change %d: %+v", i, turn)
		}
	}
}

// TestDroppedTurns: neither many requests nor many promotions hide the others, and what is not kept is counted.
func TestDroppedTurns(t *testing.T) {
	p, err := parse([]byte(`{"format": 2, "dropped_turns": {}}`)) // by another client
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(0, 0)
	add := func(n int, what, by string) {
		for range n {
			at = at.Add(time.Second)
			p.turn(at, what, "", by)
		}
	}
	kept := func(what string) (n int) {
		for i, turn := range p.Turns {
			if turn.What == what {
				n++
			}
			if i > 0 && turn.Time.Before(p.Turns[i-1].Time) {
				t.Errorf("turn %d is older than the one before", i)
			}
		}
		return n
	}
	add(30, "promote", "")
	add(1000, "replay", "an attacker")
	if kept("promote") != 25 || kept("replay") != 25 || p.Dropped.Count["promote"] != 5 ||
		p.Dropped.Count["replay"] != 975 || !p.Dropped.Until.Equal(at.Add(-25*time.Second)) {
		t.Errorf("%d and %d turns are kept, %+v dropped", kept("promote"), kept("replay"), p.Dropped)
	}
	add(1000, "promote", "")
	if kept("promote") != 25 || kept("replay") != 25 {
		t.Errorf("%d and %d turns are kept", kept("promote"), kept("replay"))
	}
}
