package streams

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"github.com/embedd/embedd/cmd/embedd/data"
	"github.com/embedd/embedd/model"
)

// dataset is a file of rows, those of a stream and others that are fresh.
type dataset struct {
	read   func() (*model.Data, error)
	stream int // rows of a stream
}

var (
	usps  = dataset{images, 7000}
	usps8 = dataset{sync.OnceValues(halved), 7000}
	demo  = dataset{sync.OnceValues(digits), 1250}
)

// recordedStream is a stream of the rows of a file. If it has an event, there the same rows begin again, rotated by 90
// degrees.
type recordedStream struct {
	all    *model.Data
	stream []int // rows in the order of the stream
	turned int   // the first rotated row
	kept   []int // rows that are never in the stream
	at     int
}

func openRecorded(s Stream, rows int, seed uint64) (*recordedStream, error) {
	all, err := s.real.read()
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 2))
	order := r.Perm(all.N)
	d := &recordedStream{all: all, kept: order[s.real.stream:]}
	if len(s.Events) == 0 {
		d.stream = order[:min(s.real.stream, rows)]
		d.turned = len(d.stream)
		if s.sorted {
			turn := r.Perm(len(all.Classes)) // which class comes when
			slices.SortStableFunc(d.stream, func(i, j int) int { return turn[all.Y[i]] - turn[all.Y[j]] })
		}
		return d, nil
	}
	first, second := order[:min(s.real.stream, rows/2)], []int(nil)
	for _, i := range r.Perm(len(first)) {
		second = append(second, first[i])
	}
	d.stream = append(append(d.stream, first...), second...)
	d.turned = RowOf(s.Events[0].Start, len(d.stream))
	return d, nil
}

func (d *recordedStream) Rows() int { return len(d.stream) }

func (d *recordedStream) IsSame(a, b int) bool { return a >= d.turned == (b >= d.turned) }

func (d *recordedStream) Next() *model.Data {
	rows := d.pick(d.stream[d.at:d.at+BatchRows], d.at >= d.turned)
	d.at += BatchRows
	return rows
}

// Fresh returns at most half of the rows outside the stream as references and half as queries.
func (d *recordedStream) Fresh(r *rand.Rand, at, refs, queries int) (ref, query *model.Data) {
	half := len(d.kept) / 2
	order := make([]int, len(d.kept))
	for i, j := range r.Perm(len(d.kept)) {
		order[i] = d.kept[j]
	}
	turned := at >= d.turned && d.turned < len(d.stream)
	return d.pick(order[:min(refs, half)], turned), d.pick(order[half:half+min(queries, half)], turned)
}

// pick copies rows, rotated or not.
func (d *recordedStream) pick(which []int, turned bool) *model.Data {
	rows := &model.Data{N: len(which), M: d.all.M, Classes: d.all.Classes}
	for _, i := range which {
		image := d.all.X[i*d.all.M : (i+1)*d.all.M]
		if turned {
			image = quarter(image)
		}
		rows.X = append(rows.X, image...)
		rows.Y = append(rows.Y, d.all.Y[i])
	}
	return rows
}

// quarter rotates an image clockwise by 90 degrees.
func quarter(image []float64) []float64 {
	turned := make([]float64, len(image))
	for i, v := range image {
		row, column := i/side, i%side
		turned[column*side+side-1-row] = v
	}
	return turned
}

// halved returns the images with half as many pixels in a row and in a column.
func halved() (*model.Data, error) {
	all, err := images()
	if err != nil {
		return nil, err
	}
	const small = side / 2
	d := &model.Data{N: all.N, M: small * small, Y: all.Y, Classes: all.Classes, X: make([]float64, all.N*small*small)}
	for i := range all.N {
		for p := range all.M {
			row, column := p/side/2, p%side/2
			d.X[i*d.M+row*small+column] += all.X[i*all.M+p] / 4
		}
	}
	return d, nil
}

// digits returns the rows that the demo ships.
func digits() (*model.Data, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(data.Digits))
	if err != nil {
		return nil, fmt.Errorf("digits of the demo: %w", err)
	}
	lines := csv.NewReader(unzipped)
	names, err := lines.Read()
	if err != nil {
		return nil, fmt.Errorf("digits of the demo: %w", err)
	}
	d := &model.Data{M: len(names) - 1}
	for class := range 10 {
		d.Classes = append(d.Classes, strconv.Itoa(class))
	}
	for {
		line, err := lines.Read()
		if err == io.EOF {
			return d, nil
		}
		if err != nil {
			return nil, fmt.Errorf("digits of the demo: %w", err)
		}
		for _, field := range line[:d.M] {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return nil, fmt.Errorf("digits of the demo: %w", err)
			}
			d.X = append(d.X, v)
		}
		class, err := strconv.Atoi(line[d.M])
		if err != nil {
			return nil, fmt.Errorf("digits of the demo: %w", err)
		}
		d.Y, d.N = append(d.Y, class), d.N+1
	}
}
