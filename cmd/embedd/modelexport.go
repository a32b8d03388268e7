package main

import (
	"archive/zip"
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/onnx"
)

func modelExportCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("export NAME", "write a model in a format for other programs", 1, 1)
	where := client.StoreFlags(f)
	cmd.ValidArgsFunction = where.CompleteModels
	path := f.StringP("output", "o", "", "`FILE` to write: .embedd (a model file), .onnx, .json, .npz (NumPy) or "+
		".csv (a linear map: feature, mean, scale, components); without it JSON on standard output")
	out := report.Flag(f, e)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		m, err := findModel(ctx, e, names[0], where)
		if err != nil {
			return err
		}
		if *path == "" || *path == "-" {
			return out.Object(m)
		}
		var write func(io.Writer, *model.Model) error
		ext := strings.ToLower(filepath.Ext(*path))
		switch ext {
		case ".embedd":
			write = model.Write
		case ".json":
			write = func(w io.Writer, m *model.Model) error { return json.NewEncoder(w).Encode(m) }
		case ".onnx":
			write = onnx.Write
		case ".npz":
			write = writeNPZ
		case ".csv":
			write = writeModelCSV
		default:
			return cli.Usagef("model export: -o %s: the name ends in .embedd, .onnx, .json, .npz or .csv", *path)
		}
		if m.Components() == nil && (ext == ".npz" || ext == ".csv") {
			return cli.Usagef("model export: a map of kind %s is not a single matrix: export it as .json", m.Map())
		}
		if err := files.WriteWhole(*path, func(file io.Writer) error {
			b := bufio.NewWriter(file)
			if err := write(b, m); err != nil {
				return err
			}
			return b.Flush()
		}); err != nil {
			return err
		}
		e.Infof("%s %s, %d features to %d, to %s", m.Method(), m.Digest()[:16], m.M(), m.Dim(), *path)
		return nil
	}
	return cmd
}

// writeModelCSV writes a line for each feature: y = ((x - mean) / scale) · components.
func writeModelCSV(w io.Writer, m *model.Model) error {
	if m.Unit() {
		return fmt.Errorf("scale unit divides each row by its norm, which CSV cannot express: export it as .json or .npz")
	}
	c := csv.NewWriter(w)
	header := []string{"feature", "mean", "scale"}
	for k := range m.Dim() {
		header = append(header, fmt.Sprintf("component_%d", k))
	}
	c.Write(header) // c.Error returns the first error
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

// writeNPZ writes a zip archive of .npy files, which numpy.load reads without pickle. Text is UTF-32. A row x gives y =
// ((x - mean) / scale) @ components; with unit = 1, x is divided by its Euclidean norm first.
func writeNPZ(w io.Writer, m *model.Model) error {
	z := zip.NewWriter(w)
	unit := 0.0
	if m.Unit() {
		unit = 1
	}
	numbers := func(name string, shape []int, data ...float64) error { return writeNPY(z, name, "<f8", shape, data) }
	texts := func(name string, shape []int, data ...string) error {
		width, points := utf32(data)
		return writeNPY(z, name, fmt.Sprintf("<U%d", width), shape, points)
	}
	return cmp.Or(numbers("mean", []int{m.M()}, m.Mean()...),
		numbers("scale", []int{m.M()}, m.Scale()...),
		numbers("components", []int{m.M(), m.Dim()}, m.Components()...),
		numbers("eigenvalues", []int{len(m.Eigenvalues())}, m.Eigenvalues()...),
		numbers("unit", nil, unit),
		texts("features", []int{m.M()}, m.Features()...),
		texts("classes", []int{len(m.Classes())}, m.Classes()...),
		texts("method", nil, m.Method()),
		texts("digest", nil, m.Digest()),
		z.Close())
}

// utf32 encodes texts as UTF-32, padded with zeros to the longest.
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

// writeNPY writes an array in NumPy's format 1.0: magic, version, length of the header, the header as a Python literal
// padded to 64 bytes, the data in C order. A nil shape is a scalar.
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
	start := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	if _, err := w.Write(append(start, header...)); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, data)
}
