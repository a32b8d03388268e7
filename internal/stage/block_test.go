package stage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// blockMessages is how many messages of 20 rows a block of these tests has.
const blockMessages = 10

// streamCreated is the creation time of the stream.
var streamCreated = time.Unix(1_700_000_000, 0)

func testBlock(n int) Block {
	return Block{Created: streamCreated, First: uint64(n*blockMessages + 1), Last: uint64((n + 1) * blockMessages)}
}

// featureNames are the names of the features of the tests' rows.
func featureNames() (names []string) {
	for j := range testFeatures {
		names = append(names, fmt.Sprintf("x[%d]", j))
	}
	return names
}

// summaryOf is what a stage makes of block n of the rows.
func summaryOf(t testing.TB, s *Stage, rows []row, n int) []byte {
	t.Helper()
	b := testBlock(n)
	sum, err := s.SummaryBuilder(b, featureNames())
	if err != nil {
		t.Fatal(err)
	}
	for seq := b.First; seq <= b.Last; seq++ {
		from := int(seq-1) * 20
		sum.Add(spec.Position{Created: streamCreated, Seq: seq, Time: streamCreated.Add(time.Duration(seq) * time.Second)},
			encodeRows(t, rows[from:from+20]))
	}
	text, err := sum.Bytes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// learnBlocks gives a stage the summaries of rows from a block on.
func learnBlocks(t testing.TB, s *Stage, summaries [][]byte, from int) {
	t.Helper()
	for n := from; n < len(summaries); n++ {
		if _, err := s.LearnSummary(testBlock(n), featureNames(), summaries[n]); err != nil {
			t.Fatal(err)
		}
		waitIdle(t, s)
	}
}

func withBlocks(method string) func(c *spec.Config) {
	return func(c *spec.Config) {
		c.Training.Window, c.Training.Block = spec.Window{Rows: 3000}, blockMessages
		c.Training.Every.Rows = 500
		c.Fit.Method = method
	}
}

// driftingRows returns rows of overlapping classes that swap positions in the middle.
func driftingRows(n int) []row {
	rows := clouds(rand.New(rand.NewPCG(11, 12)), n, 3)
	for i := range rows {
		for j := range rows[i].x {
			rows[i].x[j] /= 2
		}
		if i > n/2 {
			slices.Reverse(rows[i].x)
		}
		rows[i].x[i%testFeatures] += float32(i % 7)
	}
	return rows
}

// TestLearnsFromSummaries: a stage that learns from summaries instead of rows fits an equally good model and follows
// drift. Its decisions do not depend on which replicas made the summaries, nor on a restart at any block.
func TestLearnsFromSummaries(t *testing.T) {
	rows := driftingRows(8000)
	methods := []string{"lda", "lfda"}
	if testsize.Soak() {
		methods = append(methods, "pca", fit.Auto)
	}
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			change := withBlocks(method)
			hands := []*Stage{newStage(t, change), newStage(t, change)}
			r := rand.New(rand.NewPCG(5, 5))
			summaries := make([][]byte, len(rows)/20/blockMessages)
			for _, n := range r.Perm(len(summaries)) {
				summaries[n] = summaryOf(t, hands[r.IntN(2)], rows, n)
			}
			a := newRecordedStage(t, change)
			stops := []int{7, 21, 33}
			var states []stored // at each of the stops
			learned := 0
			for _, stop := range stops {
				learnBlocks(t, a.Stage, summaries[:stop], learned)
				states, learned = append(states, a.stored()), stop
			}
			learnBlocks(t, a.Stage, summaries, learned)
			if len(a.decisions) < 2 {
				t.Fatalf("decisions %v", a.decisions)
			}
			st := a.Status()
			if method != "pca" && !(st.Accuracy >= 0.8) {
				t.Errorf("accuracy %.3f, and by chance %.3f", st.Accuracy, st.Chance)
			}
			if st.Rows > 3000 || st.Rows < 2000 || st.Received != len(rows) {
				t.Errorf("%d rows in the window of 3000, %d seen of %d", st.Rows, st.Received, len(rows))
			}
			for i, stop := range stops {
				c := states[i]
				created, first := ReadFrom(c.live.State)
				if created != streamCreated.UnixNano() {
					t.Fatalf("the checkpoint is of a stream made at %d", created)
				}
				d := newRecordedStage(t, func(x *spec.Config) { change(x); x.Resume = c.live })
				d.decisions = c.decisions
				learnBlocks(t, d.Stage, summaries, int(first-1)/blockMessages)
				if x, y := fmt.Sprint(a.decisions), fmt.Sprint(d.decisions); x != y {
					t.Errorf("restarted after block %d: decisions\n%s\nand without\n%s", stop, y, x)
				}
			}
		})
	}
}

// TestSummaryRefused: a summary of something else than the block is rejected, and nothing of it is learned.
func TestSummaryRefused(t *testing.T) {
	rows := driftingRows(400)
	s := newStage(t, withBlocks("lda"))
	text := summaryOf(t, s, rows, 0)
	other := newStage(t, func(c *spec.Config) { withBlocks("lda")(c); c.Training.Holdout = 0.3 })
	damaged := slices.Clone(text)
	damaged[len(damaged)/2] ^= 1
	later := testBlock(0)
	later.Created = streamCreated.Add(time.Second)
	for _, one := range []struct {
		what     string
		block    Block
		features []string
		text     []byte
	}{
		{"damaged", testBlock(0), featureNames(), damaged},
		{"of other settings", testBlock(0), featureNames(), summaryOf(t, other, rows, 0)},
		{"of another block", testBlock(1), featureNames(), text},
		{"of another stream", later, featureNames(), text},
		{"of other features", testBlock(0), featureNames()[1:], text},
	} {
		if _, err := s.LearnSummary(one.block, one.features, one.text); !errors.Is(err, ErrSummary) {
			t.Errorf("%s: %v", one.what, err)
		}
	}
	waitIdle(t, s)
	if st := s.Status(); st.Received > 0 || st.Rows > 0 {
		t.Errorf("something was learned: %+v", st)
	}
	if _, err := s.LearnSummary(testBlock(0), featureNames(), text); err != nil {
		t.Error(err)
	}
}

// TestSummaryOfBadMessages: messages that cannot be read, and rows without a label or with missing features, are left
// out and counted; a block of only these is a summary too.
func TestSummaryOfBadMessages(t *testing.T) {
	s := newStage(t, withBlocks("lda"))
	sum, err := s.SummaryBuilder(testBlock(0), featureNames())
	if err != nil {
		t.Fatal(err)
	}
	sum.Add(spec.Position{Created: streamCreated, Seq: 1, Time: streamCreated}, []byte("no Arrow"))
	text, err := sum.Bytes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if unread, err := s.LearnSummary(testBlock(0), featureNames(), text); err != nil || unread != 1 {
		t.Errorf("%d messages unread: %v", unread, err)
	}
	for _, missing := range []int64{0, 1} { // of three matrices
		wide := newStage(t, func(c *spec.Config) {
			withBlocks("lda")(c)
			c.Training.Window.Bytes = 3*8*1000*1000 - missing
		})
		if _, err := wide.SummaryBuilder(testBlock(0), make([]string, 1000)); (err == nil) != (missing == 0) ||
			err != nil && !strings.Contains(err.Error(), "window.bytes") {
			t.Errorf("a thousand features in %d bytes: %v", wide.config.Training.Window.Bytes, err)
		}
	}
}

// TestBlockRefused: settings that need every row at the trainer are rejected with summaries.
func TestBlockRefused(t *testing.T) {
	for what, change := range map[string]func(c *spec.Config){
		"quota":     func(c *spec.Config) { c.Training.Quota.By = spec.QuotaSubject },
		"landmarks": func(c *spec.Config) { c.Fit.Landmarks = 10 },
		"PCA":       func(c *spec.Config) { c.Until = spec.UntilPCA },
		"scale":     func(c *spec.Config) { c.Fit.Scale = model.ScaleMinMax },
		"labels":    func(c *spec.Config) { c.Spec.Key, c.Labels = "key", &spec.Labels{} },
	} {
		c := *newStage(t, nil).config
		withBlocks("lda")(&c)
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSettingsStay: summaries from before an upgrade still have the same settings. If this fails, an upgrade deletes
// all stored summaries: docs/summaries.md describes the cost.
func TestSettingsStay(t *testing.T) {
	s := newStage(t, func(c *spec.Config) {
		c.Source = map[string]string{"stream": "FEATURES", "subject": "features.digits"}
		c.Training.Block, c.Training.Holdout, c.Training.Window.Bytes = 64, 0.2, 1<<30
	})
	if have, want := s.Settings(), "8bca7d20c1a07fae"; have != want {
		t.Errorf("the settings are %s, and were %s", have, want)
	}
}
