package window

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/moments"
)

// summed is a configuration of a window of summaries.
var summed = Config{Features: 6, Rows: 1 << 20, Classes: 20, Holdout: 0.2, Balance: true, Labelled: true, Moments: true,
	Summaries: true}

// messages returns a stream of rows in blocks of size messages: classes of unequal share, a rare one, and sometimes
// random labels.
func messages(seed uint64, blocks, each int) (all [][]Row) {
	r := rand.New(rand.NewPCG(seed, 9))
	for b := range blocks {
		var rows []Row
		for i := range each {
			for k := range 4 + r.IntN(12) {
				class, label := r.IntN(4), ""
				if class = max(class-r.IntN(3), 0); r.IntN(100) == 0 {
					class = 4
				}
				if label = fmt.Sprint("class ", class); r.IntN(300) == 0 {
					label = fmt.Sprint("typing error ", r.IntN(50))
				}
				x := make([]float64, 6)
				for j := range x {
					noise := float64((r.Float64() + r.Float64() - 1) * float64(1+j))
					x[j] = float64(float32(noise + float64(3*class*(j%3)) + float64(1000*j)))
				}
				rows = append(rows, Row{Position: Position{Created: 77, Seq: uint64(b*each + i + 1), Row: k},
					Time: int64(b*each+i) * 1e9, Label: label, X: x})
			}
		}
		all = append(all, rows)
	}
	return all
}

func yield(rows []Row) iter.Seq[*Row] {
	x := make([]float64, len(rows[0].X))
	return func(yield func(*Row) bool) {
		for i := range rows {
			r := rows[i]
			copy(x, r.X) // no row outlives the next
			r.X = x
			if !yield(&r) {
				return
			}
		}
	}
}

// bytesOf returns the bytes that a worker stores.
func bytesOf(t *testing.T, ctx context.Context, c Config, rows []Row) []byte {
	t.Helper()
	s, err := Summarize(ctx, c, yield(rows))
	if err != nil {
		t.Fatal(err)
	}
	s.Range = Range{rows[0].Created, rows[0].Seq, rows[len(rows)-1].Seq}
	s.Settings = "settings"
	for j := range c.Features {
		s.Features = append(s.Features, fmt.Sprint("x", j))
	}
	b, err := s.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// together is a window of summaries.
func together(t *testing.T, c Config, stored [][]byte) *Window {
	t.Helper()
	w := New(c)
	for i, b := range stored {
		s, err := ReadSummary(b)
		if err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		if got := w.AddSummary(s); got != Added {
			t.Fatalf("block %d: outcome %d", i, got)
		}
	}
	return w
}

// digests are those of models of all that is in a window.
func digests(t *testing.T, w *Window) (out []string) {
	t.Helper()
	s, err := w.Newest(t.Context(), w.Len())
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, w.Features())
	for j := range names {
		names[j] = fmt.Sprint("x", j)
	}
	for _, method := range []string{"pca", "lda", "srda", "sle", "pairacc"} {
		m, err := fit.FitMoments(t.Context(), s.Moments, names, s.Classes, fit.Config{Method: method, Dim: 2,
			Scale: model.ScaleStandard})
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		out = append(out, m.Digest())
	}
	return out
}

// TestManyHands: summaries by many workers, in any order, some computed twice, some begun by a worker that crashes and
// computed by another, have the bytes of one worker, and give the same models.
func TestManyHands(t *testing.T) {
	times := testsize.Of(3, 10)
	if testsize.Soak() {
		times = 100
	}
	rows := messages(1, 12, 20)
	want := make([][]byte, len(rows))
	for i := range rows {
		want[i] = bytesOf(t, t.Context(), summed, rows[i])
	}
	models := digests(t, together(t, summed, want))
	r := rand.New(rand.NewPCG(3, 3))
	made, dead, twice := 0, 0, 0
	for range times {
		for _, hands := range []int{2, 3, 5, 8, 16} {
			stored := make([][]byte, len(rows))
			contexts := make([]context.Context, hands)
			for h := range contexts {
				contexts[h] = model.Limit(t.Context(), 1+h%3) // cores
			}
			for todo := r.Perm(len(rows)); len(todo) > 0; {
				i := todo[0]
				todo = todo[1:]
				b := bytesOf(t, contexts[r.IntN(hands)], summed, rows[i])
				made++
				switch {
				case r.IntN(10) == 0:
					dead++
					todo = append(todo, i) // not stored: another worker computes it
					continue
				case stored[i] == nil && r.IntN(10) == 0:
					twice++
					todo = append(todo, i)
				}
				if stored[i] == nil { // by create
					stored[i] = b
				}
				if !bytes.Equal(b, want[i]) {
					t.Fatalf("block %d: other bytes", i)
				}
			}
			if !slices.Equal(digests(t, together(t, summed, stored)), models) {
				t.Fatalf("%d hands: other models", hands)
			}
		}
	}
	t.Logf("%d summaries made, %d died, %d done twice", made, dead, twice)
	if dead == 0 || twice == 0 {
		t.Error("no process died, or nothing was done twice")
	}
}

// TestSummaryEverywhere: the bytes are the same on every kind of processor.
func TestSummaryEverywhere(t *testing.T) {
	all := sha256.New()
	stored := [][]byte{}
	for _, rows := range messages(7, 4, 60) {
		b := bytesOf(t, t.Context(), summed, rows)
		all.Write(b)
		stored = append(stored, b)
	}
	w := together(t, summed, stored)
	s, err := w.Newest(t.Context(), w.Len())
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Moments.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	all.Write(b)
	const want = "9fe44e748d0bcb9039b6de841f59e50962aafe24ef11636548d85a16e0ec1ea5"
	if got := hex.EncodeToString(all.Sum(nil)); got != want {
		t.Errorf("summaries and their sum are %s, recorded is %s", got, want)
	}
}

// TestSumOfParts: each row is either carried or summed, held-out rows are not summed, for any class; of a class with
// many rows there are as many as balance allows.
func TestSumOfParts(t *testing.T) {
	for _, balance := range []bool{false, true} {
		c := summed
		c.Balance = balance
		rows := messages(2, 1, 400)[0]
		b := bytesOf(t, t.Context(), c, rows)
		w := together(t, c, [][]byte{b})
		s, err := w.Newest(t.Context(), w.Len())
		if err != nil {
			t.Fatal(err)
		}
		held, count := drawLimit(c.Holdout), map[string]float64{}
		for i := range rows {
			if !rows[i].stretch().isHeldOut(held) {
				count[rows[i].Label]++
			}
		}
		all := 0.0
		for i, label := range s.Classes {
			got, there := s.Moments.Count(i), count[label]
			all += got
			switch {
			case !balance && got != there:
				t.Errorf("%s: %g rows in the moments, %g are there", label, got, there)
			case balance && label == "class 0" && got > there*0.7:
				t.Errorf("%s: %g rows of %g in the moments, and it has more than its share", label, got, there)
			case balance && label == "class 4" && got != there:
				t.Errorf("%s: %g rows of %g in the moments, and it is rare", label, got, there)
			}
		}
		if all != float64(s.Rows) || slices.Contains(s.Classes, "typing error 1") {
			t.Errorf("%g rows in the moments, %d counted, of classes %v", all, s.Rows, s.Classes)
		}
		if balance {
			continue
		}
		sum, err := s.Moments.Summary(true)
		if err != nil {
			t.Fatal(err)
		}
		mean := make([]float64, 6) // the same from the rows
		for i := range rows {
			if !rows[i].stretch().isHeldOut(held) && slices.Contains(s.Classes, rows[i].Label) {
				for j, v := range rows[i].X {
					mean[j] += v / all
				}
			}
		}
		for j := range mean {
			if !(math.Abs(mean[j]-sum.Mean[j]) <= 1e-9*(1+math.Abs(mean[j]))) {
				t.Errorf("feature %d: mean %g, of the rows %g", j, sum.Mean[j], mean[j])
			}
		}
	}
}

// TestUnlabelledSummary: without labels all rows are one class, and a PCA of sums is that of the rows.
func TestUnlabelledSummary(t *testing.T) {
	c := summed
	c.Labelled, c.Holdout = false, 0.01
	rows := messages(8, 5, 30)
	var stored [][]byte
	var x []float64
	n := 0
	for i := range rows {
		for k := range rows[i] {
			rows[i][k].Label = ""
			if !rows[i][k].stretch().isHeldOut(drawLimit(c.Holdout)) {
				x, n = append(x, rows[i][k].X...), n+1
			}
		}
		stored = append(stored, bytesOf(t, t.Context(), c, rows[i]))
	}
	w := together(t, c, stored)
	s, err := w.Newest(t.Context(), w.Len())
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"x0", "x1", "x2", "x3", "x4", "x5"}
	how := fit.Config{Method: "pca", Dim: 2, Scale: model.ScaleStandard}
	got, err := fit.FitMoments(t.Context(), s.Moments, names, s.Classes, how)
	if err != nil {
		t.Fatal(err)
	}
	want, err := fit.Fit(t.Context(), &model.Data{X: x, N: n, M: 6, Features: names}, how)
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows != n {
		t.Fatalf("%d rows are in the sums, %d are there", s.Rows, n)
	}
	for i, v := range got.Eigenvalues() {
		if !(math.Abs(v-want.Eigenvalues()[i]) <= 1e-9*v) {
			t.Errorf("eigenvalue %d is %g, of the rows %g", i, v, want.Eigenvalues()[i])
		}
	}
}

// TestFarInSummary: a value that would dominate is limited, in the sample and in the sums.
func TestFarInSummary(t *testing.T) {
	rows := messages(4, 1, 100)[0]
	good := len(rows)
	for i := 0; i < good; i += 100 {
		rows[i].X = slices.Clone(rows[i].X)
		rows[i].X[2] = 1e30
	}
	s, err := Summarize(t.Context(), summed, yield(rows))
	if err != nil {
		t.Fatal(err)
	}
	if s.Read.Outliers > 0 || s.Read.Rows != good || s.Len() != good {
		t.Errorf("%d rows of %d are set aside, %d are learned", s.Read.Outliers, s.Read.Rows, s.Len())
	}
	for i := range s.Rows {
		if !(s.Rows[i].X[2] <= 1e6) {
			t.Error("a far value is carried")
		}
	}
	if err := s.Moments.CheckMagnitude(1e6); err != nil {
		t.Error(err)
	}
}

// TestSummaryBytes: a change of any byte is detected, and no bytes panic.
func TestSummaryBytes(t *testing.T) {
	b := bytesOf(t, t.Context(), summed, messages(5, 1, 30)[0])
	if _, err := ReadSummary(b); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(b); i += 1 + len(b)/997 {
		bad := slices.Clone(b)
		bad[i] ^= 0x10
		if _, err := ReadSummary(bad); err == nil {
			t.Fatalf("byte %d changed without an error", i)
		}
		if _, err := ReadSummary(b[:i]); err == nil {
			t.Fatalf("cut after %d bytes without an error", i)
		}
		if i+sha256.Size < len(b) { // also with a new digest
			sum := sha256.Sum256(bad[:len(b)-sha256.Size])
			if s, err := ReadSummary(append(bad[:len(b)-sha256.Size], sum[:]...)); err == nil {
				w := New(summed)
				w.AddSummary(s)
				_, _ = w.Newest(t.Context(), w.Len())
			}
		}
	}
}

// signed returns a summary with another end and a valid digest.
func signed(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(slices.Clone(b), sum[:]...)
}

// TestSummaryNumbers: impossible values are detected even with a valid digest.
func TestSummaryNumbers(t *testing.T) {
	for _, labelled := range []bool{true, false} {
		c := summed
		c.Labelled = labelled
		rows := messages(5, 1, 60)[0]
		for i := range rows {
			if !labelled {
				rows[i].Label = ""
			}
		}
		b := bytesOf(t, t.Context(), c, rows)
		for what, change := range map[string]func(*Summary) error{
			"a weight of more rows": func(s *Summary) error {
				err := s.Moments.Add(t.Context(), make([]float64, 6), []int{s.Moments.Classes() - 1})
				for range 100 { // 2^100 rows
					err = errors.Join(err, s.Moments.Merge(s.Moments))
				}
				return err
			},
			"a weight without a label": func(s *Summary) error {
				if !labelled {
					s.Summed[0] = 0
					return nil
				}
				return s.Moments.Add(t.Context(), make([]float64, 6), []int{-1})
			},
			"more rows than were read": func(s *Summary) error { s.Summed[0] = math.MaxInt; return nil },
			"fewer than no messages":   func(s *Summary) error { s.Read.Unread = -1; return nil },
			"fewer than no rows":       func(s *Summary) error { s.Summed[0] = -1; return nil },
			"a class twice": func(s *Summary) error {
				s.Classes, s.Summed = append(s.Classes, s.Classes[len(s.Classes)-1]), append(s.Summed, 0)
				return nil
			},
			"more rows than many summaries can count": func(s *Summary) error {
				s.Summed[0], s.Read.Rows = math.MaxInt/2, math.MaxInt
				return nil
			},
			"a feature that no row has": func(s *Summary) error { s.Absent = []int{1}; return nil },
			"a row that is enormous":    func(s *Summary) error { s.Rows[3].X[2] = -1e308; return nil },
			"sums that are, of rows that were summed": func(s *Summary) error {
				class := []int{s.Moments.Classes() - 1}
				if !labelled {
					class = nil
				}
				s.Summed[len(s.Summed)-1], s.Read.Rows = 1<<30, 1<<31
				return s.Moments.Add(t.Context(), []float64{0, 0, 1e150, 0, 0, 0}, class)
			},
			"a shift that is": func(s *Summary) error {
				s.Moments = moments.New(6, false)
				return s.Moments.SetShift([]float64{0, 1e308, 0, 0, 0, 0})
			},
		} {
			s, err := ReadSummary(b)
			if err != nil {
				t.Fatal(err)
			}
			if err := change(s); err != nil {
				t.Fatal(what, err)
			}
			bad, err := s.Bytes()
			if err != nil {
				t.Fatal(what, err)
			}
			if read, err := ReadSummary(bad); !errors.Is(err, errDamaged) || read != nil {
				t.Errorf("labelled %t, %s: a summary %t, %v", labelled, what, read != nil, err)
			}
		}
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} { // the last entry of the matrix
			bad := slices.Clone(b[:len(b)-sha256.Size])
			binary.LittleEndian.PutUint64(bad[len(bad)-8:], math.Float64bits(v))
			if _, err := ReadSummary(signed(bad)); !errors.Is(err, errDamaged) {
				t.Errorf("labelled %t, a second moment of %g: %v", labelled, v, err)
			}
		}
		// Numbers that are negative where an int has 32 bits.
		bad := slices.Clone(b[:len(b)-sha256.Size])
		binary.LittleEndian.PutUint32(bad[12:], math.MaxUint32)
		if _, err := ReadSummary(signed(bad)); !errors.Is(err, errDamaged) {
			t.Errorf("labelled %t, a header of 4 GiB: %v", labelled, err)
		}
		bad = slices.Clone(b[:len(b)-sha256.Size])
		first := 16 + int(binary.LittleEndian.Uint32(bad[12:]))
		binary.LittleEndian.PutUint32(bad[first+20:], math.MaxUint32)
		if _, err := ReadSummary(signed(bad)); !errors.Is(err, errDamaged) {
			t.Errorf("labelled %t, a row of a class that is not there: %v", labelled, err)
		}
	}
}

// TestSummaryIsSmall: for 64 messages of 256 rows of 256 features the trainer reads at most a twentieth of the bytes.
func TestSummaryIsSmall(t *testing.T) {
	c := summed
	c.Features = 256
	r := rand.New(rand.NewPCG(1, 1))
	rows := make([]Row, 64*256)
	for i := range rows {
		x := make([]float64, c.Features)
		for j := range x {
			x[j] = float64(r.Float32())
		}
		rows[i] = Row{Position: Position{1, uint64(i/256 + 1), i % 256}, Label: fmt.Sprint("class ", i%10), X: x}
	}
	n, of := len(bytesOf(t, t.Context(), c, rows)), len(rows)*c.Features*4
	t.Logf("%d bytes for %d: one of %.1f", n, of, float64(of)/float64(n))
	if 20*n > of {
		t.Errorf("a summary of %d bytes for rows of %d", n, of)
	}
}

// TestSummedWindow: the oldest blocks are evicted, by rows and by age, and the result is a window that never had them;
// a cut evicts whole blocks.
func TestSummedWindow(t *testing.T) {
	rows := messages(6, 10, 20)
	var stored [][]byte
	for i := range rows {
		stored = append(stored, bytesOf(t, t.Context(), summed, rows[i]))
	}
	of := func(c Config, from int) string { return fmt.Sprint(digests(t, together(t, c, stored[from:]))) }
	all := together(t, summed, stored)
	few := summed
	few.Rows = all.Len() / 2
	w := together(t, few, stored)
	kept := len(w.blocks)
	if kept < 3 || kept > 6 || w.Len() > few.Rows {
		t.Fatalf("%d blocks of %d rows are kept, of %d rows at most", kept, w.Len(), few.Rows)
	}
	if got := fmt.Sprint(digests(t, w)); got != of(summed, len(rows)-kept) {
		t.Error("what has left is still in the models")
	}
	aged := summed
	aged.Age = 70e9 // a block is of 20 s
	if n := len(together(t, aged, stored).blocks); n != 4 {
		t.Errorf("%d blocks are no older than 70 s", n)
	}
	cut := together(t, summed, stored)
	cut.Cut(rows[7][len(rows[7])/2].Position)
	if len(cut.blocks) != 2 || cut.start != rows[7][len(rows[7])/2].Position {
		t.Errorf("%d blocks are left after a cut in the third from the end", len(cut.blocks))
	}
	if got := fmt.Sprint(digests(t, cut)); got != of(summed, 8) {
		t.Error("a cut leaves something of what was before")
	}
	if s, _ := ReadSummary(stored[9]); cut.AddSummary(s) != Duplicate {
		t.Error("a summary counts twice")
	}
	if s, _ := ReadSummary(stored[3]); cut.AddSummary(s) != Old {
		t.Error("a summary comes back that was cut")
	}
}

// BenchmarkSummary measures the cost of a row: for the worker that summarises it, and for the trainer that learns the
// summary of a block of 64 messages of 256 rows, compared with summing the rows.
func BenchmarkSummary(b *testing.B) {
	for _, m := range []int{64, 256} {
		c := summed
		c.Features = m
		r := rand.New(rand.NewPCG(1, 1))
		rows := make([]Row, 64*256)
		for i := range rows {
			x := make([]float64, m)
			for j := range x {
				x[j] = float64(r.Float32())
			}
			rows[i] = Row{Position: Position{1, uint64(i/256 + 1), i % 256}, Label: fmt.Sprint("class ", i%10), X: x}
		}
		ctx := model.Limit(b.Context(), 1)
		var text []byte
		b.Run(fmt.Sprintf("make/%d", m), func(b *testing.B) {
			for b.Loop() {
				s, err := Summarize(ctx, c, yield(rows))
				if err != nil {
					b.Fatal(err)
				}
				s.Range = Range{1, 1, 64}
				s.Features = make([]string, m)
				if text, err = s.Bytes(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rows)), "ns/row")
		})
		b.Run(fmt.Sprintf("learn/%d", m), func(b *testing.B) {
			for b.Loop() {
				s, err := ReadSummary(text)
				if err != nil {
					b.Fatal(err)
				}
				w := New(c)
				w.AddSummary(s)
				if _, err := w.Newest(ctx, w.Len()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rows)), "ns/row")
		})
	}
}

// TestEnormous: a feature so far from zero that its squares overflow float64 is in no sum, even if all rows are like
// that: one such row would make a block that can never be learned.
func TestEnormous(t *testing.T) {
	for name, every := range map[string]int{"one row": 1 << 20, "one in ten": 10, "one in two": 2} {
		rows := messages(7, 1, 60)[0]
		enormous := 0
		for i := range rows {
			if rows[i].X[5] = 0; i%every == 0 {
				rows[i].X[5] = []float64{1e200, -math.MaxFloat64, math.MaxFloat64}[i/every%3]
				enormous++
			}
		}
		s, err := ReadSummary(bytesOf(t, t.Context(), summed, rows))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Read.Outliers != enormous {
			t.Errorf("%s: %d rows are far, %d are", name, s.Read.Outliers, enormous)
		}
		byRows := summed
		byRows.Summaries = false
		of := map[string]*Window{"of summaries": New(summed), "of rows": New(byRows)}
		of["of summaries"].AddSummary(s)
		for _, r := range rows {
			of["of rows"].Add(r)
		}
		of["of rows"].Sift()
		if n := of["of rows"].Outliers().Rows; n != enormous {
			t.Errorf("%s: %d rows of a window are far, %d are", name, n, enormous)
		}
		for kind, w := range of {
			newest, err := w.Newest(t.Context(), w.Len())
			if err != nil {
				t.Fatal(err)
			}
			about, err := newest.Moments.Summary(true)
			if err != nil {
				t.Fatalf("%s, a window %s: %v", name, kind, err)
			}
			for _, v := range about.Total.RawSymmetric().Data {
				if !(math.Abs(v) < 1e12) {
					t.Fatalf("%s, a window %s: an entry of the scatter is %g", name, kind, v)
				}
			}
		}
	}
}

// TestSummariesKeepTheirHoldout: rows of a stored summary stay held out as they were when it was made; those of version
// 1, which did not store it, as each row was drawn alone then.
func TestSummariesKeepTheirHoldout(t *testing.T) {
	rows := messages(5, 1, 100)[0]
	b := bytesOf(t, t.Context(), summed, rows)
	held := func(b []byte, move bool) map[string]bool {
		s, err := ReadSummary(b)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		var names []string
		for _, r := range s.Rows {
			names = append(names, fmt.Sprint(r.Seq, ".", r.Row))
		}
		if move {
			s.MoveTo(Position{Created: 8, Seq: 3}, 1, summed.Holdout)
		}
		w, i := New(summed), 0
		if w.AddSummary(s) != Added {
			t.Fatal("the summary was not added")
		}
		w.All(func(r *Row) bool {
			out[names[i]] = r.IsHeldOut()
			i++
			return true
		})
		return out
	}
	// Version 1 is the same without the bit.
	old := slices.Clone(b[:len(b)-sha256.Size])
	binary.LittleEndian.PutUint32(old[len(summaryMagic):], 1)
	at := len(summaryMagic) + 8 + int(binary.LittleEndian.Uint32(old[len(summaryMagic)+4:]))
	s, err := ReadSummary(b)
	if err != nil {
		t.Fatal(err)
	}
	for range s.Rows {
		class := binary.LittleEndian.Uint32(old[at+20:])
		binary.LittleEndian.PutUint32(old[at+20:], class&^heldOutBit)
		at += rowHead + 4*len(s.Rows[0].X)
	}
	sum := sha256.Sum256(old)
	old = append(old, sum[:]...)
	for _, move := range []bool{false, true} {
		now, before := held(b, move), held(old, move)
		byStretch, alone := 0, 0
		for i := range rows {
			r := &rows[i]
			name := fmt.Sprint(r.Seq, ".", r.Row)
			if _, carried := now[name]; !carried {
				continue
			}
			limit := drawLimit(summed.Holdout)
			if now[name] != r.stretch().isHeldOut(limit) || before[name] != r.isDrawn(limit) {
				t.Fatalf("moved %v: row %s is held out: %v, of version 1: %v", move, name, now[name], before[name])
			}
			if now[name] {
				byStretch++
			}
			if before[name] {
				alone++
			}
		}
		if byStretch < 20 || alone < 5 {
			t.Errorf("%d and %d rows are held out", byStretch, alone)
		}
	}
}

// TestHeadsThatContradictThemselves: one fault in the header of a summary is enough to refuse it.
func TestHeadsThatContradictThemselves(t *testing.T) {
	for what, change := range map[string]func(*head){
		"":                            func(*head) {},
		"no feature":                  func(h *head) { h.Features = nil },
		"fewer than no rows":          func(h *head) { h.Rows = -1 },
		"numbers of five bytes":       func(h *head) { h.Width = 5 },
		"more rows than bytes":        func(h *head) { h.Rows, h.Read.Rows = 1, 1 },
		"a sum of no class":           func(h *head) { h.Summed = []int{0} },
		"labels in another order":     func(h *head) { h.Labels = []string{"b", "a"} },
		"a feature that is not there": func(h *head) { h.Absent = []int{1} },
		"an end before the beginning": func(h *head) { h.First = 1 },
	} {
		h := &head{Features: []string{"x"}, Width: 4}
		change(h)
		_, err := h.readBody(nil, false)
		if contradicts := err != nil && strings.Contains(err.Error(), "contradicts itself"); contradicts != (what != "") {
			t.Errorf("%q: %v", what, err)
		}
	}
}

// TestReadCounts: counts of a summary are from 0 to 2^32.
func TestReadCounts(t *testing.T) {
	for n, want := range map[int]bool{-1: false, 0: true, 1 << 32: true, 1<<32 + 1: false} {
		for k, c := range []ReadCounts{{Rows: n}, {Unlabelled: n}, {Faulty: n}, {Outliers: n}, {OverClassLimit: n},
			{Unread: n}} {
			if c.isValid() != want {
				t.Errorf("count %d of %d is valid: %v", k, n, !want)
			}
		}
	}
}

// TestReadSummaryOfMessages: the rows of a summary count as those of messages of its mean size, and a text that is too
// short for a header is damaged, also with a valid digest.
func TestReadSummaryOfMessages(t *testing.T) {
	rows := messages(5, 1, 60)[0]
	s, err := ReadSummary(bytesOf(t, t.Context(), summed, rows))
	if err != nil {
		t.Fatal(err)
	}
	want := s.Read.Rows / int(s.Last-s.First+1)
	for i := range s.Rows {
		if got := s.Rows[i].MessageRows; got != want || want < 4 || want > 15 {
			t.Fatalf("row %d is of a message of %d rows, want %d", i, got, want)
		}
	}
	for n := range 8 {
		body := append([]byte(summaryMagic), make([]byte, n)...)
		sum := sha256.Sum256(body)
		_, err := ReadSummary(append(body, sum[:]...))
		if !errors.Is(err, errDamaged) || !strings.HasSuffix(err.Error(), "it does not begin with the magic bytes") {
			t.Errorf("%d bytes after the magic ones: %v", n, err)
		}
	}
}

// TestClassesOfASummary: above the limit of classes the most frequent ones stay, and of equally frequent ones those
// that come first in alphabetical order.
func TestClassesOfASummary(t *testing.T) {
	c := summed
	c.Classes = 2
	var rows []Row
	for i := range 120 {
		label := []string{"d", "c", "b", "a"}[i%4]
		if i < 4 {
			label = "c"
		}
		rows = append(rows, Row{Position: Position{Seq: uint64(i + 1)}, MessageRows: 1, Label: label,
			X: []float64{float64(i), 1, 2, 3, 4, float64(i % 7)}})
	}
	s, err := Summarize(t.Context(), c, yield(rows))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, r := range s.Rows {
		found[r.Label]++
	}
	if len(found) != 2 || found["c"] == 0 || found["a"] == 0 || s.Read.OverClassLimit != 2*29 {
		t.Errorf("rows of %v, %d rows of other classes", found, s.Read.OverClassLimit)
	}
}
