package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
)

// TestMain lets the tests run this program as one that fits models.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "fit" {
		if err := fitRows(os.Args[2:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fitRows fits pca to a file, as the verb fit does.
func fitRows(arguments []string) error {
	flags := flag.NewFlagSet("fit", flag.ContinueOnError)
	data, label := flags.String("data", "", ""), flags.String("label", "", "")
	out, dim := flags.String("o", "", ""), flags.Int("dim", 2, "")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	text, err := os.ReadFile(*data)
	if err != nil {
		return err
	}
	records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return err
	}
	d := &model.Data{N: len(records) - 1, M: len(records[0]) - 1}
	if last := records[0][d.M]; last != *label {
		return fmt.Errorf("the last column is %q, not %q", last, *label)
	}
	for _, r := range records[1:] {
		for _, field := range r[:d.M] {
			x, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return err
			}
			d.X = append(d.X, x)
		}
	}
	m, err := fit.Fit(context.Background(), d, fit.Config{Method: "pca", Dim: *dim})
	if err != nil {
		return err
	}
	var file bytes.Buffer
	if err := model.Write(&file, m); err != nil {
		return err
	}
	return os.WriteFile(*out, file.Bytes(), 0o666)
}

// The table has the accuracy of the first command, and the mean and deviation of the difference on the same splits.
func TestVersus(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d, err := readData("", "iris")
	if err != nil {
		t.Fatal(err)
	}
	const splits = 3
	accuracy := map[int][]float64{} // of the nearest neighbour, by dimension
	draw := rand.New(rand.NewPCG(1, 0))
	for range splits {
		in, held := score.Stratified(d.Y, 0.5, draw.Uint64())
		train, test := d.Subset(in), d.Subset(held)
		for _, dim := range []int{1, 2} {
			m, err := fit.Fit(t.Context(), &model.Data{N: train.N, M: train.M, X: train.X}, fit.Config{Method: "pca", Dim: dim})
			if err != nil {
				t.Fatal(err)
			}
			right, err := score.Correct(t.Context(), m, train, test, 1)
			if err != nil {
				t.Fatal(err)
			}
			accuracy[dim] = append(accuracy[dim], 100*float64(right)/float64(test.N))
		}
	}
	first, _ := stat.MeanStdDev(accuracy[2], nil)
	more, deviation := differences(accuracy[1], accuracy[2])
	if more == 0 || deviation == 0 {
		t.Fatalf("one output and two are equal: %v", accuracy)
	}
	v := versus{[2][]string{{program}, {program, "--dim", "1"}}, []string{"iris"}, splits, 1}
	var out bytes.Buffer
	if err := v.run(t.Context(), &bench{}, &out); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("| iris | 3 | %.1f | %+.2f | %.2f |", first, more, deviation)
	if row := rowsOf(out.String(), "iris"); len(row) != 1 || !strings.HasPrefix(row[0], want) ||
		!strings.Contains(row[0], "| 2 2 2 | 1 1 1 |") {
		t.Errorf("want %s, got\n%s", want, out.String())
	}
	v.commands[1] = []string{program, "--unknown"}
	if err := v.run(t.Context(), &bench{}, &out); err == nil || !strings.Contains(err.Error(), "-unknown") {
		t.Errorf("a command that fails: %v", err)
	}
}

// A value is written in full, and a missing one as an empty field.
func TestWriteRows(t *testing.T) {
	path := t.TempDir() + "/rows.csv"
	third := 1.0 / 3
	d := &model.Data{X: []float64{third, 1e-300, math.NaN(), 2}, N: 2, M: 2, Y: []int{1, 0}, Classes: []string{"a", "b,c"}}
	if err := writeRows(path, d); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "x0,x1,label\n0.3333333333333333,1e-300,\"b,c\"\n,2,a\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}
