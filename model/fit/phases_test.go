package fit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/method"
)

// reportsOf are, of the fit of each method: the phases of its progress, with the first and the last share that is done;
// the phases of its report; and what the report has.
var reportsOf = map[string]string{
	"pca": "statistics 0, fit 0-1; prepare statistics fit; direct, 5 of rank 5, 2 eigenvalues, a gap," +
		" a residual",
	"lda": "statistics 0, ridge 1, fit 0-1; prepare statistics ridge fit; direct, 2 of rank 5," +
		" 2 eigenvalues, a gap, a residual",
	"srda": "statistics 0, ridge 1, fit 0-1; prepare statistics ridge fit; direct, 2 of rank 5," +
		" 2 eigenvalues, a gap, a residual",
	"sle": "statistics 0, fit 0-1; prepare statistics fit; direct, 2 of rank 5, 2 eigenvalues, a gap," +
		" a residual",
	"sle-ovr": "statistics 0, fit 0-1, views 0.333-1; prepare statistics fit; direct, 2 of rank 5," +
		" 0 eigenvalues, a gap, a residual",
	"pairacc": "statistics 0, fit 0-1; prepare statistics fit; converged, 2 of rank 5, 0 eigenvalues",
	"mfa": "statistics 0, ridge 1, fit 0-1, neighbours 0; prepare statistics ridge fit; direct," +
		" 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"lfda": "statistics 0, ridge 1, fit 0-1, neighbours 0, affinities 0.333-1;" +
		" prepare statistics ridge fit; direct, 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"dla": "statistics 0, fit 0-1, neighbours 0, beta 1; prepare statistics beta fit; direct," +
		" 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"lsda": "statistics 0, ridge 1, fit 0-1, neighbours 0; prepare statistics ridge fit; direct," +
		" 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"lpp": "statistics 0, fit 0-1, neighbours 0; prepare statistics fit; direct, 5 of rank 5," +
		" 2 eigenvalues, a gap, a residual",
	"npe": "statistics 0, fit 0-1, neighbours 0, weights 0; prepare statistics fit; direct, 5 of rank 5," +
		" 2 eigenvalues, a gap, a residual",
	"lltsa": "statistics 0, fit 0-1, neighbours 0, tangents 0; prepare statistics fit; direct," +
		" 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"le": "statistics 0, fit 0-1, neighbours 0, eigenvectors 0; prepare statistics fit; direct," +
		" 2 of rank 5, 2 eigenvalues, a gap, a residual",
	"lle": "statistics 0, fit 0-1, neighbours 0, weights 0, eigenvectors 0; prepare statistics fit;" +
		" direct, 2 of rank 5, 2 eigenvalues, a gap, a residual",
	"isomap": "statistics 0, fit 0-1, neighbours 0, geodesics 0, eigenvectors 0; prepare statistics fit;" +
		" direct, 2 of rank 5, 2 eigenvalues, a gap, a residual",
	"lsmpa": "statistics 0, ridge 1, fit 0-1, neighbours 0, geodesics 0; prepare statistics ridge fit;" +
		" direct, 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"ksmpa": "statistics 0, ridge 1, fit 0-1, neighbours 0, geodesics 0, kernel 0-0.5;" +
		" prepare statistics ridge fit; direct, 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"lenews": "statistics 0, fit 0-1, similarity 0-0.75, eigenvectors 0; prepare statistics fit; stopped," +
		" 2 of rank 5, 2 eigenvalues, a gap, a residual",
	"lenewks": "statistics 0, fit 0-1, similarity 0-0.75, eigenvectors 0; prepare statistics fit; stopped," +
		" 2 of rank 5, 2 eigenvalues, a gap, a residual",
	"lppnews": "statistics 0, fit 0-1, similarity 0-0.75; prepare statistics fit; stopped, 5 of rank 5," +
		" 2 eigenvalues, a gap, a residual",
	"tnca": "statistics 0, fit 0-1, search 0-0.75; prepare statistics fit; stopped, 2 of rank 5," +
		" 0 eigenvalues",
	"dawge": "statistics 0, ridge 1, fit 0-1, boundaries 0-0.667; prepare statistics ridge fit; direct," +
		" 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"lsdr": "statistics 0, fit 0-1, search 0.5-1; prepare statistics widths fit; stopped, 2 of rank 5," +
		" 0 eigenvalues",
	"mpda": "statistics 0, fit 0-1, neighbours 0, affinities 0.333-1, patches 0-0.667, tangent vectors 0;" +
		" prepare statistics fit; direct, 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"pmpda": "statistics 0, fit 0-1, neighbours 0, affinities 0.333-1, patches 0, tangent vectors 0;" +
		" prepare statistics fit; direct, 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"tsimr": "statistics 0, fit 0-1, neighbours 0, tangent vectors 0, eigenvectors 0;" +
		" prepare statistics fit; direct, 2 of rank 5, 2 eigenvalues, a gap, a residual",
	"mp-tsimr": "statistics 0, fit 0-1, neighbours 0, patches 0, tangent vectors 0, eigenvectors 0;" +
		" prepare statistics fit; direct, 2 of rank 5, 2 eigenvalues, a gap, a residual",
	"ltsimr": "statistics 0, fit 0-1, neighbours 0, tangent vectors 0; prepare statistics fit; direct," +
		" 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"mp-ltsimr": "statistics 0, fit 0-1, neighbours 0, patches 0, tangent vectors 0; prepare statistics fit;" +
		" direct, 5 of rank 5, 2 eigenvalues, a gap, a residual",
	"lpfe": "statistics 0, fit 0-1, neighbours 0, fields 0; prepare statistics fit; direct, 2 of rank 5," +
		" 2 eigenvalues, a gap, a residual",
}

// TestReportOfEachMethod: a fit reports its phases in order, how much of each is done, and how it ended.
func TestReportOfEachMethod(t *testing.T) {
	d := synthetic(41, 45, 5, 3)
	for _, m := range Methods() {
		if m.Name == Auto || m.Name == Blend {
			continue
		}
		c := Config{Method: m.Name, Dim: 2, Workers: 1, Params: map[string]string{}}
		for name, v := range map[string]string{"iters": "4", "starts": "2"} {
			if m.has(name) {
				c.Params[name] = v
			}
		}
		var order []string
		first, last := map[string]float64{}, map[string]float64{}
		c.Progress = func(phase string, done float64) {
			if !slices.Contains(order, phase) {
				order = append(order, phase)
				first[phase] = done
			}
			if done < last[phase] {
				t.Errorf("%s: %s is done by %g after %g", m.Name, phase, done, last[phase])
			}
			last[phase] = done
		}
		r := fit(t, d, c).Report()
		var progress, phases []string
		for _, phase := range order {
			share := fmt.Sprintf("%.3g", first[phase])
			if first[phase] != last[phase] {
				share += fmt.Sprintf("-%.3g", last[phase])
			}
			progress = append(progress, phase+" "+share)
		}
		for _, p := range r.Phases {
			phases = append(phases, p.Name)
		}
		got := fmt.Sprintf("%s; %s; %s, %d of rank %d, %d eigenvalues", strings.Join(progress, ", "),
			strings.Join(phases, " "), r.Convergence, r.Informative, r.Rank, len(r.Eigenvalues))
		if r.Gap != nil {
			got += ", a gap"
		}
		if r.Residual > 0 {
			got += ", a residual"
		}
		if want := reportsOf[m.Name]; got != want {
			t.Errorf("%s: %s\nwant %s", m.Name, got, want)
		}
	}
}

// TestResidualsHaveNoUnit: the residual of a fit is as small for the same rows in another unit.
func TestResidualsHaveNoUnit(t *testing.T) {
	for _, m := range method.Table {
		for _, unit := range []float64{0x1p-40, 0x1p40} {
			d := synthetic(20, 40, 4, 3)
			for i := range d.X {
				d.X[i] *= unit
			}
			r := fit(t, d, Config{Method: m.Name, Scale: model.ScaleNone, Params: quick(m)}).Report()
			if !(r.Residual <= 1e-10) {
				t.Errorf("%s: a residual of %.2g in units of %.2g", m.Name, r.Residual, unit)
			}
		}
	}
}
