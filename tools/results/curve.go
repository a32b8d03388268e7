package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

// curveRows is the number of points on a curve.
const curveRows = 100

// cShape and sShape are points in the plane, in their order along a curve.
func cShape() *model.Data {
	return along(func(u float64) (x, y float64) {
		a := math.Pi * (0.25 + 1.5*u)
		return math.Cos(a), math.Sin(a)
	})
}

func sShape() *model.Data {
	return along(func(u float64) (x, y float64) {
		a := 1.5 * math.Pi * (2*u - 1)
		return math.Sin(a), math.Copysign(math.Cos(a)-1, -a) / 2 // an S, not its mirror image
	})
}

func along(at func(u float64) (x, y float64)) *model.Data {
	d := &model.Data{N: curveRows, M: 2}
	for i := range d.N {
		x, y := at(float64(i) / (curveRows - 1))
		d.X = append(d.X, x, y)
	}
	return d
}

// swaps returns the number of swaps of adjacent rows that sort them by their outputs: the pairs in the wrong order, for
// the better direction of the axis.
func swaps(outputs []float64) int {
	up, down := 0, 0
	for i := range outputs {
		for j := range i {
			switch {
			case outputs[j] > outputs[i]:
				up++
			case outputs[j] < outputs[i]:
				down++
			default: // rows with equal outputs have lost their order
				up++
				down++
			}
		}
	}
	return min(up, down)
}

// curve measures how well the order along a curve is preserved in one dimension.
func curve(ctx context.Context, b *bench, out *bytes.Buffer) error {
	sigmas := []string{"0.005", "0.01", "0.015", "0.02", "0.025", "0.03", "0.05", "0.1", "0.2"}
	alphas := []string{"0", "1", "1.25", "1.5", "1.75", "2", "4"}
	fmt.Fprint(out, "| curve | alpha |")
	rule := "|---|---|"
	for _, sigma := range sigmas {
		fmt.Fprintf(out, " sigma %s |", sigma)
		rule += "---|"
	}
	fmt.Fprintf(out, "\n%s\n", rule)
	for _, shape := range shapes {
		for _, alpha := range alphas {
			fmt.Fprintf(out, "| %s | %s |", shape.name, alpha)
			for _, sigma := range sigmas {
				n, err := lineSwaps(ctx, shape.rows(), "lenews", map[string]string{"alpha": alpha, "beta": "1", "sigma": sigma})
				if err != nil {
					return err
				}
				fmt.Fprintf(out, " %d |", n)
			}
			fmt.Fprintln(out)
		}
	}
	fmt.Fprint(out, "\n| curve | t | k = 5 | 10 | 20 | 40 |\n|---|---|---|---|---|---|\n")
	for _, shape := range shapes {
		for _, t := range []string{"inf", "auto"} {
			fmt.Fprintf(out, "| %s | %s |", shape.name, t)
			for _, k := range []int{5, 10, 20, 40} {
				n, err := lineSwaps(ctx, shape.rows(), "le", map[string]string{"k": strconv.Itoa(k), "t": t})
				if err != nil {
					return err
				}
				fmt.Fprintf(out, " %d |", n)
			}
			fmt.Fprintln(out)
		}
	}
	return drawCurves(ctx, b)
}

var shapes = []struct {
	name string
	rows func() *model.Data
}{{"C", cShape}, {"S", sShape}}

// onLine returns the outputs of a method at d = 1.
func onLine(ctx context.Context, d *model.Data, method string, params map[string]string) ([]float64, error) {
	m, err := fit.Fit(ctx, d, fit.Config{Method: method, Dim: 1, Scale: model.ScaleMinMax, Params: params})
	if err != nil {
		return nil, err
	}
	return score.Outputs(ctx, m, d)
}

func lineSwaps(ctx context.Context, d *model.Data, method string, params map[string]string) (int, error) {
	y, err := onLine(ctx, d, method, params)
	return swaps(y), err
}

// drawCurves draws each curve, and next to it the outputs of methods over the true order. The colour of a point is its
// position in that order.
func drawCurves(ctx context.Context, b *bench) error {
	order := make([]int, curveRows)
	for i := range order {
		order[i] = i
	}
	var panels []*plot.Plot
	for _, shape := range shapes {
		d := shape.rows()
		p, err := dots("the points", d.X, 2, order, curveRows)
		if err != nil {
			return err
		}
		panels = append(panels, p)
		for _, of := range []struct {
			method, title string
			params        map[string]string
		}{
			{"lenews", "lenews", nil},
			{"le", "le", nil},
			{"le", "le, t = auto", map[string]string{"t": "auto"}},
		} {
			y, err := onLine(ctx, d, of.method, of.params)
			if err != nil {
				return err
			}
			var over []float64
			for i, v := range y {
				over = append(over, float64(i), v)
			}
			if p, err = dots(fmt.Sprintf("%s: %d swaps", of.title, swaps(y)), over, 2, order, curveRows); err != nil {
				return err
			}
			panels = append(panels, p)
		}
	}
	return b.save("curve.png", 4, panels...)
}
