package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/eval"
	"github.com/embedd/embedd/model/fit"
)

var choiceSets = []string{"breastcancer_wbc", "digits", "glass", "iris", "musk", "sonar", "vowel", "wdbc",
	"wine", "zoo"}

// peers is the best of scikit-learn's LDA with shrinkage and NCA, metric-learn's LFDA and LMNN, and UMAP with labels,
// each at its best dimension in hindsight, in %, on splits of their own.
var peers = map[string]struct {
	name     string
	accuracy float64
}{
	"breastcancer_wbc": {"LMNN", 95.6}, "digits": {"NCA", 96.5}, "glass": {"LMNN", 68.5}, "iris": {"UMAP", 96.7},
	"musk":  {"NCA", 87.2},
	"sonar": {"NCA", 83.0}, "vowel": {"LFDA", 94.4}, "wdbc": {"NCA", 96.1}, "wine": {"LFDA", 98.2},
	"zoo": {"NCA", 94.7},
}

// choice scores auto, which sees the training rows alone, beside the best of others in hindsight.
func choice(ctx context.Context, b *bench, out *bytes.Buffer) error {
	splits := min(b.repeats, 10)
	fmt.Fprintf(out, `Accuracy in %% of the nearest neighbour with the method, the scale, the dimension and the ridge left to %s on the training rows of %d stratified splits into halves, seed 1:
%s. "Alone" is the best candidate in place of a blend of five, features of unit variance: `+"`--blend 1 --scale standard`"+`. "Features" are of unit variance. "Peer" is the best of scikit-learn's LDA (with shrinkage) and NCA, metric-learn's LFDA and LMNN, and UMAP with labels, each at its best dimension in
hindsight, measured apart on other splits of the same kind: a difference below about one deviation divided by the root of the splits, on both sides, is noise.

| data | features | +- | alone | +- | auto | +- | peer | | auto less peer |
|---|---|---|---|---|---|---|---|---|---|
`, "`auto`", splits, "`embedd eval --methods auto --dims auto`")
	sum, alone, theirs := 0.0, 0.0, 0.0
	for _, name := range choiceSets {
		d, err := readData(b.data, name)
		if err != nil {
			return err
		}
		row := map[string]eval.Result{}
		c := eval.Config{Methods: []string{eval.Raw, fit.Auto}, Dims: []int{fit.AutoDim}, Splits: splits, Seed: 1}
		if err := eval.Evaluate(ctx, d, c, func(r eval.Result) error { row[r.Method] = r; return nil }); err != nil {
			return err
		}
		var best eval.Result
		c.Methods, c.Scale, c.Blend = []string{fit.Auto}, model.ScaleStandard, 1
		if err := eval.Evaluate(ctx, d, c, func(r eval.Result) error { best = r; return nil }); err != nil {
			return err
		}
		raw, auto, peer := row[eval.Raw], row[fit.Auto], peers[name]
		if auto.Error != "" || best.Error != "" {
			return fmt.Errorf("%s: %s%s", name, auto.Error, best.Error)
		}
		b.say("%s: %.1f", name, 100*auto.AccuracyMean)
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %s | %+.1f |\n", name, 100*raw.AccuracyMean,
			100*raw.AccuracySD, 100*best.AccuracyMean, 100*best.AccuracySD, 100*auto.AccuracyMean, 100*auto.AccuracySD,
			peer.accuracy, peer.name, 100*auto.AccuracyMean-peer.accuracy)
		sum += 100 * auto.AccuracyMean / float64(len(choiceSets))
		alone += 100 * best.AccuracyMean / float64(len(choiceSets))
		theirs += peer.accuracy / float64(len(choiceSets))
	}
	fmt.Fprintf(out, "| mean | | | %.1f | | %.1f | | %.1f | | %+.1f |\n", alone, sum, theirs, sum-theirs)
	return nil
}
