package stage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/stage/window"
)

// TestCandidates: the contract with the most messages leads, of equal ones the one that came first in the stream, in
// whatever order messages are counted.
func TestCandidates(t *testing.T) {
	contract := func(names ...string) *arrowio.Contract {
		c, err := arrowio.NewContract(names, "label", "")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, turned, b, odd := contract("x", "y"), contract("y", "x"), contract("x", "z"), contract("x")
	for name, c := range map[string]struct {
		messages []*arrowio.Contract
		want     *arrowio.Contract
	}{
		"most messages":                 {[]*arrowio.Contract{odd, a, b, a}, a},
		"a tie":                         {[]*arrowio.Contract{b, a, a, b}, b},
		"order of columns":              {[]*arrowio.Contract{b, turned, b, a, a}, turned},
		"one message":                   {[]*arrowio.Contract{odd}, odd},
		"late, and then the most often": {[]*arrowio.Contract{a, a, b, b, b}, b},
	} {
		for seed := range uint64(20) {
			order := rand.New(rand.NewPCG(seed, 1)).Perm(len(c.messages))
			count := contractCounts{}
			for _, i := range order {
				count.add(c.messages[i], window.Position{Seq: uint64(i + 1)}, time.Unix(int64(i), 0),
					usableRows{rows: 2, labels: []string{"p", "q"}}, 10)
			}
			if got := count.leader(); !got.contract.Equal(c.want) {
				t.Fatalf("%s, in the order %v: %v leads, want %v", name, order, got.contract, c.want)
			}
			if all := count.status(); !all[0].Contract.Equal(c.want) || all[0].Rows != 2*all[0].Messages {
				t.Errorf("%s: the first of the status is %+v", name, all[0])
			}
		}
	}
}

// TestManyCandidates: after 64 contracts further ones are counted together, and a known one can still win.
func TestManyCandidates(t *testing.T) {
	count, want := contractCounts{}, ""
	for i := range 100 {
		c, err := arrowio.NewContract([]string{fmt.Sprint("x", i)}, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if i == 63 {
			want = c.ID()
		}
		count.add(c, window.Position{Seq: uint64(i + 1)}, time.Time{}, usableRows{rows: 1}, 10)
		if i == 99 {
			again, _ := arrowio.NewContract([]string{"x63"}, "", "")
			count.add(again, window.Position{Seq: 101}, time.Time{}, usableRows{rows: 1}, 10)
		}
	}
	if got := count.leader().contract.ID(); got != want || len(count.byID) != 64 || count.other != 36 {
		t.Errorf("%s leads of %d, and %d messages are of others", got, len(count.byID), count.other)
	}
	if n := len(count.status()); n != 8 {
		t.Errorf("the status has %d candidates", n)
	}
}

// TestCandidateClasses: a flood of labels needs bounded memory, and two classes of two rows are found.
func TestCandidateClasses(t *testing.T) {
	count := contractCounts{}
	c := testContract(t)
	add := func(labels ...string) {
		count.add(c, window.Position{Seq: 1}, time.Time{}, usableRows{rows: len(labels), labels: labels}, 100)
	}
	add("a", "a", "b")
	if count.leader().hasTwoClasses() {
		t.Error("one row of a class is not two")
	}
	for i := range 1000 {
		add(fmt.Sprint("junk", i))
	}
	add("b")
	if l := count.leader(); len(l.classes) != 100 || !l.hasTwoClasses() || l.rows != 1004 {
		t.Errorf("%d classes, %d rows", len(l.classes), l.rows)
	}
	if !slices.Equal(count.leader().contract.Elements(), featureNames()) {
		t.Error("another contract")
	}
}

// TestLargeCandidates: contracts that are sent to another stage take at most 256 KiB, but for the leader's.
func TestLargeCandidates(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, c := range []struct{ columns, want int }{{10, 5}, {80, 3}, {120, 2}, {300, 1}} { // of 1,000 bytes each
		var count contractCounts
		for i := range 5 {
			names := make([]string, c.columns)
			for j := range names {
				names[j] = fmt.Sprint(long, i, "-", j)
			}
			contract, err := arrowio.NewContract(names, "", "")
			if err != nil {
				t.Fatal(err)
			}
			count.add(contract, window.Position{Seq: uint64(i + 1)}, time.Time{}, usableRows{rows: 1}, 10)
		}
		text, err := count.marshal()
		if err != nil {
			t.Fatal(err)
		}
		sent, err := parseCandidates(text, arrowio.Spec{Features: []string{"*"}})
		if err != nil || len(sent) != c.want || sent[0].first.Seq != 1 {
			t.Errorf("of five contracts of %d columns %d are sent, want %d: %v", c.columns, len(sent), c.want, err)
		}
	}
}
