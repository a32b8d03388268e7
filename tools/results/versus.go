package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/score"
)

// smallSets are the data sets that are compared unless others are named: those of fewer than 1,000 rows.
var smallSets = []string{"breastcancer_wbc", "glass", "iris", "musk", "sonar", "vowel", "wdbc", "wine", "zoo"}

// versus compares two commands that fit models, such as "embedd --dim 2": another program, or other flags.
type versus struct {
	commands [2][]string
	sets     []string
	splits   int
	seed     uint64 // of the splits; 1: those of the choice of auto
}

// fits is what a command did on a data set, one value for each split.
type fits struct {
	accuracy map[string][]float64 // by judge, in %
	seconds  float64              // processor time of all
	outputs  []string
}

// run writes the table: for each data set the first command, and the second one less the first on the same splits.
func (v versus) run(ctx context.Context, b *bench, out io.Writer) error {
	fmt.Fprint(out, "| data | splits |")
	for _, judge := range v.judges() {
		fmt.Fprintf(out, " %s | second less first | +- | error |", judge)
	}
	fmt.Fprintf(out, " outputs, first | second | time |\n|---|---%s|---|---|---|\n",
		strings.Repeat("|---|---|---|---", len(v.judges())))
	mean := make([]float64, 2*len(v.judges()))
	for _, set := range v.sets {
		d, err := readData(b.data, set)
		if err != nil {
			return err
		}
		found, err := v.compare(ctx, b, set, d)
		if err != nil {
			return fmt.Errorf("%s: %w", set, err)
		}
		fmt.Fprintf(out, "| %s | %d |", set, v.splits)
		for i, judge := range v.judges() {
			first, _ := stat.MeanStdDev(found[0].accuracy[judge], nil)
			more, deviation := differences(found[1].accuracy[judge], found[0].accuracy[judge])
			fmt.Fprintf(out, " %.1f | %+.2f | %.2f | %.2f |", first, more, deviation,
				deviation/math.Sqrt(float64(v.splits)))
			mean[2*i] += first / float64(len(v.sets))
			mean[2*i+1] += more / float64(len(v.sets))
		}
		fmt.Fprintf(out, " %s | %s | %.1f |\n", strings.Join(found[0].outputs, " "), strings.Join(found[1].outputs, " "),
			found[1].seconds/found[0].seconds)
	}
	fmt.Fprintf(out, "| mean of %d | |", len(v.sets))
	for i := range v.judges() {
		fmt.Fprintf(out, " %.2f | %+.2f | | |", mean[2*i], mean[2*i+1])
	}
	fmt.Fprintln(out, " | | |")
	return nil
}

// judges are the classifiers of the table.
func (v versus) judges() []string { return []string{"1-NN", "5-NN", "linear"} }

// differences returns the mean of the differences between values of the same splits, and their standard deviation.
func differences(x, y []float64) (more, deviation float64) {
	each := make([]float64, len(x))
	floats.SubTo(each, x, y)
	if len(each) == 1 {
		return each[0], 0
	}
	return stat.MeanStdDev(each, nil)
}

// compare runs both commands on the training rows of each split and scores their outputs on the others.
func (v versus) compare(ctx context.Context, b *bench, set string, d *model.Data) (found [2]fits, err error) {
	folder, err := os.MkdirTemp("", "versus")
	if err != nil {
		return found, err
	}
	defer os.RemoveAll(folder)
	draw := rand.New(rand.NewPCG(v.seed, 0))
	for k := range v.splits {
		in, held := score.Stratified(d.Y, 0.5, draw.Uint64())
		train, test := d.Subset(in), d.Subset(held)
		rows := filepath.Join(folder, "rows.csv")
		if err := writeRows(rows, train); err != nil {
			return found, err
		}
		for i, command := range v.commands {
			m, seconds, err := fitted(ctx, command, rows, filepath.Join(folder, "model"))
			if err != nil {
				return found, err
			}
			found[i].seconds += seconds
			if err := found[i].add(ctx, m, train, test, v.judges()); err != nil {
				return found, err
			}
		}
		b.say("%s, split %d: %.1f, %.1f", set, k+1, found[0].accuracy["1-NN"][k], found[1].accuracy["1-NN"][k])
	}
	return found, nil
}

// add scores the outputs of a model.
func (f *fits) add(ctx context.Context, m *model.Model, train, test *model.Data, judges []string) error {
	ref, query, err := outputsOf(ctx, m, train, test)
	if err != nil {
		return err
	}
	if f.accuracy == nil {
		f.accuracy = map[string][]float64{}
	}
	for _, judge := range judges {
		right, err := judgement(ctx, judge, ref, train, query, test, m.Dim())
		if err != nil {
			return err
		}
		f.accuracy[judge] = append(f.accuracy[judge], 100*right)
	}
	f.outputs = append(f.outputs, strconv.Itoa(m.Dim()))
	return nil
}

// fitted runs a command with the verb fit and reads the model it writes; seconds is its processor time.
func fitted(ctx context.Context, command []string, rows, file string) (m *model.Model, seconds float64, err error) {
	arguments := append([]string{"fit", "--data", rows, "--label", "label", "-o", file}, command[1:]...)
	c := exec.CommandContext(ctx, command[0], arguments...)
	var report bytes.Buffer
	c.Stdout, c.Stderr = &report, &report
	if err := c.Run(); err != nil {
		return nil, 0, fmt.Errorf("%v: %w: %s", c, err, report.Bytes())
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	m, err = model.Read(f)
	return m, (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds(), err
}

// writeRows writes rows as CSV, numbers in full. A missing value is an empty field.
func writeRows(path string, d *model.Data) error {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	header := make([]string, 0, d.M+1)
	for j := range d.M {
		header = append(header, fmt.Sprintf("x%d", j))
	}
	if err := w.Write(append(header, "label")); err != nil {
		return err
	}
	for i := range d.N {
		record := make([]string, 0, d.M+1)
		for _, x := range d.X[i*d.M : (i+1)*d.M] {
			field := ""
			if !math.IsNaN(x) {
				field = strconv.FormatFloat(x, 'g', -1, 64)
			}
			record = append(record, field)
		}
		if err := w.Write(append(record, d.Classes[d.Y[i]])); err != nil {
			return err
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o666)
}
