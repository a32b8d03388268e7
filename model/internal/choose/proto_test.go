package choose

import (
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/internal/preprocess"
	"github.com/embedd/embedd/model/score"
)

func read(name string) *model.Data {
	f, err := os.Open("/work/shared/data/" + name + ".csv.gz")
	if err != nil {
		panic(err)
	}
	z, _ := gzip.NewReader(f)
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		panic(err)
	}
	lab := slices.Index(rows[0], "label")
	d := &model.Data{}
	var labels []string
	for _, row := range rows[1:] {
		ok := true
		var x []float64
		for j, v := range row {
			if j == lab {
				continue
			}
			q, err := strconv.ParseFloat(v, 64)
			ok = ok && err == nil
			x = append(x, q)
		}
		if ok {
			d.X = append(d.X, x...)
			labels = append(labels, row[lab])
			d.M = len(x)
			d.N++
		}
	}
	d.Classes = slices.Compact(slices.Sorted(slices.Values(labels)))
	for _, l := range labels {
		d.Y = append(d.Y, slices.Index(d.Classes, l))
	}
	return d
}

type rec struct {
	Set, Way      string
	Split         int
	Name          string
	Dim, K        int
	NN, Lin       string
	TNN, TLin     float64
	Today         bool
	Sec           float64
	Rounds, NRows int
}

func digits(x []int) string {
	var b strings.Builder
	for _, v := range x {
		fmt.Fprint(&b, v)
	}
	return b.String()
}

func sum(x []int) (s int) {
	for _, v := range x {
		s += v
	}
	return
}

// head applies a method to outputs.
func head(ctx context.Context, name string, y *frame.OutputPair, d int, rows *frame.Rows, train, test []int) (out *frame.OutputPair, err error) {
	defer fail.Catch(&err)
	m, err := method.Find(name)
	fail.Check(err)
	x := append(slices.Clone(y.Train), y.Test...)
	p := &frame.Rows{N: len(train) + len(test), M: y.D, X: x, Classes: rows.Classes}
	var a, b []int
	for i, r := range append(slices.Clone(train), test...) {
		p.Y = append(p.Y, rows.Y[r])
		p.Index = append(p.Index, i)
		if i < len(train) {
			a = append(a, i)
		} else {
			b = append(b, i)
		}
	}
	p.Data = &model.Data{X: x, N: p.N, M: p.M, Y: p.Y, Classes: p.Classes}
	params := map[string]string{}
	for _, q := range m.Params {
		params[q.Name] = q.Default
	}
	t := &frame.Task{Method: m, Params: paramsInFolds(m, params), Scaling: model.ScaleNone, Report: &model.Report{}}
	fail.Check(t.Load(ctx, p.Subset(a)))
	bound, _ := m.MaxDim(t)
	if d > bound {
		return nil, nil
	}
	t.D, t.DefaultDim = d, true
	frame.SettleRidge(ctx, t)
	sol := fail.Must(t.Solve(ctx))
	return t.OutputPair(ctx, sol, p, a, b)
}

func TestProto(t *testing.T) {
	if os.Getenv("PROTO") == "" {
		t.Skip()
	}
	ctx := t.Context()
	splits, _ := strconv.Atoi(os.Getenv("SPLITS"))
	most := 800
	out, _ := os.OpenFile(os.Getenv("OUT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	enc := json.NewEncoder(out)
	for _, name := range strings.Split(os.Getenv("PROTO"), ",") {
		d := read(name)
		if d.N > most {
			in, _ := score.Stratified(d.Y, float64(most)/float64(d.N), 7)
			d = d.Subset(in)
		}
		whole, err := frame.Prepare(ctx, d, true, false, &model.Report{})
		if err != nil {
			t.Fatal(err)
		}
		draw := rand.New(rand.NewPCG(1, 0))
		for k := range splits {
			in, held := score.Stratified(d.Y, 0.5, draw.Uint64())
			for _, way := range strings.Split(os.Getenv("WAYS"), ",") {
				start := time.Now()
				if err := protoOne(ctx, enc, rec{Set: name, Way: way, Split: k}, whole, in, held); err != nil {
					t.Error(name, k, way, err)
				}
				t.Log(name, k, way, time.Since(start).Seconds())
			}
		}
	}
}

func protoOne(ctx context.Context, enc *json.Encoder, r rec, whole *frame.Rows, in, held []int) (err error) {
	defer fail.Catch(&err)
	p := whole.Subset(in)
	s, err := newSelection(ctx, p, Config{Nonlinear: r.Way == "non", Scale: model.ScaleAuto})
	fail.Check(err)
	s.v.blends = true
	ranked := fail.Must(s.rank(ctx))
	today := s.result(ranked, time.Now())
	n := p.N
	r.NRows, r.Rounds = n, s.v.rounds()
	todayName, todayDim := "all/pca", 0
	if today.Blend != nil {
		todayDim = today.Blend.Dim
	} else {
		todayName, todayDim = "single0", ranked[0].Dim
	}
	// outputs on the held rows of all candidates needed
	tv := &validator{rows: whole, isAuto: true, blends: true, inner: s.v.inner}
	prepared := map[preprocess.Spec]*preprocess.Fitted{}
	twin := map[*candidate]*candidate{}
	final := func(e *candidate) *candidate {
		if twin[e] != nil {
			return twin[e]
		}
		f := prepared[e.spec]
		if f == nil {
			f = fail.Must(tv.prepare(ctx, e, whole, in))
			prepared[e.spec] = f
		}
		c := &candidate{method: e.method, spec: e.spec, params: e.params, changed: e.changed, dims: e.dims}
		c.reset(true)
		fail.Check(tv.score(ctx, c, f, 0, in, held))
		twin[e] = c
		return c
	}
	put := func(name string, k, dim int, cv *candidate, te *candidate) {
		r.Name, r.K, r.Dim = name, k, dim
		if cv.correct[dim] == nil || te.correct[dim] == nil {
			return
		}
		r.NN, r.Lin = digits(cv.correct[dim]), digits(cv.linear[dim])
		r.TNN, r.TLin = 100*float64(sum(te.correct[dim]))/float64(len(held)), 100*float64(sum(te.linear[dim]))/float64(len(held))
		r.Today = name == todayName && dim == todayDim
		fail.Check(enc.Encode(r))
	}
	// singles
	var singles []*candidate
	for _, x := range ranked {
		e := s.candidateOf(x)
		if !slices.Contains(singles, e) {
			singles = append(singles, e)
		}
	}
	// best at 2 too
	keep := singles[:min(5, len(singles))]
	for _, e := range singles {
		if !e.isBlendable() && !slices.Contains(keep, e) {
			keep = append(keep, e)
			break
		}
	}
	at2 := slices.Clone(singles)
	at2 = slices.DeleteFunc(at2, func(e *candidate) bool { return e.score[2] == nil || e.correct[2] == nil })
	slices.SortStableFunc(at2, func(x, y *candidate) int { return y.score[2].Correct - x.score[2].Correct })
	for _, e := range at2[:min(5, len(at2))] {
		if !slices.Contains(keep, e) {
			keep = append(keep, e)
		}
	}
	for i, e := range keep {
		f := final(e)
		f.linear = map[int][]int{}
		for _, dim := range e.dims {
			if e.correct[dim] == nil {
				continue
			}
			if e.linear[dim] == nil && e.isBlendable() {
				for round := range s.v.rounds() {
					pick, fold := frame.Folds(p, n, folds, round)
					for g := range folds {
						tr, te := frame.HeldOut(pick, fold, g)
						y := e.outputs[folds*round+g][dim]
						if e.method.Nested {
							y = e.outputs[folds*round+g][e.dims[len(e.dims)-1]]
						}
						if y != nil {
							lin(s.v, e, y, dim, tr, te)
						}
					}
				}
			}
			y := f.outputs[0][dim]
			if f.method.Nested && f.outputs[0] != nil {
				y = f.outputs[0][e.dims[len(e.dims)-1]]
			}
			if y != nil {
				lin(tv, f, y, dim, in, held)
			}
			put(fmt.Sprintf("single%d", i)+"", 1, dim, e, f)
		}
	}
	members := s.bestBlendable(len(s.candidates))
	top := members[0].correctRows(members[0].best().Dim, n)
	members = slices.DeleteFunc(members, func(e *candidate) bool {
		behind, deviation := paired(top, e.correctRows(e.best().Dim, n))
		return behind > minLoss*deviation
	})
	for _, e := range members {
		final(e)
	}
	width := 40
	for _, k := range []int{3, 5, 8, 1000} {
		ms := members[:min(k, len(members))]
		if k < 1000 && len(members) <= k || len(ms) < 2 {
			continue
		}
		label := fmt.Sprint(k)
		if k == 1000 {
			label = "all"
		}
		heads := []string{"pca", "lda", "pairacc"}
		if k == 5 || k == 1000 {
			heads = append(heads, "tnca")
		}
		for _, h := range heads {
			cv := &candidate{method: &blend.Method, dims: s.dims}
			te := &candidate{method: &blend.Method, dims: s.dims}
			cv.reset(true)
			te.reset(true)
			start := time.Now()
			do := func(v *validator, into *candidate, outs []blend.Member, tr, ts []int) {
				w := width
				if h == "pca" {
					w = s.dims[len(s.dims)-1]
				}
				y := fail.Must(blend.Outputs(ctx, outs, w))
				if y == nil {
					return
				}
				for _, dim := range s.dims {
					z := y
					if h != "pca" {
						if h == "pairacc" && dim >= len(whole.Classes)-1 || h == "tnca" && dim > 5 || h == "lda" && dim > len(whole.Classes)-1 {
							continue
						}
						var err error
						z, err = head(ctx, h, y, dim, v.rows, tr, ts)
						if err != nil {
							fmt.Fprintln(os.Stderr, r.Set, h, dim, err)
							continue
						}
						if z == nil {
							continue
						}
					}
					v.count(ctx, into, z, dim, tr, ts)
				}
			}
			for round := range s.v.rounds() {
				pick, fold := frame.Folds(p, n, folds, round)
				for f := range folds {
					tr, ts := frame.HeldOut(pick, fold, f)
					do(s.v, cv, outputs(ms, folds*round+f), tr, ts)
				}
			}
			var tw []*candidate
			for _, e := range ms {
				c := *twin[e]
				c.score = e.score
				tw = append(tw, &c)
			}
			do(tv, te, outputs(tw, 0), in, held)
			r.Sec = time.Since(start).Seconds()
			for _, dim := range s.dims {
				put(label+"/"+h, len(ms), dim, cv, te)
			}
		}
	}
	return nil
}

func lin(v *validator, e *candidate, y *frame.OutputPair, d int, train, test []int) {
	ref, query, dim := leadingColumns(y.Train, y.D, d), leadingColumns(y.Test, y.D, d), min(d, y.D)
	known := make([]int, len(train))
	for i, at := range train {
		known[i] = v.rows.Y[at]
	}
	class := fail.Must(score.Linear(ref, known, query, dim, len(v.rows.Classes)))
	correct := make([]int, v.rows.N)
	for i, c := range class {
		if c == v.rows.Y[test[i]] {
			correct[test[i]]++
		}
	}
	e.linear[d] = addCounts(e.linear[d], correct)
}
