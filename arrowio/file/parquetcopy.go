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
// loses, so the values become zeros. It reads booleans in runs (the encoding RLE, as in pages of version 2) as if each
// run ended at a byte. A file with either is therefore read from a copy in the temporary folder, in which these columns
// are uncompressed and booleans are bits (PLAIN).

// needsCopy reports whether a file has such pages. It returns an error for the older LZ4 codec, whose framing was never
// specified.
func needsCopy(file *os.File, size int64, f *parquet.File) (found bool, err error) {
	u := pageCopier{from: file, size: size}
	for _, g := range f.Metadata().RowGroups {
		for _, c := range g.Columns {
			m := &c.MetaData
			switch {
			case m.Codec == format.Lz4:
				return false, fmt.Errorf("column %q is compressed with the LZ4 codec of before 2021, which has no specification: "+
					"write it with Zstandard (pyarrow.parquet.write_table(pyarrow.parquet.read_table(FILE), FILE, compression=%q))",
					strings.Join(m.PathInSchema, "."), "zstd")
			case m.Codec == format.Lz4Raw:
				found = true
			case m.Type == format.Boolean && !found && m.DataPageOffset > 0:
				in, err := u.section(m)
				if err == nil {
					err = eachPage(in, func(h *format.PageHeader, _ []byte) error {
						found = found || isRuns(h)
						return nil
					})
				}
				if err != nil {
					return false, fmt.Errorf("column %q: %w", strings.Join(m.PathInSchema, "."), err)
				}
			}
		}
	}
	return found, nil
}

// uncompressedCopy writes the copy and returns it with its length. The file has no name, or is removed when it is
// closed. f is not used afterwards.
func uncompressedCopy(file *os.File, size int64, f *parquet.File) (copied *os.File, length int64, err error) {
	if copied, err = os.CreateTemp("", "embedd-*.parquet"); err != nil {
		return nil, 0, fmt.Errorf("pages are decompressed into a temporary file: %w: set TMPDIR to another folder", err)
	}
	os.Remove(copied.Name()) // on systems where an open file can be removed
	u := pageCopier{from: file, size: size, to: bufio.NewWriterSize(copied, 1<<16)}
	meta, leaves := f.Metadata(), leavesOf(f.Root())
	u.write([]byte("PAR1"))
	for i := range meta.RowGroups {
		g := &meta.RowGroups[i]
		g.FileOffset = 0
		for j := range g.Columns {
			c := &g.Columns[j]
			c.FileOffset, c.OffsetIndexOffset, c.ColumnIndexOffset, c.MetaData.BloomFilterOffset = 0, 0, 0, 0
			if err := u.chunk(&c.MetaData, leaves[j]); err != nil {
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
		return nil, 0, fmt.Errorf("pages are decompressed into a temporary file: %w: set TMPDIR to another folder", err)
	}
	return copied, u.at, nil
}

// leavesOf returns the leaves of a column, in the order of a file.
func leavesOf(c *parquet.Column) (leaves []*parquet.Column) {
	if c.Leaf() {
		return []*parquet.Column{c}
	}
	for _, child := range c.Columns() {
		leaves = append(leaves, leavesOf(child)...)
	}
	return leaves
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

// section returns the pages of a column chunk.
func (u *pageCopier) section(m *format.ColumnMetaData) (*io.SectionReader, error) {
	start, n := m.DataPageOffset, m.TotalCompressedSize
	if d := m.DictionaryPageOffset; d > 0 {
		start = min(start, d)
	}
	// Overlapping chunks would decompress one page many times (Invariant 6).
	if u.read += n; start < 4 || n < 0 || start > u.size || n > u.size-start || u.read > u.size {
		return nil, errors.New("its pages are outside the file, or in those of another column")
	}
	return io.NewSectionReader(u.from, start, n), nil
}

// chunk copies the pages of a column chunk and updates their positions in m.
func (u *pageCopier) chunk(m *format.ColumnMetaData, leaf *parquet.Column) error {
	if m.DataPageOffset == 0 { // a row group without rows
		m.Codec, m.TotalCompressedSize, m.DictionaryPageOffset = format.Uncompressed, 0, 0
		return nil
	}
	in, err := u.section(m)
	if err != nil {
		return err
	}
	begin := u.at
	m.DataPageOffset = begin // or after a dictionary
	if m.DictionaryPageOffset > 0 {
		m.DictionaryPageOffset = begin
	}
	if m.Codec != format.Lz4Raw && m.Type != format.Boolean {
		copied, err := io.Copy(u.to, in)
		u.at += copied
		return err
	}
	err = eachPage(in, func(h *format.PageHeader, b []byte) error {
		page, err := unpackPage(h, b, m.Codec)
		if err == nil && m.Type == format.Boolean {
			page, err = u.plainBooleans(h, page, leaf)
		}
		if err != nil {
			return err
		}
		h.CompressedPageSize, h.UncompressedPageSize, h.CRC = int32(len(page)), int32(len(page)), 0
		header, err := thrift.Marshal(new(thrift.CompactProtocol), h)
		if err != nil {
			return err
		}
		u.write(header)
		u.write(page)
		if h.Type == format.DictionaryPage {
			m.DataPageOffset = u.at
		}
		return nil
	})
	m.Codec, m.TotalCompressedSize, m.TotalUncompressedSize = format.Uncompressed, u.at-begin, u.at-begin
	return err
}

// eachPage calls visit for each page of a column chunk.
func eachPage(in *io.SectionReader, visit func(h *format.PageHeader, b []byte) error) error {
	b := make([]byte, in.Size())
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
		n := int(h.CompressedPageSize)
		if n < 0 || n > len(b) {
			return errors.New("a page is longer than its column")
		}
		if err := visit(&h, b[:n:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// maxUnpacked is the largest number of bytes that one byte of LZ4 can expand to.
const maxUnpacked = 255

// unpackPage returns the bytes of a page. The levels of version 2 are in front of the compressed part.
func unpackPage(h *format.PageHeader, b []byte, codec format.CompressionCodec) ([]byte, error) {
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
	if size == levels {
		return b[:levels], nil
	}
	if codec != format.Lz4Raw {
		values, err := parquet.LookupCompressionCodec(codec).Decode(nil, b[levels:])
		return append(b[:levels:levels], values...), err
	}
	if size < 0 || size > levels+maxUnpacked*(len(b)-levels) {
		return nil, fmt.Errorf("a page of %d bytes declares %d decompressed", len(b), size)
	}
	page := slices.Grow([]byte(nil), size)[:size]
	copy(page, b[:levels])
	n, err := lz4.UncompressBlock(b[levels:], page[levels:])
	if err != nil || n != size-levels {
		return nil, fmt.Errorf("a page does not decompress to its %d bytes: the file is damaged", size)
	}
	return page, nil
}

// isRuns reports whether the values of a page are runs (RLE).
func isRuns(h *format.PageHeader) bool {
	return h.DataPageHeader.V.Encoding == format.RLE || h.DataPageHeaderV2.V.Encoding == format.RLE
}

// plainBooleans returns a page of booleans, and changes its header, so that its values are bits instead of runs.
func (u *pageCopier) plainBooleans(h *format.PageHeader, page []byte, leaf *parquet.Column) ([]byte, error) {
	if !isRuns(h) {
		return page, nil
	}
	errEnd := errors.New("a page of booleans ends early: the file is damaged")
	levels, most := 0, int(h.DataPageHeader.V.NumValues)
	if v := &h.DataPageHeaderV2; v.Valid {
		levels, most = int(v.V.DefinitionLevelsByteLength)+int(v.V.RepetitionLevelsByteLength), int(v.V.NumValues)
		v.V.Encoding = format.Plain
	} else {
		for _, level := range [...]int{leaf.MaxRepetitionLevel(), leaf.MaxDefinitionLevel()} {
			if level > 0 && levels+4 <= len(page) {
				levels += 4 + int(binary.LittleEndian.Uint32(page[levels:]))
			}
		}
		h.DataPageHeader.V.Encoding = format.Plain
	}
	if levels < 0 || levels+4 > len(page) || most < 0 {
		return nil, errEnd
	}
	// A run of a few bytes can have any number of values (Invariant 6).
	if room := maxUnpacked*u.size + 1<<20 - u.at; int64(most/8) > room {
		return nil, fmt.Errorf("a page of %d bytes declares %d booleans, and the copy has room for %d bytes", len(page), most,
			room)
	}
	runs, bits := page[levels+4:], make([]byte, (most+7)/8) // behind the length of the runs
	for at := 0; at < most && len(runs) > 0; {
		head, n := binary.Uvarint(runs)
		count, width := int(min(head>>1, uint64(most))), 1 // values, and bytes after the head
		isPacked := head&1 == 1
		if isPacked {
			count, width = 8*count, count
		}
		if n <= 0 || width > len(runs)-n {
			return nil, errEnd
		}
		for k := range min(count, most-at) {
			bit := runs[n] & 1
			if isPacked {
				bit = runs[n+k/8] >> (k % 8) & 1
			}
			bits[at/8] |= bit << (at % 8)
			at++
		}
		runs = runs[n+width:]
	}
	return append(page[:levels:levels], bits...), nil
}
