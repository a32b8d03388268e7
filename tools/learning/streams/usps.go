package streams

import (
	"bytes"
	_ "embed"
	"fmt"
	"image"
	"image/png"
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
