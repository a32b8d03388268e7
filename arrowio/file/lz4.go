package file

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// parquet-go v0.32 decompresses a LZ4_RAW page that compressed to no less than a third into a buffer that it then
// loses, so the values become zeros. Such a file is therefore read from an uncompressed copy in the temporary folder.

// hasLZ4 reports whether a file has such pages. It returns an error for the older LZ4 codec, whose framing was never
// specified.
func hasLZ4(f *parquet.File) (bool, error) {
	found := false
	for _, g := range f.Metadata().RowGroups {
		for _, c := range g.Columns {
			switch c.MetaData.Codec {
			case format.Lz4Raw:
				found = true
			case format.Lz4:
				return false, fmt.Errorf("column %q is compressed with the LZ4 codec of before 2021, which has no specification: "+
					"write it with Zstandard (pyarrow.parquet.write_table(pyarrow.parquet.read_table(FILE), FILE, compression=%q))",
					strings.Join(c.MetaData.PathInSchema, "."), "zstd")
			}
		}
	}
	return found, nil
}

// uncompressedCopy writes the copy and returns it with its length. The file has no name, or is removed when it is
// closed. f is not used afterwards.
func uncompressedCopy(file *os.File, size int64, f *parquet.File) (copied *os.File, length int64, err error) {
	if copied, err = os.CreateTemp("", "embedd-*.parquet"); err != nil {
		return nil, 0, fmt.Errorf("LZ4 pages are decompressed into a temporary file: %w: set TMPDIR to another folder", err)
	}
	os.Remove(copied.Name()) // on systems where an open file can be removed
	u := pageCopier{from: file, size: size, to: bufio.NewWriterSize(copied, 1<<16)}
	meta := f.Metadata()
	u.write([]byte("PAR1"))
	for i := range meta.RowGroups {
		g := &meta.RowGroups[i]
		g.FileOffset = 0
		for j := range g.Columns {
			c := &g.Columns[j]
			c.FileOffset, c.OffsetIndexOffset, c.ColumnIndexOffset, c.MetaData.BloomFilterOffset = 0, 0, 0, 0
			if err := u.chunk(&c.MetaData); err != nil {
				removeTemporary(copied)
				return nil, 0, fmt.Errorf("column %q: %w", strings.Join(c.MetaData.PathInSchema, "."), err)
			}
		}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err == nil {
		u.write(footer)
		u.write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), "PAR1"...))
		err = u.to.Flush() // and the first error so far
	}
	if err != nil {
		removeTemporary(copied)
		return nil, 0, fmt.Errorf("LZ4 pages are decompressed into a temporary file: %w: set TMPDIR to another folder", err)
	}
	return copied, u.at, nil
}

func removeTemporary(file *os.File) {
	file.Close()
	os.Remove(file.Name())
}

// pageCopier copies the column chunks of a file.
type pageCopier struct {
	from *os.File
	size int64
	read int64
	to   *bufio.Writer
	at   int64
}

func (u *pageCopier) write(b []byte) {
	u.to.Write(b) // the writer keeps the first error
	u.at += int64(len(b))
}

// chunk copies the pages of a column chunk and updates their positions in m.
func (u *pageCopier) chunk(m *format.ColumnMetaData) error {
	start, n := m.DataPageOffset, m.TotalCompressedSize
	if d := m.DictionaryPageOffset; d > 0 {
		start = min(start, d)
	}
	// Overlapping chunks would decompress one page many times (Invariant 6).
	if u.read += n; start < 4 || n < 0 || start > u.size || n > u.size-start || u.read > u.size {
		return errors.New("its pages are outside the file, or in those of another column")
	}
	in := io.NewSectionReader(u.from, start, n)
	begin := u.at
	m.DataPageOffset = begin
	if m.DictionaryPageOffset > 0 {
		m.DictionaryPageOffset = begin
	}
	if m.Codec != format.Lz4Raw {
		copied, err := io.Copy(u.to, in)
		u.at += copied
		return err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(in, b); err != nil {
		return err
	}
	for len(b) > 0 {
		r := new(thrift.CompactProtocol).NewReaderFromBytes(b)
		var h format.PageHeader
		if err := thrift.NewDecoder(r).Decode(&h); err != nil {
			return fmt.Errorf("the header of a page: %w", err)
		}
		b = b[r.BytesRead():]
		if h.CompressedPageSize < 0 || int(h.CompressedPageSize) > len(b) {
			return errors.New("a page is longer than its column")
		}
		page, err := unpackPage(&h, b[:h.CompressedPageSize])
		if err != nil {
			return err
		}
		b = b[h.CompressedPageSize:]
		h.CompressedPageSize, h.UncompressedPageSize, h.CRC = int32(len(page)), int32(len(page)), 0
		header, err := thrift.Marshal(new(thrift.CompactProtocol), &h)
		if err != nil {
			return err
		}
		if h.Type != format.DictionaryPage && m.DataPageOffset == begin {
			m.DataPageOffset = u.at
		}
		u.write(header)
		u.write(page)
	}
	m.Codec, m.TotalCompressedSize, m.TotalUncompressedSize = format.Uncompressed, u.at-begin, u.at-begin
	return nil
}

// unpackPage returns the bytes of a page. The levels of version 2 are in front of the compressed part.
func unpackPage(h *format.PageHeader, b []byte) ([]byte, error) {
	size, levels := int(h.UncompressedPageSize), 0
	if h.DataPageHeaderV2.Valid {
		v := &h.DataPageHeaderV2.V
		if v.IsCompressed.Valid && !v.IsCompressed.V {
			return b, nil
		}
		v.IsCompressed = thrift.New(false)
		levels = int(v.DefinitionLevelsByteLength) + int(v.RepetitionLevelsByteLength)
		if v.DefinitionLevelsByteLength < 0 || v.RepetitionLevelsByteLength < 0 || levels > min(len(b), size) {
			return nil, errors.New("the levels of a page are longer than the page")
		}
	}
	const most = 255 // most bytes that one byte of LZ4 can expand to
	if size < 0 || size > levels+most*(len(b)-levels) {
		return nil, fmt.Errorf("a page of %d bytes declares %d decompressed", len(b), size)
	}
	page := slices.Grow([]byte(nil), size)[:size]
	copy(page, b[:levels])
	if size == levels {
		return page, nil
	}
	n, err := lz4.UncompressBlock(b[levels:], page[levels:])
	if err != nil || n != size-levels {
		return nil, fmt.Errorf("a page does not decompress to its %d bytes: the file is damaged", size)
	}
	return page, nil
}
