package evidence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// blocksOf is the design effect of residuals by its definition, from blocks of 8, 16, 32 ... rows, in all so many
// lengths. The residuals of one part have the same expectations. If too few rows are known, the effect is least.
func blocksOf(parts [][]float64, lengths int, least float64) float64 {
	effect := 1.0
	for scale := range lengths {
		length, pairs, found, expects, weights := 8<<scale, 0.0, 0.0, 0.0, 0.0
		for _, part := range parts {
			for i := 2 * length; i <= len(part); i += length {
				sums, squares := [2]float64{}, 0.0
				for k, v := range part[i-2*length : i] {
					sums[k/length] += v
					squares += v * v / 2
				}
				ratio := 0.0
				if expects > 0 {
					ratio = found / expects
				}
				found += min((sums[0]-sums[1])*(sums[0]-sums[1])/2, 6*max(ratio, 1)*squares)
				expects, weights, pairs = expects+squares, weights+squares*squares, pairs+1
				if pairs > 256 {
					pairs, found, expects, weights = pairs/2, found/2, expects/2, weights/4
				}
			}
		}
		if pairs < 16 {
			if scale == 0 {
				return 4
			} else if scale == 1 {
				effect = max(effect, least)
			}
		} else if ratio := found / expects; ratio > 1+3*math.Sqrt(3*weights/(expects*expects)) {
			effect = max(effect, ratio)
		}
	}
	return effect
}

// TestEffectIsItsDefinition compares design effects with blocksOf: of independent residuals, of dependent ones, of some
// with a few large values and changes of the mean, and of some that are 0.
func TestEffectIsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 80))
	for _, carry := range []float64{0, 0.6, 0.95} {
		for _, rare := range []int{2, 400} {
			var d Dependence
			parts, state := [][]float64{nil}, 0.0
			for n := range 12_000 {
				state = carry*state + r.NormFloat64()
				v := state
				if n/500%4 == 3 {
					v += 5
				}
				if r.IntN(rare) == 0 {
					v *= float64(r.IntN(2) * 20)
				}
				if r.IntN(3000) == 0 {
					d.Break()
					parts = append(parts, nil)
				}
				d.Add(v)
				parts[len(parts)-1] = append(parts[len(parts)-1], v)
				if n%97 > 0 && n > 300 {
					continue
				}
				if got, want := d.Effect(), blocksOf(parts, 7, 1); !(math.Abs(got-want) <= 1e-9*want) {
					t.Fatalf("carry %g, rare %d: after %d rows the effect is %g, want %g", carry, rare, n+1, got, want)
				}
				if got, want := d.SafeEffect(), blocksOf(parts, 7, 4); !(math.Abs(got-want) <= 1e-9*want) {
					t.Fatalf("carry %g, rare %d: after %d rows the safe effect is %g, want %g", carry, rare, n+1, got, want)
				}
				if got, want := d.ShortEffect(), blocksOf(parts, 4, 4); !(math.Abs(got-want) <= 1e-9*want) {
					t.Fatalf("carry %g, rare %d: after %d rows the short effect is %g, want %g", carry, rare, n+1, got, want)
				}
			}
		}
	}
}

// valueOf is a row of a plainDetector.
type valueOf struct {
	class int
	value float64 // NaN: none
}

// plainDetector is a DriftDetector that keeps all rows and computes everything from its definition at each check.
type plainDetector struct {
	window  []valueOf
	buckets []int // sizes, oldest first
	parts   [][]float64
	rows    int // since the last check
	earlier int
	largest float64
}

func (p *plainDetector) stop() { p.parts = append(p.parts, nil) }

func (p *plainDetector) add(v valueOf) bool {
	if !math.IsNaN(v.value) {
		n, sum := 0.0, 0.0
		for _, o := range p.window {
			if o.class == v.class && !math.IsNaN(o.value) {
				n, sum = n+1, sum+o.value
			}
		}
		if n > 0 {
			last := &p.parts[len(p.parts)-1]
			*last = append(*last, (v.value-sum/n)*math.Sqrt(n/(n+1)))
		}
	}
	p.window, p.buckets = append(p.window, v), append(p.buckets, 1)
	for size := 1; ; size *= 2 {
		first, n := slices.Index(p.buckets, size), 0
		for _, b := range p.buckets {
			if b == size {
				n++
			}
		}
		if n <= 5 {
			break
		}
		p.buckets = slices.Replace(p.buckets, first, first+2, 2*size)
	}
	if p.rows++; p.rows < 8 {
		return false
	}
	p.rows = 0
	at, ratio := p.split(0, p.earlier > 0)
	if p.earlier > 0 {
		if own, r := p.split(p.earlier, false); r > ratio {
			at, ratio = own, r
		}
	}
	if p.largest = ratio; ratio <= 1 {
		return false
	}
	p.largest = 0
	dropped := 0
	for _, size := range p.buckets[:at] {
		dropped += size
	}
	p.window, p.buckets, p.earlier = p.window[dropped:], p.buckets[at:], max(p.earlier-dropped, 0)
	p.stop()
	return true
}

// split finds the number of buckets before the largest difference, and its ratio to what chance allows.
func (p *plainDetector) split(from int, onlyFalls bool) (at int, most float64) {
	begin, first := 0, 0
	for first < from && begin < len(p.buckets) {
		first += p.buckets[begin]
		begin++
	}
	type sums struct{ n, sum, square float64 }
	of := func(rows []valueOf) (by [32]sums, n float64) {
		for _, v := range rows {
			if s := &by[v.class]; !math.IsNaN(v.value) {
				*s, n = sums{s.n + 1, s.sum + v.value, s.square + v.value*v.value}, n+1
			}
		}
		return by, n
	}
	all, rows := of(p.window[first:])
	within := 0.0
	for _, s := range all {
		if s.n > 0 {
			within += s.square - s.sum*s.sum/s.n
		}
	}
	effect := blocksOf(p.parts, 4, 4)
	logs := math.Log(2 * math.Log(max(rows/effect, 3)) / 0.0005)
	for last, k := first, begin; k < len(p.buckets); k++ {
		last += p.buckets[k]
		before, n0 := of(p.window[first:last])
		after, n1 := of(p.window[last:])
		difference, variance, weight := 0.0, 0.0, 0.0
		for c, s := range all {
			if a, b := before[c], after[c]; a.n > 0 && b.n > 0 {
				w := 1 / (1/a.n + 1/b.n)
				difference += w * (a.sum/a.n - b.sum/b.n)
				variance += w * (s.square - s.sum*s.sum/s.n + 4*within/rows) / (s.n + 4)
				weight += w
			}
		}
		if n0 < 16*effect || n1 < 16*effect || weight < 8*effect || onlyFalls && difference < 0 {
			continue
		}
		bound := math.Sqrt(2*effect*variance/weight*logs/weight) + 2*effect*logs/(3*weight)
		if ratio := math.Abs(difference) / weight / bound; ratio > most {
			at, most = k+1, ratio
		}
	}
	return at, most
}

// TestDetectorIsItsDefinition compares a DriftDetector with a plainDetector: on rows with changes of the mean, of one
// class and of 40, some without a value, and with models that are replaced.
func TestDetectorIsItsDefinition(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 81))
		classes := []int{1, 3, 40, 2}[seed]
		var a DriftDetector
		p := plainDetector{parts: [][]float64{nil}}
		numbers := map[int]int{} // of the classes, in the order in which they came
		changes, copies := 0, r.IntN(2)*3
		mean, v := 0.3, 0.0
		for n := range 1500 {
			switch {
			case n%300 == 299:
				mean = 0.9 - mean
			case n%500 == 350:
				a.Replace()
				p.earlier, mean = len(p.window), mean+0.1
				p.stop()
			}
			class := r.IntN(classes)
			if copies == 0 || n%copies == 0 {
				v = min(max(mean+0.1*r.NormFloat64()+0.2*float64(class%3-1), 0), 1)
			}
			value := v
			if seed == 3 && r.IntN(5) == 0 {
				value = math.NaN()
			} else if _, known := numbers[class]; !known {
				numbers[class] = min(len(numbers), 31)
			}
			got, want := a.Add(fmt.Sprint(class), value), p.add(valueOf{numbers[class], value})
			if got {
				changes++
			}
			if got != want || a.Len() != len(p.window) || a.Earlier != p.earlier ||
				!(math.Abs(a.Largest()-p.largest) <= 1e-9) {
				t.Fatalf("seed %d, row %d: change %v, %d rows, %d of them earlier, largest %g; want %v, %d, %d, %g", seed, n,
					got, a.Len(), a.Earlier, a.Largest(), want, len(p.window), p.earlier, p.largest)
			}
		}
		if changes < 2 {
			t.Errorf("seed %d: only %d changes were found", seed, changes)
		}
	}
}

// TestBetsAreTheirDefinition compares the capital of each bettor of a SequentialTest, and its design effect of runs,
// with sums over all rows.
func TestBetsAreTheirDefinition(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 82))
		test := SequentialTest{Margin: []float64{0, 0.005, -0.01}[seed%3], IsSample: seed > 3}
		var runs [][]float64
		logs, judged := [5]float64{}, 0
		for n := range 400 {
			row := Row{NewRun: n == 0 || r.IntN(6) == 0, Weight: float64(r.IntN(4)) * 2.5, Effect: float64(r.IntN(3)) * 1.5}
			x := float64(r.IntN(5)-2) * 0.75 // beyond 1 as well
			if n/100 == 1 {
				x = float64(n%2) - 0.4
			}
			test.AddRow(x, row)
			weight := row.Weight
			if weight == 0 {
				weight = 1
			}
			x = min(max(x, -1), 1) - test.Margin
			if row.NewRun {
				runs = append(runs, nil)
			}
			last := &runs[len(runs)-1]
			if *last = append(*last, weight*x); len(*last) <= 8 {
				judged++
			}
			rows, sum, lengths := 0.0, 0.0, 0.0
			for _, run := range runs {
				for _, v := range run {
					rows, sum = rows+1, sum+v
				}
				lengths += float64(len(run) * len(run))
			}
			mean, within, between := sum/rows*max(1-8*lengths/(rows*rows), 0), 0.0, 0.0
			for _, run := range runs {
				of := 0.0
				for _, v := range run {
					of += v - mean
					within += (v - mean) * (v - mean)
				}
				between += of * of
			}
			effect := 1.0
			if within > 0 {
				effect = max(1+1.25*max(between/within-1, 0), row.Effect)
			}
			for i, share := range []float64{0.03, 0.06, 0.12, 0.25, 0.5} {
				if x != 0 {
					logs[i] += math.Log(1+min(share*weight, 0.9)/(1+math.Abs(test.Margin))*x) / effect
				}
				if !test.IsSample {
					logs[i] = max(logs[i], -math.Log(8))
				}
				if !(math.Abs(logs[i]-test.Logs[i]) <= 1e-9) {
					t.Fatalf("seed %d, row %d: the bettor of %g has %g, want %g", seed, n, share, test.Logs[i], logs[i])
				}
			}
			if test.Judged != judged || test.Count != n+1 {
				t.Fatalf("seed %d, row %d: %d judged of %d, want %d", seed, n, test.Judged, test.Count, judged)
			}
		}
	}
}
