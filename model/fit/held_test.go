package fit

import (
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/model"
)

// TestHeld: what a fit says that it holds beside its rows is what it holds at most, and not by far more; it is looked at
// every so often. Half of the features are noise, so that factors fill in; buffers of products take some MB, however few the rows.
func TestHeld(t *testing.T) {
	if os.Getenv("EMBEDD_SOAK") == "" {
		t.Skip("EMBEDD_SOAK=1 measures the memory of fits")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	configs := map[string]Config{
		"auto":                  {Method: Auto, Blend: 1},
		"auto, a blend":         {Method: Auto},
		"auto, nonlinear":       {Method: Auto, Nonlinear: true},
		"pca behind landmarks":  {Method: "pca", Landmarks: 100},
		"tnca behind landmarks": {Method: "tnca", Landmarks: 100},
		"mfa of normal scores":  {Method: "mfa", Scale: model.ScaleRank},
		"a blend": {Method: Blend, Params: map[string]string{
			"members": "lsmpa/standard/2,mfa/none/2,pca/minmax/2"}},
	}
	for _, m := range Methods() {
		c := Config{Method: m.Name, Params: map[string]string{}}
		if m.has("iters") {
			c.Params["iters"] = "3"
		}
		configs[m.Name] = c
		for _, k := range []string{"k", "k1", "kNN"} {
			if m.has(k) {
				c.Params = maps.Clone(c.Params)
				c.Params[k] = "20"
				configs[m.Name+" of 20"] = c
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		c := configs[name]
		c.Dim = 2
		for _, size := range []struct{ n, m int }{{1500, 48}, {1500, 6}, {4000, 10}} {
			n, m := size.n, size.m
			held := c.Held(n, n, m)
			if held == 0 {
				continue
			}
			r := rand.New(rand.NewPCG(1, 2))
			d := &model.Data{X: make([]float64, n*m), N: n, M: m, Y: make([]int, n), Classes: []string{"a", "b"}}
			for i := range n {
				d.Y[i] = i * 20 / n / 19 // nearly all are of one class
				for j := range m {
					d.X[i*m+j] = r.NormFloat64() + float64(3*d.Y[i]*(j%2))
				}
			}
			most, err := mostHeld(t, d, c)
			t.Logf("%s, %d x %d: %.1f MB of %.1f, %.0f and %.0f bytes a row; %v", name, n, m, float64(most)/1e6,
				float64(held)/1e6, float64(most)/float64(n), float64(held)/float64(n), err)
			if float64(most) > 1.2*float64(held)+8<<20 || held > 16<<20 && most < held/16 {
				t.Errorf("%s of %d rows of %d held %.1f MB, and says %.1f", name, n, m, float64(most)/1e6, float64(held)/1e6)
			}
		}
	}
}

// TestMemoryOfAFit: a fit that would hold more than it may begins nothing, and so many rows as it says then can be fitted.
func TestMemoryOfAFit(t *testing.T) {
	all := synthetic(93, 600, 4, 3)
	for name, c := range map[string]Config{
		"isomap":   {Method: "isomap", Memory: 2e6},
		"lle":      {Method: "lle", Memory: 2e6},
		"mpda":     {Method: "mpda", Memory: 2e6},
		"auto":     {Memory: 5e6, Dim: 2},
		"mfa":      {Method: "mfa", Landmarks: 50, Memory: 1e6},
		"lppnews":  {Method: "lppnews", Memory: 1e6},
		"lda":      {Method: "lda", Memory: 1}, // what it holds does not grow with the rows
		"a little": {Method: "isomap", Memory: 1000},
	} {
		_, err := Fit(t.Context(), all, c)
		if name == "lda" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "of memory beside them") {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		_, rest, found := strings.Cut(err.Error(), "give at most ")
		if name == "a little" {
			if found || !strings.Contains(err.Error(), "take another method") {
				t.Errorf("%s: error %v", name, err)
			}
			continue
		}
		rows, _ := strconv.Atoi(strings.Fields(rest)[0])
		some := *all
		some.N, some.X, some.Y = rows, all.X[:rows*all.M], all.Y[:rows]
		if _, err := Fit(t.Context(), &some, c); rows < 20 || rows >= all.N || err != nil {
			t.Errorf("%s: %d rows, as it says, end in %v", name, rows, err)
		}
	}
	many := &model.Data{N: 300_000, M: 2}
	if err := (Config{Method: "isomap", Memory: 20e9}).fits(many); err == nil ||
		!strings.Contains(err.Error(), "give at most 20000 rows") { // which is all that isomap takes
		t.Error(err)
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
