package choose

import (
	"testing"

	"github.com/embedd/embedd/model/internal/blend"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
)

// With few given outputs the single candidate with the most correct rows, by neighbours and a linear classifier
// together, takes the place of the blend if it has more than the blend and is not behind by neighbours, however many
// candidates have more neighbours right. With more outputs only a kernel method does, and a number of members leaves
// no choice.
func TestBlendAgainstSingles(t *testing.T) {
	const n = 100
	rows := func(from, to int) []int {
		out := make([]int, n)
		for i := from; i < to; i++ {
			out[i] = 1
		}
		return out
	}
	type right struct {
		method        string
		nearest, line [2]int // rows that are right, from and to
	}
	ofBlend := right{"", [2]int{0, 60}, [2]int{0, 60}}
	for _, c := range []struct {
		what       string
		dim, blend int
		single     []right
		want       string // "": the blend
	}{
		{"equal", 2, 0, []right{{"mfa", ofBlend.nearest, ofBlend.line}}, ""},
		{"one row ahead, one standard error", 2, 0, []right{{"mfa", [2]int{0, 61}, ofBlend.line}}, "mfa"},
		{"ahead by less than the noise", 2, 0, []right{{"mfa", [2]int{19, 80}, ofBlend.line}}, "mfa"}, // 20 against 19 rows
		{"many outputs of a kernel, ahead by less than the noise", 4, 0,
			[]right{{"ksmpa", [2]int{19, 80}, ofBlend.line}}, ""},
		{"a row behind", 2, 0, []right{{"mfa", [2]int{0, 59}, ofBlend.line}}, ""},
		{"the sixth by neighbours", 2, 0, []right{{"lda", [2]int{0, 66}, ofBlend.line}, {"lfda", [2]int{0, 65}, ofBlend.line},
			{"dla", [2]int{0, 64}, ofBlend.line}, {"lsda", [2]int{0, 63}, ofBlend.line},
			{"pca", [2]int{0, 62}, ofBlend.line}, {"mfa", [2]int{0, 61}, [2]int{0, 75}}}, "mfa"},
		{"ahead by lines, behind by neighbours", 2, 0, []right{{"mfa", [2]int{0, 55}, [2]int{0, 80}}}, ""},
		{"many outputs", 4, 0, []right{{"mfa", [2]int{0, 80}, [2]int{0, 80}}}, ""},
		{"many outputs of a kernel", 4, 0, []right{{"ksmpa", [2]int{0, 80}, [2]int{0, 80}}}, "ksmpa"},
		{"the best of two", 3, 0,
			[]right{{"mfa", [2]int{0, 70}, [2]int{0, 62}}, {"lda", [2]int{0, 65}, [2]int{0, 75}}}, "lda"},
		{"a given number of members", 2, 5, []right{{"mfa", [2]int{0, 80}, [2]int{0, 80}}}, ""},
	} {
		s := &selection{v: &validator{rows: &frame.Rows{N: n}}, total: &frame.Task{Columns: 20}, dims: []int{c.dim},
			c: Config{Dim: c.dim, Blend: c.blend}}
		s.blend = &candidate{method: &blend.Method, dims: s.dims}
		s.blend.reset(true)
		s.blend.nearestCounts[c.dim] = rows(ofBlend.nearest[0], ofBlend.nearest[1])
		s.blend.linearCounts[c.dim] = rows(ofBlend.line[0], ofBlend.line[1])
		for _, r := range c.single {
			m, err := method.Find(r.method)
			if err != nil {
				t.Fatal(err)
			}
			e := &candidate{method: m, dims: s.dims}
			e.reset(true)
			e.nearestCounts[c.dim], e.linearCounts[c.dim] = rows(r.nearest[0], r.nearest[1]), rows(r.line[0], r.line[1])
			e.score[c.dim].Correct, e.score[c.dim].Scored = float64(r.nearest[1]-r.nearest[0]), n
			s.candidates = append(s.candidates, e)
		}
		ranked := s.scores()
		won := ""
		if i := s.bestRival(t.Context(), ranked); i >= 0 {
			won = ranked[i].Method
		}
		if won != c.want {
			t.Errorf("%s: %q, want %q", c.what, won, c.want)
		}
	}
}
