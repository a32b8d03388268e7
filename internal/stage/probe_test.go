package stage

import (
	"github.com/embedd/embedd/plugin/spec"
	"math/rand/v2"
	"testing"
)

// TestScouts rotates the features while no alarm may cut the window, which has earlier rows for long: a method that
// needs the rows is still fitted from those after the change, because discriminants of moments are more accurate there.
// Without a change no suffix leads.
func TestScouts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 21))
	w := newRecordedStage(t, func(c *spec.Config) {
		c.Fit.Method = "lfda"
		c.Training.IgnoreDrift = true
		c.Training.Every = spec.Every{Rows: 1 << 20}
		c.Training.Window.Rows = 4000
	})
	leads := func() int { return inspect(w.Stage).Schedule.Suffix }
	steady := clouds(r, 3000, 4)
	for i := range steady {
		for j := range steady[i].x {
			steady[i].x[j] /= 3 // classes overlap, so that models differ
		}
	}
	for i := 0; i < len(steady); i += 100 {
		learnRows(t, w.Stage, uint64(1+i/20), steady[i:i+100])
		if n := leads(); n != 0 {
			t.Errorf("after %d rows where nothing changes the newest %d lead", i+100, n)
		}
	}
	before := w.Live()
	turned := clouds(r, 1000, 4)
	led := 0
	for i := 0; i < len(turned); i += 20 {
		for k := range turned[i : i+20] {
			x := turned[i+k].x
			turned[i+k].x = append(append([]float32{}, x[2:]...), x[:2]...)
			turned[i+k].x[4] *= -1
		}
		learnRows(t, w.Stage, uint64(1000+i/20), turned[i:i+20])
		if n := leads(); n != 0 && led == 0 {
			led = i + 20
		}
	}
	st := w.Status()
	t.Logf("a suffix leads after %d rows; live: %s", led, w.decisions[len(w.decisions)-1])
	if st.Alarms > 0 || led == 0 || led > 500 {
		t.Errorf("%d alarms, and a suffix leads after %d rows", st.Alarms, led)
	}
	if st.Live == before || st.Live.Model.Rows() > 1000 || !(st.Accuracy >= 0.85) {
		t.Errorf("a model of %d rows is live: %+v", st.Live.Model.Rows(), st)
	}
}
