package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/engine"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
)

const (
	wine = "testdata/wine.csv.gz"
	iris = "testdata/iris.csv.gz"
	wbc  = "testdata/breastcancer_wbc.csv.gz" // has missing values
)

// must runs a command line that has to succeed.
func must(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := call(t.Context(), args...)
	if code != 0 {
		t.Fatalf("embedd %s: exit %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout, stderr
}

// fitted returns a model file.
func fitted(t *testing.T, data, method string, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), method+".embedd")
	must(t, append([]string{"fit", "--data", data, "--label", "label", "--method", method, "-o", path}, more...)...)
	return path
}

// embedding reads the float32 values of the output column of a file.
func embedding(t *testing.T, path string) (values []float32) {
	t.Helper()
	r, err := file.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return values
		}
		if err != nil {
			t.Fatal(err)
		}
		col := rec.Column(rec.Schema().FieldIndices("embedding")[0]).(array.ListLike)
		for i := range int(rec.NumRows()) {
			from, to := col.ValueOffsets(i)
			values = append(values, col.ListValues().(*array.Float32).Float32Values()[from:to]...)
		}
		rec.Release()
	}
}

// The accuracy of LDA on wine, and the format of an evaluation.
func TestEvalWine(t *testing.T) {
	stdout, _ := must(t, "eval", "--data", wine, "--label", "label", "--methods", "lda,pca", "--dims", "2,5",
		"--format", "json")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var got []string
	for _, line := range lines {
		var r struct {
			Data     string             `json:"data"`
			Method   string             `json:"method"`
			Dim      int                `json:"dim"`
			Used     int                `json:"dim_used"`
			Splits   int                `json:"splits"`
			Accuracy float64            `json:"accuracy_mean"`
			SD       float64            `json:"accuracy_sd"`
			Recall   map[string]float64 `json:"recall"`
			Seconds  float64            `json:"fit_seconds"`
			Rank     int                `json:"informative_rank"`
			Params   map[string]string  `json:"params"`
			Report   *model.Report      `json:"report"` // in addition to those of the contract
			Error    *string            `json:"error"`
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, fmt.Sprintf("%s %d %d", r.Method, r.Dim, r.Used))
		if r.Data != "wine.csv.gz" || r.Splits != 10 || r.Error != nil || r.Accuracy < 0.85 || r.Accuracy > 1 ||
			r.SD <= 0 {
			t.Errorf("result %s", line)
		}
		if r.Method != "raw" && (r.Report == nil || r.Report.Rank != 13 || len(r.Report.Phases) == 0) {
			t.Errorf("the report of a fit is missing or empty: %s", line)
		}
		if r.Method == "lda" && r.Accuracy < 0.96 {
			t.Errorf("LDA at 2 dimensions has accuracy %.4f, want at least 0.96", r.Accuracy)
		}
	}
	if want := "raw 13 13, lda 2 2, lda 5 2, pca 2 2, pca 5 5"; strings.Join(got, ", ") != want {
		t.Errorf("results %v, want %s", got, want)
	}
}

// --tune names the combinations that won, and does not change what --set fixes.
func TestEvalTune(t *testing.T) {
	args := []string{"eval", "--data", iris, "--label", "label", "--methods", "dla,lda", "--splits", "2", "--tune",
		"--set", "dla.beta=0.1"}
	stdout, _ := must(t, args...)
	if !strings.Contains(stdout, "tuned k1=") || strings.Contains(stdout, "beta") {
		t.Errorf("the table does not say what was tuned:\n%s", stdout)
	}
	stdout, _ = must(t, append(args, "--format", "json")...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], `"tuned":{"k1=`) || !strings.Contains(lines[1], `"beta":"0.1"`) ||
		strings.Contains(lines[2], "tuned") {
		t.Errorf("lines of JSON:\n%s", stdout)
	}
	if code, _, stderr := call(t.Context(), "eval", "--data", iris, "--label", "label", "--tune", "--dims",
		"auto"); code != 2 || !strings.Contains(stderr, "dimension") {
		t.Errorf("--tune --dims auto: exit %d, %s", code, stderr)
	}
	stdout, _ = must(t, "methods", "lpp")
	if !strings.Contains(stdout, "5 10 15 20 25 30") {
		t.Errorf("no grid in\n%s", stdout)
	}
}

func TestEvalTable(t *testing.T) {
	stdout, _ := must(t, "eval", "--data", iris, "--label", "label", "--methods", "lda", "--splits", "3",
		"--train-per-class", "10", "--neighbors", "3", "--set", "lda.ridge=0")
	for _, want := range []string{"150 rows, 4 features, 3 classes", "raw ", "lda "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	again, _ := must(t, "eval", "--data", iris, "--label", "label", "--methods", "lda", "--format", "json")
	twice, _ := must(t, "eval", "--data", iris, "--label", "label", "--methods", "lda", "--format", "json",
		"--seed", "1")
	cut := func(s string) string { return strings.Split(strings.Split(s, "\n")[1], `"fit_seconds"`)[0] }
	if cut(again) != cut(twice) {
		t.Errorf("one seed, two results:\n%s\n%s", again, twice)
	}
}

// The same rows, configuration and seed give the same model (Invariant 7). Another order of the columns is another
// model.
func TestFit(t *testing.T) {
	digest := func(path string) string {
		m, err := files.ReadModel(path)
		if err != nil {
			t.Fatal(err)
		}
		return m.Digest()
	}
	a, b := fitted(t, wine, "lda"), fitted(t, wine, "lda")
	if digest(a) != digest(b) {
		t.Error("two fits of the same rows differ")
	}
	m, err := files.ReadModel(a)
	if err != nil {
		t.Fatal(err)
	}
	if m.M() != 13 || m.Dim() != 2 || strings.Join(m.Classes(), "") != "012" ||
		m.Note().Source["file"] != "wine.csv.gz" || m.Note().Created.IsZero() {
		t.Errorf("model: %d features, dim %d, classes %v, note %+v", m.M(), m.Dim(), m.Classes(), m.Note())
	}
	few := fitted(t, wine, "lda", "--features", "x1?", "--features", "x0", "--key", "x12")
	if m, err = files.ReadModel(few); err != nil || strings.Join(m.Features(), " ") != "x10 x11 x0" {
		t.Errorf("features %v: %v", m.Features(), err)
	}
	var report fitReport
	stdout, _ := must(t, "fit", "--data", wine, "--label", "label", "--method", "lda", "--dim", "1", "--set",
		"ridge=0.5", "-o", filepath.Join(t.TempDir(), "m"), "--format", "json")
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if report.Dim != 1 || report.Rows != 178 || report.Params["ridge"] != "0.5" || report.Report.Rank != 13 {
		t.Errorf("report %s", stdout)
	}
}

// fit reports a search and ties, and no residual if the outputs are not those of the eigenproblem that was solved.
func TestFitShowsSearchAndTies(t *testing.T) {
	shown := func(args ...string) string {
		stdout, _ := must(t, append([]string{"fit", "-o", filepath.Join(t.TempDir(), "m")}, args...)...)
		return stdout
	}
	of := func(method string) string {
		return shown("--data", wine, "--label", "label", "--dim", "2", "--method", method)
	}
	search := regexp.MustCompile(`(?m)^search +criterion \S+ -> \S+ in \d+ steps, (?:not )?converged, ` +
		`gradient \S+ at the end(;\s+leave-one-out accuracy \S+ % -> \S+ %)?$`)
	for method, scored := range map[string]bool{"tnca": true, "pairacc": false, "lsdr": false} {
		text := of(method)
		found := search.FindStringSubmatch(text)
		if found == nil || (found[1] != "") != scored || strings.Contains(text, "residual") {
			t.Errorf("%s shows\n%s", method, text)
		}
	}
	if text := of("lda"); search.MatchString(text) || !strings.Contains(text, "residual") ||
		strings.Contains(text, "eigenspace") {
		t.Errorf("lda shows\n%s", text)
	}
	// The variance of the rows is the same along all four axes.
	cross := filepath.Join(t.TempDir(), "cross.csv")
	rows := "a,b,c,d\n"
	for j := range 4 {
		for _, v := range []string{"1", "-1"} {
			row := []string{"0", "0", "0", "0"}
			row[j] = v
			rows += strings.Join(row, ",") + "\n"
		}
	}
	if err := os.WriteFile(cross, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	for dim, want := range map[string]string{
		"1": "output 1 shares its eigenspace with 3 left out: other directions in it are equally good",
		"3": "outputs 1 to 3 share one eigenspace with 1 left out: other directions in it are equally good",
		"4": "outputs 1 to 4 share one eigenspace: other directions in it are equally good",
	} {
		if text := shown("--data", cross, "--method", "pca", "--dim", dim); !strings.Contains(
			strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("dim %s: want %q in\n%s", dim, want, text)
		}
	}
}

func TestFitMissingValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m")
	args := []string{"fit", "--data", wbc, "--label", "label", "--method", "lda", "-o", path}
	_, stderr := must(t, args...)
	if !strings.Contains(stderr, "16 of 6291 values are missing, in 16 rows") {
		t.Errorf("stderr does not count the missing values: %s", stderr)
	}
	if m, err := files.ReadModel(path); err != nil || m.Rows() != 699 || m.Report().Imputed != 16 {
		t.Errorf("%d rows: %v", m.Rows(), err)
	}
	_, stderr = must(t, append(args, "--nulls", "skip")...)
	if m, err := files.ReadModel(path); err != nil || m.Rows() != 683 ||
		!strings.Contains(stderr, "16 of 699 rows are left out") {
		t.Errorf("%d rows: %v: %s", m.Rows(), err, stderr)
	}
	code, _, stderr := call(t.Context(), append(args, "--nulls", "reject")...)
	if code != 1 || !strings.Contains(stderr, `row 24, feature "x5": null`) {
		t.Errorf("reject: exit %d, %s", code, stderr)
	}
}

// Every output format has the same bits, and they are those of decode, project and encode on the same rows in other
// batches, as in the daemon.
func TestTransformBits(t *testing.T) {
	path := fitted(t, wine, "lda")
	dir := t.TempDir()
	var want []float32
	for _, suffix := range []string{".parquet", ".arrow", ".arrows"} {
		out := filepath.Join(dir, "out"+suffix)
		must(t, "transform", "--model", path, "--data", wine, "-o", out)
		got := embedding(t, out)
		if want == nil {
			want = got
		}
		equalBits(t, suffix, got, want)
	}
	if len(want) != 178*2 {
		t.Fatalf("%d values, want %d", len(want), 178*2)
	}
	out := filepath.Join(dir, "out.csv.gz")
	must(t, "transform", "--model", path, "--data", wine, "-o", out)
	var fromCSV []float32
	for i, row := range readCSV(t, out) {
		if i == 0 {
			if strings.Join(row, " ") != "label embedding_0 embedding_1" {
				t.Errorf("CSV header %v", row)
			}
			continue
		}
		for _, s := range row[1:] {
			v, err := strconv.ParseFloat(s, 32)
			if err != nil {
				t.Fatal(err)
			}
			fromCSV = append(fromCSV, float32(v))
		}
	}
	equalBits(t, "csv", fromCSV, want)
	equalBits(t, "messages of 7 rows", inMessages(t, path, wine, 7), want)
}

// inMessages projects a file's rows in messages of a number of rows.
func inMessages(t *testing.T, modelPath, data string, rows int64) (y []float32) {
	t.Helper()
	m, err := files.ReadModel(modelPath)
	if err != nil {
		t.Fatal(err)
	}
	contract, err := arrowio.NewContract(m.Features(), "label", "")
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := arrowio.NewDecoder(arrowio.Spec{Features: []string{"x*"}, Label: "label"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := file.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rec, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	for from := int64(0); from < rec.NumRows(); from += rows {
		part := rec.NewSlice(from, min(from+rows, rec.NumRows()))
		msg, err := arrowio.FromRecords(part.Schema(), part)
		part.Release()
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := decoder.Decode(msg, contract)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range decoded.Batches() {
			part := make([]float32, b.Rows()*m.Dim())
			if err := m.Project(part, modelRows(b)); err != nil {
				t.Fatal(err)
			}
			y = append(y, part...)
		}
	}
	return y
}

func equalBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %g, want %g", what, i, got[i], want[i])
		}
	}
}

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	raw, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var in io.Reader = raw
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(raw); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// In a pipe a batch is written before the next is read.
func TestTransformPipe(t *testing.T) {
	path := fitted(t, iris, "lda")
	r, err := file.Open(iris)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rec, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	stdin, feed := io.Pipe()
	drain, stdout := io.Pipe()
	done := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		e := &cli.Env{Stdin: stdin, Stdout: stdout, Stderr: &errs}
		code := dispatch(t.Context(), e, []string{"transform", "--model", path, "--data", "-", "-o", "-"})
		stdout.Close()
		done <- code
	}()
	in := file.NewWriter(feed, "feed")
	var out *file.Reader
	for round := range 3 {
		part := rec.NewSlice(int64(round*50), int64(round*50+50))
		if err := in.Write(part); err != nil {
			t.Fatal(err)
		}
		part.Release()
		if out == nil {
			if out, err = file.NewReader(drain, "drain"); err != nil {
				t.Fatal(err)
			}
		}
		got, err := out.Next() // the output arrives while the input is still open
		if err != nil {
			t.Fatal(err)
		}
		if got.NumRows() != 50 || got.NumCols() != 2 {
			t.Errorf("round %d: %d rows, %d columns", round, got.NumRows(), got.NumCols())
		}
		got.Release()
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	if _, err := out.Next(); err != io.EOF {
		t.Errorf("after the last batch: %v", err)
	}
	if code := <-done; code != 0 {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

func TestTransformOutputs(t *testing.T) {
	path := fitted(t, wbc, "lda")
	dir := t.TempDir()
	out := filepath.Join(dir, "out.csv")
	code, _, stderr := call(t.Context(), "transform", "--model", path, "--data", wbc, "-o", out, "--nulls", "reject")
	if _, err := os.Stat(out); code != 1 || !strings.Contains(stderr, `row 24, feature "x5": null`) || err == nil {
		t.Errorf("a missing value: exit %d, %s, output there: %v", code, stderr, err == nil)
	}
	for nulls, want := range map[string]int{"skip": 683, "impute": 699} {
		must(t, "transform", "--model", path, "--data", wbc, "-o", out, "--nulls", nulls)
		if got := len(readCSV(t, out)) - 1; got != want {
			t.Errorf("--nulls %s: %d rows, want %d", nulls, got, want)
		}
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--keep", "none"}, "embedding_0"},
		{[]string{"--keep", "label,x0", "--column", "y", "--columns"}, "x0 label y_0"},
	} {
		must(t, append([]string{"transform", "--nulls", "impute", "--model", path, "--data", wbc, "-o", out},
			c.flags...)...)
		if got := strings.Join(readCSV(t, out)[0], " "); got != c.want {
			t.Errorf("%v: columns %s, want %s", c.flags, got, c.want)
		}
	}
	empty := filepath.Join(dir, "empty.csv")
	os.WriteFile(empty, []byte("x0,x1,x2,x3,x4,x5,x6,x7,x8,name\n"), 0o644)
	must(t, "transform", "--model", path, "--data", empty, "-o", out)
	if rows := readCSV(t, out); len(rows) != 1 || strings.Join(rows[0], " ") != "name embedding_0" {
		t.Errorf("no rows in, %v out", rows)
	}
}

// An export lets anyone compute y = ((x - mean) / scale) · components.
func TestModelExport(t *testing.T) {
	path := fitted(t, wine, "lda")
	dir := t.TempDir()
	for _, suffix := range []string{".json", ".npz", ".csv"} {
		must(t, "model", "export", path, "-o", filepath.Join(dir, "m"+suffix))
	}
	curved := fitted(t, wine, "lda", "--landmarks", "30")
	for _, suffix := range []string{".npz", ".NPZ", ".csv", ".CSV"} {
		code, _, stderr := call(t.Context(), "model", "export", curved, "-o", filepath.Join(dir, "curved"+suffix))
		if code != 2 || !strings.Contains(stderr, "is not a single matrix: export it as .json") {
			t.Errorf("%s of a map that is no matrix: exit %d, %s", suffix, code, stderr)
		}
	}
	shown, _ := must(t, "model", "show", path, "--format", "json")
	raw, err := os.ReadFile(filepath.Join(dir, "m.json"))
	if err != nil || string(raw) != shown {
		t.Errorf("the JSON export differs from model show: %v", err)
	}
	var form struct {
		Mean, Scale []float64
		Components  [][]float64
		Method      string
		Dim         int
		Digest      string
	}
	if err := json.Unmarshal(raw, &form); err != nil {
		t.Fatal(err)
	}
	want := inMessages(t, path, wine, 1000)
	for i, row := range readCSV(t, wine)[1:] {
		y := make([]float64, form.Dim)
		for j := range form.Mean {
			x, err := strconv.ParseFloat(row[j], 64)
			if err != nil {
				t.Fatal(err)
			}
			for k := range y {
				y[k] += (x - form.Mean[j]) / form.Scale[j] * form.Components[j][k]
			}
		}
		for k := range y {
			if d := math.Abs(y[k] - float64(want[i*form.Dim+k])); d > 1e-5 {
				t.Fatalf("row %d: %g by the export, %g by the model", i, y[k], want[i*form.Dim+k])
			}
		}
	}
	table := readCSV(t, filepath.Join(dir, "m.csv"))
	if len(table) != 14 || strings.Join(table[0], " ") != "feature mean scale component_0 component_1" ||
		table[1][3] != strconv.FormatFloat(form.Components[0][0], 'g', -1, 64) {
		t.Errorf("CSV export begins %v", table[:2])
	}
	checkNPZ(t, filepath.Join(dir, "m.npz"), form.Components)
	text, _ := must(t, "model", "show", path)
	if !strings.Contains(text, form.Digest) || !strings.Contains(text, "13 features to 2") {
		t.Errorf("model show:\n%s", text)
	}
}

func checkNPZ(t *testing.T, path string, components [][]float64) {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	names := ""
	for _, f := range z.File {
		names += f.Name + " "
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		header := 10 + int(b[8]) + int(b[9])<<8
		if string(b[:8]) != "\x93NUMPY\x01\x00" || header%64 != 0 {
			t.Errorf("%s: magic %q, data at %d", f.Name, b[:8], header)
		}
		if f.Name == "components.npy" {
			if want := "'descr': '<f8', 'fortran_order': False, 'shape': (13,2,)"; !strings.Contains(
				string(b[:header]), want) {
				t.Errorf("header %q", b[10:header])
			}
			bits := uint64(0)
			for i := range 8 {
				bits |= uint64(b[header+8+i]) << (8 * i)
			}
			if got := math.Float64frombits(bits); got != components[0][1] {
				t.Errorf("components[0][1] is %g, want %g", got, components[0][1])
			}
		}
	}
	if names != "mean.npy scale.npy components.npy eigenvalues.npy unit.npy features.npy classes.npy method.npy "+
		"digest.npy " {
		t.Errorf("arrays %s", names)
	}
}

func TestMethods(t *testing.T) {
	stdout, _ := must(t, "methods", "--format", "json")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != len(fit.Methods()) {
		t.Errorf("%d lines for %d methods", len(lines), len(fit.Methods()))
	}
	for _, line := range lines {
		var m struct {
			Name, Title, Paper, Map, Streaming string
			Supervised                         bool
			Params                             []struct {
				Name, Default, Doc string
				Grid               []string
			}
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&m); err != nil || m.Name == "" || m.Title == "" || m.Paper == "" {
			t.Errorf("%s: %v", line, err)
		}
	}
	if stdout, _ := must(t, "methods"); !strings.Contains(stdout, "lda.ridge") {
		t.Errorf("no parameters in\n%s", stdout)
	}
}

func TestPlot(t *testing.T) {
	dir := t.TempDir()
	m := fitted(t, wine, "lda")
	for _, args := range [][]string{
		{"--data", wine, "--label", "label", "--model", m, "-o", filepath.Join(dir, "a.png")},
		{"--data", iris, "--label", "label", "--method", "lda", "-o", filepath.Join(dir, "b.svg")},
		{"--data", wbc, "--label", "label", "--method", "lda", "-o", filepath.Join(dir, "one-dimension.png")},
		{"--data", iris, "--method", "pca", "-o", filepath.Join(dir, "no-label.png")},
	} {
		must(t, append([]string{"plot"}, args...)...)
		if info, err := os.Stat(args[len(args)-1]); err != nil || info.Size() < 5000 {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Errors have the fix; a wrong command line has exit code 2.
func TestFileVerbErrors(t *testing.T) {
	dir := t.TempDir()
	m := fitted(t, wine, "lda")
	out := filepath.Join(dir, "out")
	words := filepath.Join(dir, "words.csv")
	os.WriteFile(words, []byte("x0,x1,label\n1,2,a\n3,n/k,b\n"), 0o644)
	pca := filepath.Join(dir, "pca.embedd")
	numbers := filepath.Join(dir, "numbers.csv")
	os.WriteFile(numbers, []byte("x0,x1\n1,2\n3,5\n2,2\n"), 0o644)
	must(t, "fit", "--data", numbers, "--method", "pca", "--dim", "1", "-o", pca)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"fit --data " + wine + " --label lable --method lda -o " + out, 2,
			`no column "lable" for --label (did you mean "label"?)`},
		{"fit --data " + wine + " --label label --method ldaa -o " + out, 2, "nearest is lda"},
		{"fit --data " + wine + " --method lda -o " + out, 2, "--label"},
		{"fit --data " + wine + " --label label --method lda --dim 7 -o " + out, 2, "give --dim 2 or less"},
		{"fit --data " + wine + " --label label --method lda --dim two -o " + out, 2, "--dim two"},
		{"fit --data " + wine + " --label label --method lda --set rigde=1 -o " + out, 2, "allowed: ridge"},
		{"fit --data " + wine + " --label label --method lda --scale log -o " + out, 2, "standard, minmax"},
		{"fit --data " + wine + " --label label --method lda", 2, "-o is required"},
		{"fit --data " + wine + " --label x0 --method lda -o " + out, 1, `column "x0"`},
		{"fit --data " + wine + " --label label --features y* --method lda -o " + out, 2, `"y*"`},
		{"fit --data none.csv --label label --method lda -o " + out, 1, "none.csv"},
		{"fit --data " + wine + " --label label --method lda -o " + dir + "/no/folder/m", 2, "there is no directory"},
		{"eval --data " + wine + " --label label --set .ridge=1", 2, "METHOD.NAME=VALUE"},
		{"eval --data " + wine + " --label label --dims 0", 2, "--dims 0"},
		{"eval --data " + wine + " --label label --splits 0", 2, "--splits 0"},
		{"eval --data " + wine + " --label label --train-fraction 1", 2, "--train-fraction"},
		{"eval --data " + wine + " --label label --train-fraction 0.3 --train-per-class 3", 2, "exclude each other"},
		{"transform --model " + m + " --data " + iris + " -o " + out + ".csv", 1, `"x4"`},
		{"transform --model " + pca + " --data " + words + " -o " + out + ".csv", 1,
			`line 3 holds "n/k"; leave a missing value empty, or name the word: --missing n/k`},
		{"transform --model " + wine + " --data " + iris + " -o " + out + ".csv", 1, "not a model file"},
		{"transform --model " + m + " --data " + wine + " -o " + out + ".xlsx", 1, ".parquet"},
		{"transform --model " + m + " --data - -o -", 1, "standard input is empty"},
		{"model show", 2, "argument is missing"},
		{"model frob x", 2, "unknown word"},
		{"model export " + m + " -o m.pkl", 2, ".npz"},
		{"plot --data " + wine + " --method pca -o x.gif", 2, ".png or .svg"},
		{"plot --data " + wine + " --model m --method pca -o x.png", 2, "one of --model and --method"},
		{"methods nothing", 2, "the methods are"},
	} {
		code, stdout, stderr := call(t.Context(), strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("embedd %s: exit %d, %q; want exit %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// TestSignalEndsOpening: a signal ends a verb in the first pass over CSV, which finds the types of its columns.
func TestSignalEndsOpening(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rows, err := os.ReadFile(wine)
	if err != nil {
		t.Fatal(err)
	}
	parts := t.TempDir()
	writeFile(t, parts, "a.csv", labelledRows(4))
	writeFile(t, parts, "b.csv", labelledRows(4))
	for path, e := range map[string]*cli.Env{wine: {}, parts: {}, "-": {Stdin: bytes.NewReader(rows)}} {
		if _, err := files.Open(ctx, e, path, file.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A column of lists is as many features as it has elements, and the model names them.
func TestListFeatures(t *testing.T) {
	r, err := file.Open(iris)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rec, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	packed, err := dataset.Pack(rec, "pixels", []string{"label"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Release()
	for _, suffix := range []string{".parquet", ".arrow"} {
		path := filepath.Join(t.TempDir(), "lists"+suffix)
		w, err := file.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(packed); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		m, err := files.ReadModel(fitted(t, path, "lda"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(m.Features(), " "); got != "pixels[0] pixels[1] pixels[2] pixels[3]" {
			t.Errorf("%s: features %s", suffix, got)
		}
	}
}

// modelRows converts the features of a batch, without a copy.
func modelRows(b *arrowio.Batch) model.Rows {
	blocks := b.Features()
	r := model.Rows{N: b.Rows(), Blocks: make([]model.Block, len(blocks))}
	for i, k := range blocks {
		r.Blocks[i] = model.Block(k)
	}
	return r
}

// TestNullsOfTheFit: transform and a pipeline do with missing features what the fit did, a flag or a key overrides it,
// and a model that does not say it works as before.
func TestNullsOfTheFit(t *testing.T) {
	dir := t.TempDir()
	rows := writeFile(t, dir, "rows.csv", labelledRows(60)+"59,,1,a\n60,1e300,1,b\n")
	fit := func(flags ...string) string {
		path := filepath.Join(dir, "m.embedd")
		verb(t, 0, append([]string{"fit", "--data", rows, "--label", "label", "--features", "x,y", "--method", "lda", "-o",
			path}, flags...)...)
		return path
	}
	transform := func(flags ...string) (rows int, stderr string) {
		out := filepath.Join(dir, "out.csv")
		os.Remove(out)
		_, _, stderr = call(t.Context(), append([]string{"transform", "--data", filepath.Join(dir, "rows.csv"), "--model",
			filepath.Join(dir, "m.embedd"), "-o", out}, flags...)...)
		text, _ := os.ReadFile(out) // it is absent if rows are refused
		return max(0, strings.Count(string(text), "\n")-1), stderr
	}
	policy := func(key string) plugin.Nulls {
		t.Helper()
		path := writeFile(t, dir, "embedd.yaml", "pipelines: {p: {input: {subject: in.p}, schema: {features: [x, y], label: "+
			"label"+key+"}, output: {subject: out.p}, model: {file: "+filepath.Join(dir, "m.embedd")+"}}}\n")
		c := sure(config.Load(path))
		return sure(engine.Pipelines(c))[0].Stage.Nulls
	}
	for _, c := range []struct {
		fit, flag, key string
		rows           int
		nulls          plugin.Nulls
	}{
		{"", "", "", 62, plugin.NullsImpute},
		{"skip", "", "", 60, plugin.NullsSkip},
		{"", "reject", ", nulls: reject", 0, plugin.NullsReject},
		{"skip", "impute", ", nulls: impute", 62, plugin.NullsImpute},
	} {
		var of, with []string
		if c.fit != "" {
			of = []string{"--nulls", c.fit}
		}
		if c.flag != "" {
			with = []string{"--nulls", c.flag}
		}
		fit(of...)
		if n, stderr := transform(with...); n != c.rows {
			t.Errorf("fit %q, transform %q: %d rows, want %d: %s", c.fit, c.flag, n, c.rows, stderr)
		}
		if got := policy(c.key); got != c.nulls {
			t.Errorf("fit %q, schema.nulls%q: %s, want %s", c.fit, c.key, got, c.nulls)
		}
	}
	m := sure(files.ReadModel(fit()))
	note := m.Note()
	note.Nulls = ""
	if err := files.WriteWhole(filepath.Join(dir, "m.embedd"), func(w io.Writer) error {
		return model.Write(w, m.WithNote(note))
	}); err != nil {
		t.Fatal(err)
	}
	if n, stderr := transform(); n != 0 || !strings.Contains(stderr, "row 61, feature \"x\"") ||
		policy("") != plugin.NullsReject {
		t.Errorf("without a note: %d rows, %s, %s", n, policy(""), stderr)
	}
	note.Nulls = "other"
	var file bytes.Buffer
	if err := model.Write(&file, m.WithNote(note)); err != nil {
		t.Fatal(err)
	}
	if _, err := model.Read(&file); err == nil || !strings.Contains(err.Error(), `nulls "other" is unknown`) {
		t.Errorf("an unknown policy: %v", err)
	}
}
