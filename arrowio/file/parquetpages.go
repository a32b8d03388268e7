package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// A pageReader reads the pages of a column chunk in their order and gives parquet-go each of them uncompressed, with a
// header to match. There are three reasons. parquet-go allocates the memory that a page declares, which a few bytes can
// make any size, so a page is checked first (Invariant 6). It decompresses a LZ4_RAW page that compressed to no less
// than a third into a buffer that it then loses. And it reads booleans in runs (RLE) as if each run ended at a byte, so
// these become bits (PLAIN).
type pageReader struct {
	file    io.ReaderAt
	leaf    *parquet.Column
	codec   format.CompressionCodec
	at, end int64 // in the file

	given      int64     // bytes that parquet-go has read, of all pages
	rest       [2][]byte // what it has not read of the header and the values of the present page
	compressed []byte    // memory of the present page
	page       []byte    // the same, decompressed
}

// pagesOf returns the pages of a column chunk.
func pagesOf(file io.ReaderAt, c columnChunk, of parquet.ColumnChunk, leaf *parquet.Column) *parquet.FilePages {
	r := &pageReader{file: file, leaf: leaf, codec: c.codec, at: c.start, end: c.start + c.length}
	return of.(*parquet.FileColumnChunk).PagesFrom(r)
}

// ReadAt returns some of the next bytes. parquet-go reads a chunk from its start to its end.
func (r *pageReader) ReadAt(p []byte, offset int64) (int, error) {
	if offset != r.given {
		return 0, fmt.Errorf("byte %d of a column was read after byte %d", offset, r.given)
	}
	for k := range r.rest {
		if n := copy(p, r.rest[k]); n > 0 {
			r.rest[k] = r.rest[k][n:]
			r.given += int64(n)
			return n, nil
		}
	}
	if r.at >= r.end {
		return 0, io.EOF
	}
	return 0, r.next()
}

// next reads a page.
func (r *pageReader) next() error {
	h, err := r.header()
	if err != nil {
		return err
	}
	n := int64(h.CompressedPageSize)
	if n < 0 || n > r.end-r.at {
		return fmt.Errorf("a page of %d bytes is longer than its column, of which %d bytes are left", n, r.end-r.at)
	}
	r.compressed = slices.Grow(r.compressed[:0], int(n))[:n]
	if _, err := r.file.ReadAt(r.compressed, r.at); err != nil {
		return err
	}
	r.at += n
	if sum := crc32.ChecksumIEEE(r.compressed); h.CRC != 0 && uint32(h.CRC) != sum {
		return fmt.Errorf("a page has the checksum %08x and declares %08x", sum, uint32(h.CRC))
	}
	page, err := r.unpack(h)
	if err == nil {
		page, err = r.check(h, page)
	}
	if err != nil {
		return err
	}
	h.CRC, h.CompressedPageSize, h.UncompressedPageSize = 0, int32(len(page)), int32(len(page))
	header, err := thrift.Marshal(new(thrift.CompactProtocol), h)
	r.rest = [2][]byte{header, page}
	return err
}

// maxHeader is the largest header of a page. Its statistics can contain two whole values.
const maxHeader = 16 << 20

// header decodes the header of a page. It reads a kilobyte, and more only if the header does not end there.
func (r *pageReader) header() (*format.PageHeader, error) {
	for size := int64(1 << 10); ; size *= 8 {
		b := make([]byte, min(size, r.end-r.at))
		if _, err := r.file.ReadAt(b, r.at); err != nil {
			return nil, err
		}
		h := new(format.PageHeader)
		rest, err := decodeThrift(b, h)
		if err == nil {
			r.at += int64(len(b) - len(rest))
			return h, nil
		}
		if size >= min(maxHeader, r.end-r.at) {
			return nil, fmt.Errorf("the header of a page: %w", err)
		}
	}
}

// maxExpanded is the maximum ratio of a page's size to its compressed size. It is what the format of a codec can
// express, except for Brotli, which can express more.
var maxExpanded = map[format.CompressionCodec]int{format.Uncompressed: 1, format.Snappy: 64, format.Lz4Raw: 255,
	format.Gzip: 1032, format.Zstd: 1 << 15, format.Brotli: 1 << 15}

// anyPageSize is a size that a page may have however few bytes it is compressed to.
const anyPageSize = 16 << 20

// unpack returns the bytes of a page, decompressed. In version 2 the levels are in front of the compressed part.
func (r *pageReader) unpack(h *format.PageHeader) ([]byte, error) {
	b, size, levels := r.compressed, int(h.UncompressedPageSize), 0
	codec := r.codec
	if v := &h.DataPageHeaderV2; v.Valid {
		levels = int(v.V.DefinitionLevelsByteLength) + int(v.V.RepetitionLevelsByteLength)
		if v.V.DefinitionLevelsByteLength < 0 || v.V.RepetitionLevelsByteLength < 0 || levels > len(b) {
			return nil, fmt.Errorf("a page of %d bytes declares %d for its levels", len(b), levels)
		}
		if v.V.IsCompressed.Valid && !v.V.IsCompressed.V {
			codec = format.Uncompressed
		}
		v.V.IsCompressed = thrift.New(false)
	}
	if codec == format.Uncompressed {
		return b, nil
	}
	if size == levels {
		return b[:levels], nil
	}
	if most := levels + max(anyPageSize, maxExpanded[codec]*(len(b)-levels)); size < levels || size > most {
		return nil, fmt.Errorf("a page of %d bytes declares %d decompressed; %s can have %d", len(b), size, codec, most)
	}
	r.page = slices.Grow(r.page[:0], size)[:size]
	copy(r.page, b[:levels])
	n, err := decompress(codec, r.page[levels:], b[levels:])
	if err != nil {
		return nil, fmt.Errorf("a page of %s: %w", codec, err)
	}
	if n != size-levels {
		return nil, fmt.Errorf("a page of %s has other than its %d bytes", codec, size)
	}
	return r.page, nil
}

// decompress fills dst and returns the number of decompressed bytes. If dst has another length, the result is another
// number or an error.
func decompress(codec format.CompressionCodec, dst, src []byte) (int, error) {
	switch codec {
	case format.Snappy:
		if n, err := snappy.DecodedLen(src); err != nil || n > len(dst) {
			return n, err
		}
		out, err := snappy.Decode(dst, src)
		return len(out), err
	case format.Lz4Raw:
		return lz4.UncompressBlock(src, dst)
	case format.Zstd:
		d, err := zstdDecoder()
		if err != nil {
			return 0, err
		}
		out, err := d.DecodeAll(src, dst[:0:len(dst)])
		return len(out), err
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return 0, err
		}
		return readWhole(z, dst)
	case format.Brotli:
		return readWhole(brotli.NewReader(bytes.NewReader(src)), dst)
	}
	return 0, errors.New("this codec cannot be read: write the file with Zstandard or Snappy")
}

// zstdDecoder never writes beyond the capacity of its destination. It can be used concurrently.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
})

// readWhole fills dst and then checks that the reader has ended.
func readWhole(r io.Reader, dst []byte) (int, error) {
	n, err := io.ReadFull(r, dst)
	if err != nil {
		return n, err
	}
	if k, err := io.ReadFull(r, make([]byte, 1)); !errors.Is(err, io.EOF) {
		return n + k, err
	}
	return n, nil
}

// check checks what a page declares. It returns a page of booleans as bits, and changes its header.
func (r *pageReader) check(h *format.PageHeader, page []byte) ([]byte, error) {
	switch {
	case h.DictionaryPageHeader.Valid:
		v := &h.DictionaryPageHeader.V
		if v.Encoding != format.Plain && v.Encoding != plainDictionary {
			return nil, fmt.Errorf("a dictionary has the encoding %s", v.Encoding)
		}
		if n := int64(v.NumValues); n > int64(8*len(page))/bitsOfValue(r.leaf) {
			return nil, fmt.Errorf("a dictionary of %d bytes declares %d values", len(page), n)
		}
	case h.DataPageHeaderV2.Valid:
		v := &h.DataPageHeaderV2.V
		repetition := int(v.RepetitionLevelsByteLength)
		values := repetition + int(v.DefinitionLevelsByteLength)
		if values > len(page) {
			return nil, errPageEnd
		}
		return r.checkData(&v.Encoding, v.NumValues, page, values, page[:repetition], page[repetition:values])
	case h.DataPageHeader.Valid:
		v := &h.DataPageHeader.V
		var levels [2][]byte
		values := 0
		for k, most := range [...]int{r.leaf.MaxRepetitionLevel(), r.leaf.MaxDefinitionLevel()} {
			if most == 0 {
				continue
			}
			if len(page)-values < 4 {
				return nil, errPageEnd
			}
			n := int(binary.LittleEndian.Uint32(page[values:]))
			if values += 4; n > len(page)-values {
				return nil, errPageEnd
			}
			levels[k] = page[values : values+n]
			values += n
		}
		return r.checkData(&v.Encoding, v.NumValues, page, values, levels[0], levels[1])
	}
	return page, nil
}

var errPageEnd = errors.New("a page ends early")

// bitsOfValue returns the minimum number of bits of an uncompressed value.
func bitsOfValue(leaf *parquet.Column) int64 {
	switch t := leaf.Type(); t.Kind() {
	case parquet.Boolean:
		return 1
	case parquet.Int32, parquet.Float, parquet.ByteArray: // a byte array has its length
		return 32
	case parquet.Int96:
		return 96
	case parquet.FixedLenByteArray:
		return 8 * int64(max(1, t.Length()))
	}
	return 64
}

// maxDeclared is how many bytes a page or a batch may take in memory, however few it has in the file: runs of equal
// values can be of any length. maxExpansion times the bytes of the page or of the file are also allowed.
const maxDeclared = 256 << 20

// maxExpansion is how many times its bytes in the file a page may take in memory. A batch in memory and a row group on
// disk may take as many times the bytes of the file, so that a few bytes fill neither.
const maxExpansion = 64

// errLargePage reports that the values of a page take too much memory. The limit follows.
var errLargePage = errors.New("the limit is")

// plainDictionary is the name of RLEDictionary in data pages of files of version 1.
const plainDictionary format.Encoding = 2

// checkData checks the number of values that a page of data declares, and the numbers in its runs. Its values begin at
// an offset.
func (r *pageReader) checkData(encoding *format.Encoding, declared int32, page []byte, offset int,
	repetition, definition []byte) ([]byte, error) {
	n, values := int(declared), page[offset:]
	// Each value takes a byte for each of the two levels, and four for the index in a dictionary or the offset of a text.
	memory := int64(n) * (2 + max(4, bitsOfValue(r.leaf)/8))
	if most := max(maxDeclared, maxExpansion*int64(len(page))); n < 0 || memory > most {
		return nil, fmt.Errorf("a page of %d bytes declares %d values, which take %d bytes, and %w %d: write pages of fewer "+
			"rows", len(page), n, memory, errLargePage, most)
	}
	err := errors.Join(checkLevels(repetition, r.leaf.MaxRepetitionLevel(), n),
		checkLevels(definition, r.leaf.MaxDefinitionLevel(), n))
	if err != nil {
		return nil, err
	}
	switch *encoding {
	case plainDictionary, format.RLEDictionary:
		if len(values) > 0 {
			err = checkRuns(values[1:], int(values[0]), n)
		}
	case format.Plain, format.ByteStreamSplit: // of a size in proportion to the page
	case format.RLE:
		if r.leaf.Type().Kind() != parquet.Boolean {
			return nil, errors.New("values that are not boolean are in runs")
		}
		var plain []byte
		plain, err = plainBooleans(values, n)
		*encoding, page = format.Plain, append(page[:offset:offset], plain...)
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		_, err = skipDelta(values, n)
	case format.DeltaByteArray:
		err = checkPrefixes(values, n, max(maxDeclared, maxExpansion*len(page)))
	default:
		err = fmt.Errorf("the encoding %s cannot be read", *encoding)
	}
	return page, err
}

// A run is a part of values in the hybrid of run-length and bit-packed encoding ("Run Length Encoding / Bit-Packing
// Hybrid" in the Parquet format).
type run struct {
	count    int  // of values
	isPacked bool // each value has its own bits; otherwise all have the same
	bits     []byte
}

// nextRun returns the first run, whose values have width bits, and the bytes after it. A count above limit may be less
// than the true one. If the bytes end within the run, it returns an error and a run whose count is valid.
func nextRun(b []byte, width, limit int) (r run, rest []byte, err error) {
	head, n := binary.Uvarint(b)
	if n <= 0 {
		return run{}, nil, errPageEnd
	}
	r = run{count: int(min(head>>1, uint64(limit)+1)), isPacked: head&1 == 1}
	size := (width + 7) / 8
	if r.isPacked {
		size = r.count * width
		r.count *= 8
	}
	if size > len(b)-n {
		return r, nil, errPageEnd
	}
	r.bits = b[n : n+size]
	return r, b[n+size:], nil
}

// maxPadding is how many more values than the page the runs may have: bit-packed runs are padded to multiples of eight.
const maxPadding = 1 << 10

// checkRuns checks that runs have at most about n values. parquet-go reports other damage.
func checkRuns(b []byte, width, n int) error {
	for count := 0; len(b) > 0; {
		r, rest, err := nextRun(b, width, n+maxPadding)
		if count += r.count; count > n+maxPadding {
			return fmt.Errorf("a page declares %d values, and its runs have more", n)
		}
		if err != nil {
			return nil
		}
		b = rest
	}
	return nil
}

// checkLevels checks the runs of levels from 0 to greatest. parquet-go reads none if greatest is 0.
func checkLevels(b []byte, greatest, n int) error {
	if greatest == 0 {
		return nil
	}
	return checkRuns(b, bits.Len(uint(greatest)), n)
}

// plainBooleans returns booleans as bits. b has the length of their runs and the runs. There are fewer than n if some
// are null.
func plainBooleans(b []byte, n int) ([]byte, error) {
	if len(b) < 4 {
		return nil, errPageEnd
	}
	plain := make([]byte, (n+7)/8)
	for at, runs := 0, b[4:]; at < n && len(runs) > 0; {
		r, rest, err := nextRun(runs, 1, n)
		if err != nil {
			return nil, err
		}
		for k := range min(r.count, n-at) {
			bit := r.bits[0] & 1
			if r.isPacked {
				bit = r.bits[k/8] >> (k % 8) & 1
			}
			plain[at/8] |= bit << (at % 8)
			at++
		}
		runs = rest
	}
	return plain, nil
}

// skipDelta returns the bytes after up to n integers in the encoding DELTA_BINARY_PACKED.
func skipDelta(b []byte, n int) ([]byte, error) {
	var head [3]uint64 // the size of a block, the number of its parts, and the number of values
	for k := range head {
		v, size := binary.Uvarint(b)
		if size <= 0 || v > math.MaxInt32 {
			return nil, errPageEnd
		}
		head[k], b = v, b[size:]
	}
	block, parts, count := int(head[0]), int(head[1]), int(head[2])
	_, size := binary.Uvarint(b) // the first value
	if size <= 0 || parts == 0 || block < parts {
		return nil, errPageEnd
	}
	if count > n {
		return nil, fmt.Errorf("a page declares %d values, and its integers %d", n, count)
	}
	b = b[size:]
	for count--; count > 0; {
		_, size := binary.Uvarint(b) // the least difference
		if size <= 0 || size == len(b) {
			return nil, errPageEnd
		}
		widths := b[size:min(len(b), size+parts)]
		b = b[size+len(widths):]
		for _, width := range widths {
			if count <= 0 {
				break
			}
			b = b[min(len(b), block/parts*int(width)/8):]
			count -= block / parts
		}
	}
	return b, nil
}

// checkPrefixes checks texts that share a prefix with the one before (DELTA_BYTE_ARRAY). b has the lengths of the
// prefixes, the lengths of the rests, and the rests.
func checkPrefixes(b []byte, n, most int) error {
	lengths, err := skipDelta(b, n)
	if err != nil {
		return err
	}
	if _, err := skipDelta(lengths, n); err != nil {
		return err
	}
	prefixes, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, b)
	total := 0
	for _, p := range prefixes {
		if total += int(max(0, p)); total > most {
			return fmt.Errorf("the texts of a page have more bytes than allowed, and %w %d: write pages of fewer rows, or "+
				"without DELTA_BYTE_ARRAY", errLargePage, most)
		}
	}
	return err
}
