package registry

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/embedd/embedd/plugin"
)

// saveEpoch saves the first model of an epoch that may be comparable with an earlier one, or a later model of it.
func saveEpoch(t *testing.T, r *Registry, seed uint64, parent string, change func(*plugin.Release)) string {
	t.Helper()
	release := release(t, seed, parent)
	change(release)
	v, err := r.Save(t.Context(), release)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSettleEpoch: a start has the first model of the epoch before while it is undecided whether the live one is
// comparable. When it is, the pointer, models that are read, a start and replicas say so; stored models, digests and
// numbers of epochs stay, as do the first models that the next comparisons need.
func TestSettleEpoch(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		r := New(s, "digits", Options{Keep: Keep{Versions: 1}})
		if _, err := r.Live(t.Context()); err != nil {
			t.Fatal(err)
		}
		a := saveEpoch(t, r, 1, "", func(r *plugin.Release) { r.NewEpoch = true })
		b := saveEpoch(t, r, 2, a, func(r *plugin.Release) { r.Epoch, r.NewEpoch, r.Undecided = 2, true, 1 })
		c := saveEpoch(t, r, 3, b, func(r *plugin.Release) { r.Epoch, r.Undecided = 2, 1 })
		l, p := live(t, s)
		if l.Epoch != 2 || l.SameAs != 0 || l.Undecided != 1 || l.Before == nil || l.Before.Note().Version != a ||
			l.Origin.Note().Version != b || p.Find(c).Undecided != 1 {
			t.Fatalf("live is %+v", l)
		}
		replica := New(s, "digits", Options{})
		if _, err := replica.Live(t.Context()); err != nil {
			t.Fatal(err)
		}
		settled := *l
		settled.SameAs, settled.Undecided, settled.Before = 1, 0, nil
		if err := r.SettleEpoch(t.Context(), &settled); err != nil {
			t.Fatal(err)
		}
		var adopted []*plugin.Live
		adopt := func(c *Choice) error {
			adopted = append(adopted, c.Live)
			return nil
		}
		for range 2 {
			if err := replica.CatchUp(t.Context(), adopt); err != nil {
				t.Fatal(err)
			}
		}
		if len(adopted) != 1 || adopted[0].Version != c || adopted[0].SameAs != 1 {
			t.Errorf("a replica adopted %+v", adopted)
		}
		refuse := func(*Choice) error { return errors.New("it has decided this itself") }
		if err := r.CatchUp(t.Context(), refuse); err != nil {
			t.Fatal(err)
		}
		if why := r.Problem(); why != "" {
			t.Error(why)
		}
		l, p = live(t, s)
		if l.Epoch != 2 || l.SameAs != 1 || l.Undecided != 0 || l.Before != nil || l.Origin.Note().Version != a ||
			l.Model.Note().SameAs != 1 || l.Model.Digest() != fitted(t, 3, 5).Digest() || string(l.State) != "state 3" {
			t.Errorf("live is %+v", l)
		}
		if v := p.Find(b); v == nil || v.SameAs != 1 || v.Undecided != 0 || v.Epoch != 2 {
			t.Errorf("the first model of the epoch is %+v", v)
		}
		if m, err := Read(t.Context(), s, c); err != nil || m.Note().SameAs != 1 {
			t.Errorf("%s is read as %+v, %v", c, m.Note(), err)
		}
		d := saveEpoch(t, r, 4, c, func(r *plugin.Release) { r.Epoch, r.SameAs = 2, 1 })
		if l, p = live(t, s); l.SameAs != 1 || p.Find(d).SameAs != 1 || l.Origin.Note().Version != a {
			t.Errorf("the next model is %+v, compared with %s", l, l.Origin.Note().Version)
		}
		if err := r.SettleEpoch(t.Context(), &settled); !errors.Is(err, ErrOvertaken) {
			t.Errorf("an answer about a model that is not live any more: %v", err)
		}
		e := saveEpoch(t, r, 5, d, func(r *plugin.Release) { r.Epoch, r.NewEpoch = 3, true })
		f := saveEpoch(t, r, 6, e, func(r *plugin.Release) { r.Epoch = 3 })
		saveEpoch(t, r, 7, f, func(r *plugin.Release) { r.Epoch = 3 }) // a first model leaves after the others
		if _, p = live(t, s); p.Find(a) != nil || p.Find(b) != nil || p.Find(d) != nil {
			t.Errorf("the pointer keeps %s", p.names())
		}
	})
}

// A pointer that an older version has written has no records of epochs: they are separate, and nothing is damaged.
func TestEpochsOfOlderVersions(t *testing.T) {
	s, err := Directory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := New(s, "digits", Options{})
	if _, err := r.Live(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := saveEpoch(t, r, 1, "", func(r *plugin.Release) { r.NewEpoch = true })
	b := saveEpoch(t, r, 2, a, func(r *plugin.Release) { r.Epoch, r.NewEpoch, r.SameAs = 2, true, 1 })
	value, revision, err := s.load(t.Context(), "digits")
	if err != nil {
		t.Fatal(err)
	}
	var p map[string]any
	if err := json.Unmarshal(value, &p); err != nil {
		t.Fatal(err)
	}
	for _, v := range p["versions"].([]any) {
		delete(v.(map[string]any), "same_as_epoch")
	}
	older, err := json.Marshal(p)
	if err != nil || strings.Contains(string(older), "same_as") || !strings.Contains(string(value), "same_as") {
		t.Fatalf("%s, %v", older, err)
	}
	if _, err := s.compareAndSet(t.Context(), "digits", older, revision); err != nil {
		t.Fatal(err)
	}
	if l, _ := live(t, s); l.Version != b ||
		l.Epoch != 2 || l.SameAs != 0 || l.Origin != nil || l.Model.Note().SameAs != 0 {
		t.Errorf("live is %+v", l)
	}
}
