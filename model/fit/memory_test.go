package fit

import (
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
)

// TestMemoryEstimate: a fit needs at most the memory that it estimates in addition to its rows, and for some rows at
// least a third of it. Memory is sampled. Factors of two features have little fill-in, those of ten features, half of
// them noise, are nearly full; buffers of products need some MB for any number of rows.
func TestMemoryEstimate(t *testing.T) {
	if !testsize.Soak() {
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
		apart := math.Inf(1) // factor of overestimation, if that is smallest
		for _, size := range []struct{ n, m int }{{1500, 48}, {1500, 6}, {4000, 10}, {5000, 2}} {
			n, m := size.n, size.m
			held := c.MemoryEstimate(n, n, m)
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
			if !(float64(most) <= 1.2*float64(held)+8<<20) {
				t.Errorf("%s of %d rows of %d held %.1f MB, and says %.1f", name, n, m, float64(most)/1e6, float64(held)/1e6)
			}
			apart = min(apart, (float64(held)-8<<20)/float64(most))
		}
		if !(apart <= 3) && !math.IsInf(apart, 0) {
			t.Errorf("%s says at least %.1f times what it held", name, apart)
		}
	}
}

// TestMemoryOfCopies: the lists of neighbours of rows that come in copies, of which lfda needs up to eight times as
// many, fit into the estimate.
func TestMemoryOfCopies(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("EMBEDD_SOAK=1 measures the memory of fits")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	const n, copies = 24_000, 40
	r := rand.New(rand.NewPCG(1, 2))
	d := &model.Data{N: n, M: 2, Y: make([]int, n), Classes: []string{"a", "b"}}
	for i := range n / copies {
		row := []float64{r.NormFloat64(), r.NormFloat64() + float64(i%2)}
		for c := range copies {
			d.Y[i*copies+c] = i % 2
			d.X = append(d.X, row...)
		}
	}
	c := Config{Method: "lfda", Dim: 2}
	most, err := mostHeld(t, d, c)
	if held := c.MemoryEstimate(n, n, d.M); err != nil || !(float64(most) <= 1.2*float64(held)) {
		t.Errorf("lfda held %.1f MB, and says %.1f; %v", float64(most)/1e6, float64(held)/1e6, err)
	}
}

// TestMemoryOfAFit: a fit that would exceed its memory does not begin, and the number of rows in its error can be
// fitted.
func TestMemoryOfAFit(t *testing.T) {
	all := synthetic(93, 600, 4, 3)
	for name, c := range map[string]Config{
		"isomap":   {Method: "isomap", Memory: 2e6},
		"lle":      {Method: "lle", Memory: 2e6},
		"mpda":     {Method: "mpda", Memory: 2e6},
		"auto":     {Memory: 5e6, Dim: 2},
		"mfa":      {Method: "mfa", Landmarks: 50, Memory: 1e6},
		"lppnews":  {Method: "lppnews", Memory: 1e6},
		"lda":      {Method: "lda", Memory: 1}, // its memory does not grow with the rows
		"a little": {Method: "isomap", Memory: 1000},
	} {
		_, err := Fit(t.Context(), all, c)
		if name == "lda" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "of memory in addition to them") {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		_, rest, found := strings.Cut(err.Error(), "give at most ")
		if name == "a little" {
			if found || !strings.Contains(err.Error(), "use another method") {
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
	if err := (Config{Method: "isomap", Memory: 20e9}).checkMemory(many); err == nil ||
		!strings.Contains(err.Error(), "and 20.0 GB are free; give at most 20000 rows") { // which is all that isomap takes
		t.Error(err)
	}
	c := Config{Method: "isomap"}
	c.Memory = c.MemoryEstimate(100, 0, 2)
	if err := c.checkMemory(&model.Data{N: 100, M: 2}); err != nil {
		t.Errorf("100 rows in the memory that they take: %v", err)
	}
	if err := c.checkMemory(&model.Data{N: 101, M: 2}); err == nil ||
		!strings.Contains(err.Error(), "give at most 100 rows") {
		t.Errorf("101 rows in the memory of 100: %v", err)
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

// mostHeld returns the peak memory of a fit, above that before it.
func mostHeld(t *testing.T, d *model.Data, c Config) (int64, error) {
	objects := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // what is measured includes garbage
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

// TestMemoryEstimateIsNotFarMore: the estimate for rows of few features, for which a factor has little fill-in, and for
// auto is at most a fixed multiple of what TestMemoryEstimate measured, in MB.
func TestMemoryEstimateIsNotFarMore(t *testing.T) {
	for _, c := range []struct {
		config   Config
		n, m     int
		measured float64
		times    float64
	}{
		{Config{Method: "le"}, 5000, 2, 15.2, 2},
		{Config{Method: "lle"}, 5000, 2, 32.8, 2},
		{Config{Method: "tsimr"}, 5000, 2, 48.9, 3},
		{Config{Method: "lpfe"}, 3000, 3, 49.2, 2},
		{Config{Method: "lfda"}, 12_000, 256, 163.7, 1.5},
		{Config{Method: "mfa"}, 12_000, 256, 62.7, 2},
		{Config{Method: Auto}, 5000, 256, 172.7, 1.5},
		{Config{Method: Auto}, 2400, 784, 147, 2},
		{Config{Method: Auto, Blend: 1}, 2400, 784, 149, 2},
		{Config{Method: Blend, Params: map[string]string{"members": "pca/none/2,pca/minmax/2,lfda/standard/2"}}, 12_000,
			256, 238.8, 1.5},
	} {
		if mb := float64(c.config.MemoryEstimate(c.n, c.n, c.m)) / 1e6; !(mb <= c.times*c.measured) ||
			!(mb >= c.measured/1.2) {
			t.Errorf("%s of %d rows of %d says %.1f MB, and held %.1f", c.config.name(), c.n, c.m, mb, c.measured)
		}
	}
}

// TestMemoryGrowsWithNeighbours: each neighbour of a row takes at least an index and a weight.
func TestMemoryGrowsWithNeighbours(t *testing.T) {
	const n, m, more = 1000, 20, 40
	tried := 0
	for _, method := range Methods() {
		for _, p := range method.Params {
			if p.Name != "k" {
				continue
			}
			tried++
			estimate := func(k string) int64 {
				return Config{Method: method.Name, Params: map[string]string{"k": k}}.MemoryEstimate(n, n, m)
			}
			if grown := estimate("50") - estimate("10"); grown < n*more*16 {
				t.Errorf("%s: %d more neighbours of %d rows take %d bytes", method.Name, more, n, grown)
			}
		}
	}
	if tried < 5 {
		t.Errorf("%d methods have neighbours", tried)
	}
}

// TestMemoryEstimateOfEachMethod, in bytes, for 1,000 rows of 10 features and for 100,000 of 300, half of them in one
// class: the limits of rows, of patches and of a factor apply to the second. Another figure needs TestMemoryEstimate.
func TestMemoryEstimateOfEachMethod(t *testing.T) {
	k20 := func(name, parameter string) Config {
		return Config{Method: name, Params: map[string]string{parameter: "20"}}
	}
	members := func(of string) Config {
		return Config{Method: Blend, Params: map[string]string{"members": of}}
	}
	for what, c := range map[string]struct {
		config       Config
		small, large int64
	}{
		"dawge":            {Config{Method: "dawge"}, 7_280_000, 1_388_800_000},
		"dawge of 20":      {k20("dawge", "k"), 6_480_000, 1_308_800_000},
		"dla":              {Config{Method: "dla"}, 3_080_000, 968_800_000},
		"dla of 20":        {k20("dla", "k1"), 4_280_000, 1_088_800_000},
		"isomap":           {Config{Method: "isomap"}, 28_180_000, 81_213_017_728},
		"isomap of 20":     {k20("isomap", "k"), 28_980_000, 81_293_017_728},
		"ksmpa":            {Config{Method: "ksmpa"}, 74_280_000, 1_176_800_000},
		"ksmpa of 20":      {k20("ksmpa", "k"), 75_480_000, 1_296_800_000},
		"lda":              {Config{Method: "lda"}, 0, 0},
		"le":               {Config{Method: "le"}, 7_465_744, 2_102_541_824},
		"le of 20":         {k20("le", "k"), 8_480_000, 2_182_541_824},
		"lenewks":          {Config{Method: "lenewks"}, 92_820_000, 1_217_000_000},
		"lenews":           {Config{Method: "lenews"}, 92_820_000, 1_217_000_000},
		"lfda":             {Config{Method: "lfda"}, 3_970_000, 1_753_800_000},
		"lfda of 20":       {k20("lfda", "kNN"), 4_620_000, 1_818_800_000},
		"lle":              {Config{Method: "lle"}, 12_180_000, 2_552_541_824},
		"lle of 20":        {k20("lle", "k"), 24_980_000, 3_832_541_824},
		"lltsa":            {Config{Method: "lltsa"}, 8_600_000, 1_520_800_000},
		"lltsa of 20":      {k20("lltsa", "k"), 19_480_000, 2_608_800_000},
		"lpfe":             {Config{Method: "lpfe"}, 28_222_976, 3_042_541_824},
		"lpfe of 20":       {k20("lpfe", "k"), 38_280_000, 3_962_541_824},
		"lpp":              {Config{Method: "lpp"}, 2_280_000, 888_800_000},
		"lpp of 20":        {k20("lpp", "k"), 3_480_000, 1_008_800_000},
		"lppnews":          {Config{Method: "lppnews"}, 92_820_000, 1_217_000_000},
		"lsda":             {Config{Method: "lsda"}, 2_280_000, 888_800_000},
		"lsda of 20":       {k20("lsda", "k"), 3_480_000, 1_008_800_000},
		"lsdr":             {Config{Method: "lsdr"}, 6_820_000, 1_610_000_000},
		"lsmpa":            {Config{Method: "lsmpa"}, 37_640_000, 1_004_000_000},
		"lsmpa of 20":      {k20("lsmpa", "k"), 38_840_000, 1_124_000_000},
		"ltsimr":           {Config{Method: "ltsimr"}, 74_680_000, 1_216_800_000},
		"ltsimr of 20":     {k20("ltsimr", "k"), 75_480_000, 1_296_800_000},
		"mfa":              {Config{Method: "mfa"}, 2_840_000, 944_800_000},
		"mfa of 20":        {k20("mfa", "k1"), 3_480_000, 1_008_800_000},
		"mp-ltsimr":        {Config{Method: "mp-ltsimr"}, 20_680_000, 180_928_800_000},
		"mp-ltsimr of 20":  {k20("mp-ltsimr", "k"), 21_480_000, 181_008_800_000},
		"mp-tsimr":         {Config{Method: "mp-tsimr"}, 109_720_000, 180_000_000_000},
		"mp-tsimr of 20":   {k20("mp-tsimr", "k"), 167_320_000, 180_000_000_000},
		"mpda":             {Config{Method: "mpda"}, 10_830_000, 47_650_600_000},
		"mpda of 20":       {k20("mpda", "k"), 11_480_000, 47_715_600_000},
		"npe":              {Config{Method: "npe"}, 2_280_000, 888_800_000},
		"npe of 20":        {k20("npe", "k"), 3_480_000, 1_008_800_000},
		"pairacc":          {Config{Method: "pairacc"}, 0, 0},
		"pca":              {Config{Method: "pca"}, 0, 0},
		"pmpda":            {Config{Method: "pmpda"}, 211_970_000, 1_961_800_000},
		"pmpda of 20":      {k20("pmpda", "k"), 329_620_000, 3_252_050_000},
		"sle":              {Config{Method: "sle"}, 0, 0},
		"sle-ovr":          {Config{Method: "sle-ovr"}, 720_000, 1_000_000_000},
		"srda":             {Config{Method: "srda"}, 0, 0},
		"tnca":             {Config{Method: "tnca"}, 1_020_000, 1_030_000_000},
		"tsimr":            {Config{Method: "tsimr"}, 28_600_000, 4_461_741_824},
		"tsimr of 20":      {k20("tsimr", "k"), 92_600_000, 10_861_741_824},
		"auto":             {Config{Method: Auto}, 38_009_600, 2_507_354_432},
		"auto, one method": {Config{Method: Auto, Blend: 1}, 37_880_000, 1_993_800_000},
		"auto, nonlinear":  {Config{Method: Auto, Nonlinear: true}, 43_136_000, 3_707_354_432},
		"auto, one scale":  {Config{Method: Auto, Scale: model.ScaleStandard, Dim: 3}, 37_763_200, 2_027_354_432},
		"auto, one method and scale": {Config{Method: Auto, Blend: 1, Scale: model.ScaleStandard, Nonlinear: true},
			42_760_000, 2_473_800_000},
		"landmarks":                    {Config{Method: "mfa", Landmarks: 150}, 17_560_000, 810_400_000},
		"more landmarks than rows":     {Config{Method: "pca", Landmarks: 1500}, 16_000_000, 2_400_000_000},
		"ranks":                        {Config{Method: "lda", Scale: model.ScaleRank}, 240_000, 720_000_000},
		"a blend":                      {members("lda/standard/2,mfa/none/2,pca/none/3"), 3_000_000, 1_424_800_000},
		"a blend of moments":           {members("lda/standard/2,pca/standard/3"), 0, 0},
		"a blend with landmarks":       {members("mfa/standard/2/landmarks=50,lda/rank/2"), 7_400_000, 1_120_800_000},
		"a method that does not exist": {Config{Method: "none"}, 0, 0},
	} {
		small, large := c.config.MemoryEstimate(1000, 500, 10), c.config.MemoryEstimate(100_000, 50_000, 300)
		if small != c.small || large != c.large {
			t.Errorf("%s: %d and %d bytes, want %d and %d", what, small, large, c.small, c.large)
		}
	}
}
