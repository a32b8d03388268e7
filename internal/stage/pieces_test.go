//go:build unix

package stage

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// BenchmarkPieces measures how long training works between two checks of its context, at which it pauses while answers
// wait, in processor time of the process. For every pair of places in the code with a piece of more than a millisecond
// between them it reports how many there were, and how long.
//
//	go test ./internal/stage -run '^$' -bench Pieces -benchtime 1x -cpu 1
func BenchmarkPieces(b *testing.B) {
	for _, method := range []string{"lda", "pca", "lfda"} {
		b.Run(method+"/256", func(b *testing.B) {
			for b.Loop() {
				p := &pieces{b: b, long: map[string][]time.Duration{}}
				rows := 30_000
				if method == "lfda" {
					rows = 9_000
				}
				p.learn(method, rows, 256)
				p.report()
			}
		})
	}
}

// pieces measures the time between two calls of Busy.
type pieces struct {
	b     *testing.B
	last  time.Duration
	since []uintptr
	long  map[string][]time.Duration
	all   int
}

// busy is called at every check.
func (p *pieces) busy() bool {
	now := processor(p.b)
	pc := make([]uintptr, 12)
	pc = pc[:runtime.Callers(4, pc)]
	if took := now - p.last; took > time.Millisecond && p.since != nil {
		at := place(p.since) + " to " + place(pc)
		p.long[at] = append(p.long[at], took)
	}
	p.all++
	p.last, p.since = processor(p.b), pc
	return false
}

// processor is the time that all cores have worked for this process.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// place returns the innermost functions of a stack, without those that only pass a context on.
func place(pc []uintptr) string {
	frames := runtime.CallersFrames(pc)
	var names []string
	for {
		f, more := frames.Next()
		name := f.Function[strings.LastIndex(f.Function, "/")+1:]
		if !strings.Contains(name, "pace)") && !strings.HasPrefix(name, "context.") && !strings.HasPrefix(name, "parallel.") {
			names = append(names, fmt.Sprintf("%s:%d", name, f.Line))
		}
		if !more || len(names) == 3 {
			return strings.Join(names, " < ")
		}
	}
}

// learn has a stage learn rows whose concept changes three times, with a window of 20,000.
func (p *pieces) learn(method string, n, m int) {
	r := rand.New(rand.NewPCG(1, 2))
	s, err := New(spec.Config{Spec: arrowio.Spec{Features: []string{"x"}, Label: "label"},
		Fit:      fit.Config{Method: method, Dim: 8},
		Training: spec.Training{Window: spec.Window{Rows: 20_000}}, Busy: p.busy})
	if err != nil {
		p.b.Fatal(err)
	}
	defer s.Close()
	const part = 250
	for from := 0; from < n; from += part {
		rows := make([]row, part)
		for i := range rows {
			c := r.IntN(10)
			x := make([]float32, m)
			for j := range x {
				x[j] = float32(r.NormFloat64())
			}
			x[(c+10*(4*from/n))%m] += 4
			rows[i] = row{x, fmt.Sprintf("c%d", c)}
		}
		message := decode(p.b, s, rows)
		runtime.GC()
		p.since = nil
		if err := s.Learn(message, spec.Position{Seq: uint64(from/part + 1), Time: time.Unix(int64(from), 0)}); err != nil {
			p.b.Fatal(err)
		}
		waitIdle(p.b, s)
	}
	p.b.Logf("model %s, %d looks", s.Live().Version, p.all)
}

// report logs the pairs of places, in one piece: a benchmark shows ten lines at most.
func (p *pieces) report() {
	at := slices.SortedFunc(maps.Keys(p.long), func(x, y string) int {
		return -cmp.Compare(len(p.long[x]), len(p.long[y]))
	})
	var lines strings.Builder
	for _, place := range at {
		took := p.long[place]
		slices.Sort(took)
		fmt.Fprintf(&lines, "\n%4d  median %5.2f ms, most %5.2f ms  %s", len(took), took[len(took)/2].Seconds()*1e3,
			took[len(took)-1].Seconds()*1e3, place)
	}
	p.b.Log(lines.String())
}
