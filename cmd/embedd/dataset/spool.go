package dataset

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
)

// spool has rows in a temporary file, one after the other as float64. It is a model.RowReader.
type spool struct {
	file    *os.File
	wide    int       // numbers of a row in the file
	columns []int     // those that are read
	bytes   []byte    // of rows that are written
	pool    sync.Pool // of *[]byte
}

// newSpool creates the file. It has no name, or is removed by close.
func newSpool(wide int) (*spool, error) {
	f, err := os.CreateTemp("", "embedd-*.rows")
	if err != nil {
		return nil, spoolError(err)
	}
	os.Remove(f.Name()) // on systems where an open file can be removed
	s := &spool{file: f, wide: wide}
	for j := range wide {
		s.columns = append(s.columns, j)
	}
	return s, nil
}

func spoolError(err error) error {
	return fmt.Errorf("rows that do not fit into memory are kept in a temporary file: %w: set TMPDIR to a folder with "+
		"room for eight bytes a number", err)
}

// write appends whole rows.
func (s *spool) write(x []float64) error {
	for part := range slices.Chunk(x, 1<<15) {
		s.bytes = s.bytes[:0]
		for _, v := range part {
			s.bytes = binary.LittleEndian.AppendUint64(s.bytes, math.Float64bits(v))
		}
		if _, err := s.file.Write(s.bytes); err != nil {
			return spoolError(err)
		}
	}
	return nil
}

// ReadRows fills dst with rows, from row from on.
func (s *spool) ReadRows(dst []float64, from int) error {
	width := len(s.columns)
	const part = 1 << 18 // bytes read at a time
	step := max(1, part/8/s.wide)
	held, _ := s.pool.Get().(*[]byte)
	if held == nil {
		b := make([]byte, step*s.wide*8)
		held = &b
	}
	defer s.pool.Put(held)
	for rows := len(dst) / width; rows > 0; {
		n := min(rows, step)
		b := (*held)[:n*s.wide*8]
		if _, err := s.file.ReadAt(b, int64(from)*int64(s.wide)*8); err != nil {
			return fmt.Errorf("the temporary file of rows: %w", err)
		}
		for i := range n {
			row := b[i*s.wide*8:]
			for j, at := range s.columns {
				dst[i*width+j] = math.Float64frombits(binary.LittleEndian.Uint64(row[8*at:]))
			}
		}
		dst, from, rows = dst[n*width:], from+n, rows-n
	}
	return nil
}

func (s *spool) close() {
	s.file.Close()
	os.Remove(s.file.Name())
}
