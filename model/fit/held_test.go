package fit

import (
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/embedd/embedd/model"
)

// TestHeld: where a method says what it holds between rows, that is what it holds; it is looked at every so often.
func TestHeld(t *testing.T) {
	if os.Getenv("EMBEDD_SOAK") == "" {
		t.Skip("EMBEDD_SOAK=1 measures the memory of fits")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(3))
	const n, m = 1500, 4
	r := rand.New(rand.NewPCG(1, 2))
	d := &model.Data{X: make([]float64, n*m), N: n, M: m, Y: make([]int, n), Classes: []string{"a", "b"}}
	for i := range n {
		d.Y[i] = i * 20 / n / 19 // nearly all are of one class
		for j := range m {
			d.X[i*m+j] = r.NormFloat64() + float64(3*d.Y[i])
		}
	}
	for _, method := range Methods() {
		held := method.Held(n, m)
		if held == 0 {
			continue
		}
		c := Config{Method: method.Name, Dim: 2}
		if method.has("iters") {
			c.Params = map[string]string{"iters": "5"}
		}
		most, err := mostHeld(t, d, c)
		if err != nil {
			t.Errorf("%s: %v", method.Name, err)
		}
		t.Logf("%s: %.0f bytes a pair, %.0f said", method.Name, float64(most)/n/n, float64(held)/n/n)
		if float64(most) > 1.2*float64(held)+4<<20 || most < held/2 {
			t.Errorf("%s held %.1f MB, and says %.1f", method.Name, float64(most)/1e6, float64(held)/1e6)
		}
	}
}

func (m Method) has(param string) bool {
	for _, p := range m.Params {
		if p.Name == param {
			return true
		}
	}
	return false
}

// mostHeld is the most memory that a fit is seen to have, above what there was before it.
func mostHeld(t *testing.T, d *model.Data, c Config) (int64, error) {
	objects := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	runtime.GC()
	before := objects()
	end, seen := make(chan bool), make(chan int64)
	go func() {
		most := int64(0)
		for {
			select {
			case <-end:
				seen <- most
				return
			case <-time.After(200 * time.Microsecond):
				most = max(most, objects()-before)
			}
		}
	}()
	_, err := Fit(t.Context(), d, c)
	close(end)
	return <-seen, err
}
