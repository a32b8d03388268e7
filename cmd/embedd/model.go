package main

import (
	"archive/zip"
	"bufio"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/stream/registry"
)

func modelCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model ls|show|diff|pin|unpin|rollback|export NAME",
		Short: "the models of pipelines: what there is, what is in one, which of them is live",
	}
	cmd.AddCommand(modelLsCommand(e), modelShowCommand(e), modelDiffCommand(e), modelPinCommand(e),
		modelUnpinCommand(e), modelRollbackCommand(e), modelExportCommand(e))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usagef("model: say what to do: usage: %s", cmd.UseLine())
	}
	return cmd
}

func modelShowCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "what is in a model: a file, or a version or pipeline in the store",
		Args: arguments(1, 1), ValidArgsFunction: offerFiles,
	}
	f := flagsOf(cmd)
	where := f.store()
	out := f.output(e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		m, err := findModel(ctx, e, names[0], where)
		if err != nil {
			return err
		}
		if out.json {
			return out.object(m)
		}
		return printModel(out, m)
	}
	return cmd
}

func printModel(out *output, m *model.Model) error {
	t := newTable(out.w)
	if v := m.Note().Version; v != "" {
		t.row("version", v)
	}
	t.row("digest", m.Digest())
	t.row("method", m.Method()+settings(m.Params()))
	t.row("map", fmt.Sprintf("%s, %d features to %d", m.Map(), m.M(), m.Dim()))
	t.row("informative", fmt.Sprintf("%d of %d outputs", min(m.InformativeRank(), m.Dim()), m.Dim()))
	if len(m.Eigenvalues()) > 0 {
		t.row("eigenvalues", numbers(m.Eigenvalues(), 8))
	}
	t.row("rows", m.Rows())
	if classes := m.Classes(); len(classes) > 0 {
		t.row("classes", fmt.Sprintf("%d: %s", len(classes), listed(classes)))
	}
	note := m.Note()
	if !note.Created.IsZero() {
		t.row("created", note.Created.Format("2006-01-02T15:04:05Z07:00"))
	}
	if note.Epoch > 0 {
		t.row("epoch", note.Epoch)
	}
	for _, key := range slices.Sorted(maps.Keys(note.Source)) {
		t.row("source "+key, note.Source[key])
	}
	if m.Unit() {
		t.row("scale", "each row is divided by its Euclidean norm first")
	}
	if err := t.flush(); err != nil {
		return err
	}
	components, d := m.Components(), m.Dim()
	if components == nil {
		return nil
	}
	const maxRows, maxColumns = 20, 5
	out.printf("\n")
	header := []any{"FEATURE", "MEAN", "SCALE"}
	for k := range min(d, maxColumns) {
		header = append(header, fmt.Sprintf("EMBEDDING_%d", k))
	}
	t = out.table(header...)
	mean, scale := m.Mean(), m.Scale()
	for j, name := range m.Features() {
		if j == maxRows {
			t.row(fmt.Sprintf("... %d more", m.M()-maxRows))
			break
		}
		row := []any{name, fmt.Sprintf("%.6g", mean[j]), fmt.Sprintf("%.6g", scale[j])}
		for k := range min(d, maxColumns) {
			row = append(row, fmt.Sprintf("% .6g", components[j*d+k]))
		}
		t.row(row...)
	}
	return t.flush()
}

// findModel reads a model from a file, or where there is no file of that name from the store: a version, or a
// pipeline for its live model.
func findModel(ctx context.Context, e *env, name string, where *storeFlags) (*model.Model, error) {
	m, err := readModel(name)
	if !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, "/.") {
		return m, err
	}
	store, done, err := where.open(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("no file is named %s, and the model store cannot be asked: %w", name, err)
	}
	defer done()
	return registry.Read(ctx, store, name)
}

func modelExportCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "export NAME", Short: "write a model in a form that other programs read",
		Args: arguments(1, 1), ValidArgsFunction: offerFiles,
	}
	f := flagsOf(cmd)
	where := f.store()
	path := f.StringP("output", "o", "",
		"`FILE` that is written: .embedd (a model file), .json, .npz (NumPy) or .csv (a linear map: feature, mean, scale, components); nothing is JSON on standard output")
	out := f.output(e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		m, err := findModel(ctx, e, names[0], where)
		if err != nil {
			return err
		}
		if *path == "" || *path == "-" {
			return out.object(m)
		}
		var write func(io.Writer, *model.Model) error
		switch strings.ToLower(filepath.Ext(*path)) {
		case ".embedd":
			write = model.Write
		case ".json":
			write = func(w io.Writer, m *model.Model) error { return json.NewEncoder(w).Encode(m) }
		case ".npz":
			write = writeNPZ
		case ".csv":
			write = writeModelCSV
		default:
			return usagef("model export: -o %s: the name ends in .embedd, .json, .npz or .csv", *path)
		}
		if ext := filepath.Ext(*path); m.Components() == nil && (ext == ".npz" || ext == ".csv") {
			return usagef("model export: a map of kind %s is more than one matrix: export it as .json", m.Map())
		}
		return writeWhole(*path, func(file io.Writer) error {
			b := bufio.NewWriter(file)
			if err := write(b, m); err != nil {
				return err
			}
			return b.Flush()
		})
	}
	return cmd
}

// writeModelCSV writes a line a feature: y = ((x - mean) / scale) · components.
func writeModelCSV(w io.Writer, m *model.Model) error {
	if m.Unit() {
		return fmt.Errorf("scale unit divides each row by its norm, which a table of means and scales does not say: export it as .json or .npz")
	}
	c := csv.NewWriter(w)
	header := []string{"feature", "mean", "scale"}
	for k := range m.Dim() {
		header = append(header, fmt.Sprintf("component_%d", k))
	}
	c.Write(header) // the first error stays with the writer
	mean, scale, components := m.Mean(), m.Scale(), m.Components()
	for j, name := range m.Features() {
		row := []string{name}
		for _, v := range append([]float64{mean[j], scale[j]}, components[j*m.Dim():(j+1)*m.Dim()]...) {
			row = append(row, strconv.FormatFloat(v, 'g', -1, 64))
		}
		c.Write(row)
	}
	c.Flush()
	return c.Error()
}

// writeNPZ writes what numpy.load reads without pickle: a zip archive of .npy files. Text is UTF-32, NumPy's own form.
// A row x gives y = ((x - mean) / scale) @ components; with unit = 1, x is divided by its Euclidean norm first.
func writeNPZ(w io.Writer, m *model.Model) error {
	z := zip.NewWriter(w)
	unit := 0.0
	if m.Unit() {
		unit = 1
	}
	floats := []struct {
		name  string
		shape []int
		data  []float64
	}{
		{"mean", []int{m.M()}, m.Mean()},
		{"scale", []int{m.M()}, m.Scale()},
		{"components", []int{m.M(), m.Dim()}, m.Components()},
		{"eigenvalues", []int{len(m.Eigenvalues())}, m.Eigenvalues()},
		{"unit", nil, []float64{unit}},
	}
	for _, a := range floats {
		if err := writeNPY(z, a.name, "<f8", a.shape, a.data); err != nil {
			return err
		}
	}
	texts := []struct {
		name  string
		shape []int
		texts []string
	}{
		{"features", []int{m.M()}, m.Features()},
		{"classes", []int{len(m.Classes())}, m.Classes()},
		{"method", nil, []string{m.Method()}},
		{"digest", nil, []string{m.Digest()}},
	}
	for _, a := range texts {
		width, points := utf32(a.texts)
		if err := writeNPY(z, a.name, fmt.Sprintf("<U%d", width), a.shape, points); err != nil {
			return err
		}
	}
	return z.Close()
}

// utf32 pads every text with zeros to the longest.
func utf32(texts []string) (width int, points []int32) {
	width = 1
	for _, s := range texts {
		width = max(width, len([]rune(s)))
	}
	points = make([]int32, width*len(texts))
	for i, s := range texts {
		copy(points[i*width:], []rune(s))
	}
	return width, points
}

// writeNPY writes one array in NumPy's format 1.0: magic, version, length of the header, the header as a Python literal
// padded to 64 bytes, the data in C order. No shape is a scalar.
func writeNPY(z *zip.Writer, name, dtype string, shape []int, data any) error {
	w, err := z.Create(name + ".npy")
	if err != nil {
		return err
	}
	dims := ""
	for _, n := range shape {
		dims += fmt.Sprintf("%d,", n)
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, dims)
	const before = 10 // magic, version and length
	header += strings.Repeat(" ", 63-(before+len(header))%64) + "\n"
	if _, err := io.WriteString(w, "\x93NUMPY\x01\x00"); err != nil {
		return err
	}
	if err := binary.Write(w, binary.LittleEndian, uint16(len(header))); err != nil {
		return err
	}
	if _, err := io.WriteString(w, header); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, data)
}
