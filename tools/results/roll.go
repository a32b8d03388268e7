package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/plot"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

// roll returns n rows of the Swiss roll, and their coordinates on the sheet: along it, and across.
func roll(n int, seed uint64) (d *model.Data, place []float64) {
	r := rand.New(rand.NewPCG(seed, 0))
	d = &model.Data{N: n, M: 3}
	for range n {
		a, h := 1.5*math.Pi*(1+2*r.Float64()), 21*r.Float64()
		d.X = append(d.X, a*math.Cos(a), h, a*math.Sin(a))
		// the length of the spiral up to the angle a
		place = append(place, (a*math.Sqrt(1+a*a)+math.Asinh(a))/2, h)
	}
	return d, place
}

// bands divides rows into count classes by the first of width numbers.
func bands(place []float64, width, count int) []int {
	low, high := math.Inf(1), math.Inf(-1)
	for i := 0; i < len(place); i += width {
		low, high = min(low, place[i]), max(high, place[i])
	}
	class := make([]int, len(place)/width)
	for i := range class {
		class[i] = min(count-1, int(float64(count)*(place[i*width]-low)/(high-low)))
	}
	return class
}

// explained returns R^2 of the best linear map from the outputs, n x d, to the coordinates, n x 2: 1 if the map is the
// sheet, up to scale, rotation and shear.
func explained(y []float64, d int, place []float64) (float64, error) {
	n := len(place) / 2
	x := mat.NewDense(n, d+1, nil)
	for i := range n {
		copy(x.RawRowView(i), y[i*d:(i+1)*d])
		x.Set(i, d, 1)
	}
	target := mat.NewDense(n, 2, place)
	var b, fit mat.Dense
	if err := b.Solve(x, target); err != nil {
		return 0, err
	}
	fit.Mul(x, &b)
	share := 0.0
	for j := range 2 {
		mean, spread, left := 0.0, 0.0, 0.0
		for i := range n {
			mean += target.At(i, j) / float64(n)
		}
		for i := range n {
			spread += (target.At(i, j) - mean) * (target.At(i, j) - mean)
			left += (target.At(i, j) - fit.At(i, j)) * (target.At(i, j) - fit.At(i, j))
		}
		share += (1 - left/spread) / 2
	}
	return share, nil
}

// swissRoll unrolls the roll by several methods, and compares tsimr with mp-tsimr.
func swissRoll(ctx context.Context, b *bench, out *bytes.Buffer) error {
	const n, fits = 2000, 3
	d, place := roll(n, 1)
	class := bands(place, 2, 12)
	first, err := dots("the roll, from its side", side(d), 2, class, 12)
	if err != nil {
		return err
	}
	panels := []*plot.Plot{first}
	fmt.Fprint(out, `| method | R^2 | seconds | tangent spaces |
|---|---|---|---|
`)
	took, tangents := map[string]float64{}, map[string]string{"tsimr": fmt.Sprint(n), "ltsimr": fmt.Sprint(n)}
	heat := map[string]string{"t": "auto"}
	params := map[string]map[string]string{"tsimr": heat, "mp-tsimr": heat}
	for _, name := range []string{"tsimr", "mp-tsimr", "ltsimr", "mp-ltsimr", "isomap", "lle", "le"} {
		var m *model.Model
		took[name] = math.Inf(1)
		for range fits {
			if m, err = fit.Fit(ctx, d, fit.Config{Method: name, Dim: 2, Scale: model.ScaleNone,
				Params: params[name]}); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			took[name] = min(took[name], seconds(m))
		}
		for _, note := range m.Report().Notes {
			if count, _, ok := strings.Cut(note, " patches"); ok {
				tangents[name] = count
			}
		}
		y, err := score.Outputs(ctx, m, d)
		if err != nil {
			return err
		}
		share, err := explained(y, 2, place)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| %s | %.3f | %.2f | %s |\n", name, share, took[name], tangents[name])
		b.say("%s: R2 %.4f, %.2f s, %v", name, share, took[name], m.Report().Notes)
		p, err := dots(name, y, 2, class, 12)
		if err != nil {
			return err
		}
		panels = append(panels, p)
	}
	fmt.Fprintf(out, `
| | paper | here |
|---|---|---|
| patches of mp-tsimr | 65 | %s |
| time of tsimr to that of mp-tsimr | about 3 | %.2f |
| time of ltsimr to that of mp-ltsimr | - | %.2f |
`, tangents["mp-tsimr"], took["tsimr"]/took["mp-tsimr"], took["ltsimr"]/took["mp-ltsimr"])
	return b.save("roll.png", 4, panels...)
}

// side returns the view along the axis of the roll.
func side(d *model.Data) []float64 {
	var v []float64
	for i := range d.N {
		v = append(v, d.X[3*i], d.X[3*i+2])
	}
	return v
}

// seconds is the time of a fit.
func seconds(m *model.Model) float64 {
	total := 0.0
	for _, p := range m.Report().Phases {
		total += p.Seconds
	}
	return total
}

// halves is the Swiss roll in two classes, z < -5 and the rest, in two dimensions of sle.
func halves(ctx context.Context, b *bench, out *bytes.Buffer) error {
	const n = 1000
	d, _ := roll(n, 2)
	d.Classes = []string{"z < -5", "the rest"}
	for i := range n {
		if d.Y = append(d.Y, 1); d.X[3*i+2] < -5 {
			d.Y[i] = 0
		}
	}
	fmt.Fprint(out, `| method | nearest neighbour, leave-one-out % | one line % |
|---|---|---|
`)
	var panels []*plot.Plot
	for _, name := range []string{"sle", "pca"} {
		m, err := fit.Fit(ctx, d, fit.Config{Method: name, Dim: 2, Scale: model.ScaleNone})
		if err != nil {
			return err
		}
		y, err := score.Outputs(ctx, m, d)
		if err != nil {
			return err
		}
		wrong := wrongLeftOut(y, d.Y, 2)
		fmt.Fprintf(out, "| %s | %.1f | %.1f |\n", name, 100-100*float64(wrong[1])/n, 100*threshold(y, 2, d.Y))
		p, err := dots(name, y, 2, d.Y, 2)
		if err != nil {
			return err
		}
		panels = append(panels, p)
	}
	return b.save("halves.png", 2, panels...)
}

// threshold returns the largest share of rows that a threshold on the first column classifies correctly.
func threshold(y []float64, d int, class []int) float64 {
	order := make([]int, len(class))
	zeros := 0
	for i, c := range class {
		order[i] = i
		zeros += 1 - c
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(y[i*d], y[j*d]) })
	// right counts class 0 below the threshold and class 1 above it.
	right := len(class) - zeros
	best := max(right, len(class)-right)
	for _, i := range order {
		right += 1 - 2*class[i]
		best = max(best, right, len(class)-right)
	}
	return float64(best) / float64(len(class))
}
