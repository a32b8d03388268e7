package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/embedd/embedd/model"
)

// The USPS digits, 9298 images of 16 x 16 pixels in four shades, on one sheet: 100 in a line, class by class. README.md
// has their source.
//
//go:embed usps.png
var sheet []byte

const (
	side      = 16
	sheetLine = 100
	uspsRows  = 7000 // images of a stream; the others are fresh rows
)

// uspsCounts are the images of each digit.
var uspsCounts = [10]int{1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821}

// images returns all images, one in each row, and their digits.
var images = sync.OnceValues(func() (*model.Data, error) {
	picture, err := png.Decode(bytes.NewReader(sheet))
	if err != nil {
		return nil, fmt.Errorf("usps.png: %w", err)
	}
	shades, ok := picture.(*image.Paletted)
	if !ok {
		return nil, fmt.Errorf("usps.png is a %T, not a picture with a palette", picture)
	}
	d := &model.Data{M: side * side}
	for digit, count := range uspsCounts {
		d.Classes = append(d.Classes, strconv.Itoa(digit))
		for range count {
			left, top := d.N%sheetLine*side, d.N/sheetLine*side
			for i := range side * side {
				shade := shades.ColorIndexAt(left+i%side, top+i/side)
				d.X = append(d.X, float64(shade)/float64(len(shades.Palette)-1))
			}
			d.Y = append(d.Y, digit)
			d.N++
		}
	}
	return d, nil
})

// digits is the stream of digits: each image upright, and then all of them again, rotated by 90 degrees.
type digits struct {
	all    *model.Data
	stream []int // images in the order of the stream
	turned int   // the first rotated row
	kept   []int // images that are never in the stream
	at     int
}

func openDigits(s stream, rows int, seed uint64) (*digits, error) {
	all, err := images()
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 2))
	order := r.Perm(all.N)
	first, second := order[:min(uspsRows, rows/2)], []int(nil)
	for _, i := range r.Perm(len(first)) {
		second = append(second, first[i])
	}
	d := &digits{all: all, kept: order[uspsRows:]}
	d.stream = append(append(d.stream, first...), second...)
	d.turned = rowOf(s.events[0].start, len(d.stream))
	return d, nil
}

func (d *digits) rows() int { return len(d.stream) }

func (d *digits) same(a, b int) bool { return a >= d.turned == (b >= d.turned) }

func (d *digits) next() *model.Data {
	rows := d.pick(d.stream[d.at:d.at+batchRows], d.at >= d.turned)
	d.at += batchRows
	return rows
}

// fresh returns at most half of the images outside the stream as references and half as queries.
func (d *digits) fresh(r *rand.Rand, at, refs, queries int) (ref, query *model.Data) {
	half := len(d.kept) / 2
	order := make([]int, len(d.kept))
	for i, j := range r.Perm(len(d.kept)) {
		order[i] = d.kept[j]
	}
	return d.pick(order[:min(refs, half)], at >= d.turned), d.pick(order[half:half+min(queries, half)], at >= d.turned)
}

// pick copies images, rotated or not.
func (d *digits) pick(which []int, turned bool) *model.Data {
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
