package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"github.com/embedd/embedd/internal/bound"
)

// TestUnpackedPage: a page is refused before memory is allocated if it declares more than its bytes can expand to.
func TestUnpackedPage(t *testing.T) {
	const most = 255 // of LZ4
	for _, c := range []struct {
		size, repetition, definition, bytes int
		want                                string
	}{
		{0, 0, 0, 0, ""},
		{most * 80000, 0, 0, 80000, "LZ4_RAW:"},
		{most*80000 + 1, 0, 0, 80000, "declares"},
		{anyPageSize, 0, 0, 4, "LZ4_RAW:"},
		{anyPageSize + 1, 0, 0, 4, "declares"},
		{-1, 0, 0, 4, "declares"},
		{3, 1, 2, 3, ""},
		{3 + anyPageSize, 1, 2, 7, "LZ4_RAW:"},
		{3 + anyPageSize + 1, 1, 2, 7, "declares"},
		{2, 1, 2, 7, "declares"},
		{9, 2, 2, 3, "levels"},
		{9, -1, 2, 3, "levels"},
		{9, 2, -1, 3, "levels"},
	} {
		h := &format.PageHeader{UncompressedPageSize: int32(c.size)}
		if c.repetition != 0 {
			h.DataPageHeaderV2 = thrift.New(format.DataPageHeaderV2{RepetitionLevelsByteLength: int32(c.repetition),
				DefinitionLevelsByteLength: int32(c.definition), IsCompressed: thrift.New(true)})
		}
		page, err := (&pageReader{codec: format.Lz4Raw, compressed: make([]byte, c.bytes)}).unpack(h)
		switch {
		case c.want == "" && (err != nil || len(page) != c.size):
			t.Errorf("%+v: %d bytes, %v", c, len(page), err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestDecompress: each codec gives the bytes, and never more than there is room for.
func TestDecompress(t *testing.T) {
	plain := bytes.Repeat([]byte("some text, "), 1000)
	compressed := map[format.CompressionCodec]func() []byte{
		format.Snappy: func() []byte { return snappy.Encode(nil, plain) },
		format.Zstd: func() []byte {
			w, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			return w.EncodeAll(plain, nil)
		},
		format.Lz4Raw: func() []byte {
			b := make([]byte, lz4.CompressBlockBound(len(plain)))
			n, err := lz4.CompressBlock(plain, b, nil)
			if err != nil {
				t.Fatal(err)
			}
			return b[:n]
		},
		format.Gzip: func() []byte {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, err := w.Write(plain)
			if err := errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		},
		format.Brotli: func() []byte {
			var b bytes.Buffer
			w := brotli.NewWriter(&b)
			_, err := w.Write(plain)
			if err := errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		},
	}
	for codec, of := range compressed {
		b := of()
		for size, want := range map[int]bool{len(plain): true, len(plain) - 1: false, len(plain) + 1: false, 0: false} {
			dst := make([]byte, size)
			n, err := decompress(codec, dst, b)
			if got := err == nil && n == size && bytes.Equal(dst, plain); got != want {
				t.Errorf("%s in %d bytes: %d, %v", codec, size, n, err)
			}
		}
		if n, err := decompress(codec, make([]byte, len(plain)), b[:len(b)/2]); err == nil && n == len(plain) {
			t.Errorf("half of %s is whole", codec)
		}
	}
}

// TestParquetBombs: a file whose pages declare far more than they have is an error, and takes little memory.
func TestParquetBombs(t *testing.T) {
	type row struct {
		Text  string   `parquet:"text,dict"`
		Maybe *float64 `parquet:"maybe,optional"`
		Delta int64    `parquet:"delta,delta"`
		Names string   `parquet:"names,delta"`
		Ends  []byte   `parquet:"ends,delta"`
		Flag  bool     `parquet:"flag"`
	}
	var whole bytes.Buffer
	w := parquet.NewGenericWriter[row](&whole)
	number := 0.5
	rows := make([]row, 100)
	for i := range rows {
		rows[i] = row{Text: "text", Delta: int64(i), Names: "name", Ends: []byte("end"), Flag: i%3 == 0}
		if i%2 == 0 {
			rows[i].Maybe = &number
		}
	}
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const many = math.MaxInt32
	run := binary.AppendUvarint(nil, many<<1)
	integers := func(v ...int32) []byte {
		b, err := new(delta.BinaryPackedEncoding).EncodeInt32(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	header := binary.AppendUvarint([]byte{0x80, 1, 4}, many) // of integers: blocks of 128 in four parts, many values
	prefixes := make([]int32, 3000)
	for i := range prefixes {
		prefixes[i] = 1 << 20
	}
	data := func(h *format.PageHeader) *format.DataPageHeaderV2 { return &h.DataPageHeaderV2.V }
	for name, c := range map[string]struct {
		column string
		change func(h *format.PageHeader, page []byte) []byte
		want   string
	}{
		"dictionary": {"text", func(h *format.PageHeader, page []byte) []byte {
			h.DictionaryPageHeader.V.NumValues = many
			return page
		}, "a dictionary of 8 bytes declares 2147483647 values"},
		"values": {"maybe", func(h *format.PageHeader, page []byte) []byte {
			data(h).NumValues = many
			return page
		}, "declares 2147483647 values, which take 21474836470 bytes, and the limit is 268435456"},
		"indexes": {"text", func(h *format.PageHeader, page []byte) []byte {
			if h.DictionaryPageHeader.Valid {
				return page
			}
			return append([]byte{1}, append(run, 0)...)
		}, "declares 100 values, and its runs have more"},
		"packed indexes": {"text", func(h *format.PageHeader, page []byte) []byte {
			if h.DictionaryPageHeader.Valid {
				return page
			}
			return binary.AppendUvarint([]byte{1}, many<<1|1)
		}, "declares 100 values, and its runs have more"},
		"levels": {"maybe", func(h *format.PageHeader, page []byte) []byte {
			page = append(append(bytes.Clone(run), 1), page[data(h).DefinitionLevelsByteLength:]...)
			data(h).DefinitionLevelsByteLength = int32(len(run) + 1)
			return page
		}, "declares 100 values, and its runs have more"},
		"integers": {"delta", func(_ *format.PageHeader, page []byte) []byte {
			return append(bytes.Clone(header), page[4:]...)
		}, "declares 100 values, and its integers 2147483647"},
		"lengths": {"names", func(_ *format.PageHeader, page []byte) []byte {
			return append(bytes.Clone(header), page[4:]...)
		}, "declares 100 values, and its integers 2147483647"},
		"prefixes": {"ends", func(h *format.PageHeader, _ []byte) []byte {
			data(h).Encoding, data(h).NumValues = format.DeltaByteArray, int32(len(prefixes))
			return append(integers(prefixes...), integers(make([]int32, len(prefixes))...)...)
		}, "and the limit is 268435456: write pages of fewer rows, or without DELTA_BYTE_ARRAY"},
		"lengths behind prefixes": {"ends", func(h *format.PageHeader, page []byte) []byte {
			data(h).Encoding = format.DeltaByteArray
			return append(integers(make([]int32, 100)...), append(bytes.Clone(header), page[4:]...)...)
		}, "declares 100 values, and its integers 2147483647"},
		"booleans": {"flag", func(h *format.PageHeader, _ []byte) []byte {
			data(h).Encoding, data(h).NumValues = format.RLE, many
			return append([]byte{6, 0, 0, 0}, append(run, 1)...)
		}, "declares 2147483647 values"},
		"a page that is longer": {"delta", func(h *format.PageHeader, page []byte) []byte {
			h.CompressedPageSize = many
			return page
		}, "longer than its column"},
		"runs of integers": {"delta", func(h *format.PageHeader, _ []byte) []byte {
			data(h).Encoding = format.RLE
			return append(bytes.Clone(run), 1)
		}, "values that are not boolean are in runs"},
		"dictionary in runs": {"text", func(h *format.PageHeader, page []byte) []byte {
			h.DictionaryPageHeader.V.Encoding = format.RLE
			return page
		}, "a dictionary has the encoding RLE"},
		"unknown encoding": {"delta", func(h *format.PageHeader, page []byte) []byte {
			data(h).Encoding = 77
			return page
		}, "cannot be read"},
		"checksum": {"delta", func(h *format.PageHeader, page []byte) []byte {
			h.CRC = 1
			return page
		}, "declares 00000001"},
		"nothing": {"delta", func(_ *format.PageHeader, page []byte) []byte { return page }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bomb.parquet")
			if err := os.WriteFile(path, changed(t, whole.Bytes(), c.column, c.change), 0o600); err != nil {
				t.Fatal(err)
			}
			bound.Check(t, 64<<20, func() {
				r, err := Open(path)
				if err == nil {
					defer r.Close()
					_, err = r.Next()
				}
				if name == "nothing" {
					if err == nil {
						_, err = r.Next()
					}
					if !errors.Is(err, io.EOF) {
						t.Error(err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"`+c.column+`"`) {
					t.Errorf("the error is %v, want %q", err, c.want)
				}
				if err != nil && strings.Contains(err.Error(), "fewer rows") && strings.Contains(err.Error(), "damaged") {
					t.Errorf("the error has two fixes: %v", err)
				}
			})
		})
	}
}

// TestSharedPages: row groups that name the same pages, which would decompress them again, are an error.
func TestSharedPages(t *testing.T) {
	type row struct{ A, B float64 }
	var whole bytes.Buffer
	if err := parquet.Write(&whole, make([]row, 1000)); err != nil {
		t.Fatal(err)
	}
	open := func(groups int) error {
		meta, err := readParquetFooter(bytes.NewReader(whole.Bytes()), int64(whole.Len()))
		if err != nil {
			t.Fatal(err)
		}
		meta.RowGroups = slices.Repeat(meta.RowGroups, groups)
		footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
		if err != nil {
			t.Fatal(err)
		}
		file := append(bytes.Clone(whole.Bytes()), footer...)
		file = append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
		_, _, err = openFooter(bytes.NewReader(file), int64(len(file)))
		return err
	}
	if err := open(1); err != nil {
		t.Error(err)
	}
	if err := open(1000); err == nil || !strings.Contains(err.Error(), "some share pages") {
		t.Errorf("the error is %v", err)
	}
}

// changed returns a Parquet file with other pages of a column, uncompressed.
func changed(t *testing.T, file []byte, column string, change func(*format.PageHeader, []byte) []byte) []byte {
	t.Helper()
	meta, err := readParquetFooter(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	out := []byte("PAR1")
	marshal := func(v any) {
		b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	for k := range meta.RowGroups[0].Columns {
		m := &meta.RowGroups[0].Columns[k].MetaData
		start := m.DataPageOffset
		if m.DictionaryPageOffset > 0 {
			start = m.DictionaryPageOffset
		}
		r := &pageReader{file: bytes.NewReader(file), codec: m.Codec, at: start, end: start + m.TotalCompressedSize}
		m.DataPageOffset, m.DictionaryPageOffset = int64(len(out)), 0
		for r.at < r.end {
			h, err := r.header()
			if err != nil {
				t.Fatal(err)
			}
			page := file[r.at:][:h.CompressedPageSize]
			r.at += int64(len(page))
			size := h.CompressedPageSize
			if m.PathInSchema[0] == column {
				h.CRC = 0
				page = change(h, page)
			}
			if h.CompressedPageSize == size {
				h.CompressedPageSize, h.UncompressedPageSize = int32(len(page)), int32(len(page))
			}
			marshal(h)
			out = append(out, page...)
		}
		m.TotalCompressedSize = int64(len(out)) - m.DataPageOffset
	}
	begin := len(out)
	marshal(meta)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(out)-begin)), "PAR1"...)
}

// TestThriftBombs: lists that declare more elements than there are bytes, and values in values in values, are refused
// before memory is allocated.
func TestThriftBombs(t *testing.T) {
	size := binary.AppendUvarint(nil, math.MaxInt32)
	for name, b := range map[string][]byte{
		"a list":          append([]byte{0x29, 0xfc}, size...),            // field 2, structs
		"a set":           append([]byte{0x2a, 0xf5}, size...),            // of integers
		"a map":           append(append([]byte{0x2b}, size...), 0x88, 0), // of texts to texts
		"bytes":           append([]byte{0x68}, size...),
		"structs":         bytes.Repeat([]byte{0x1c}, 1<<20),
		"lists":           append([]byte{0x19}, bytes.Repeat([]byte{0x19}, 1<<20)...),
		"an unknown type": {0x1e, 0},
		"no end":          {0x15, 2},
		"nothing":         {},
	} {
		bound.Check(t, 4<<20, func() {
			if rest, err := decodeThrift(b, new(format.FileMetaData)); err == nil {
				t.Errorf("%s: no error, %d bytes are left", name, len(rest))
			}
		})
	}
	all := []byte{0x11, 0x12, 0x13, 7, 0x14, 2, 0x15, 2, 0x16, 0x80, 1, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0x18, 2, 'a', 'b',
		0x19, 0x21, 1, 2, 0x1a, 0x15, 2, 0x1b, 1, 0x81, 1, 'k', 1, 0x1b, 0, 0x1c, 0x15, 4, 0, 0x05, 40, 2, 0x1d}
	all = append(append(all, make([]byte, 16)...), 0, 'x')
	if rest, err := skipThrift(all, thrift.STRUCT, 0); err != nil || string(rest) != "x" {
		t.Errorf("%q is left, %v", rest, err)
	}
	for n := range len(all) - 1 {
		if rest, err := skipThrift(all[:n], thrift.STRUCT, 0); err == nil {
			t.Errorf("the first %d bytes are no error, %q is left", n, rest)
		}
	}
}

// TestParquetSchemaBombs: a schema of a few bytes for which parquet-go allocates far more is an error, and takes little
// memory.
func TestParquetSchemaBombs(t *testing.T) {
	footerOf := func(meta *format.FileMetaData) []byte {
		b, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	deep := []format.SchemaElement{}
	for range 4000 {
		deep = append(deep, format.SchemaElement{Name: "x", NumChildren: thrift.New[int32](1)})
	}
	wide := []format.SchemaElement{{Name: "root", NumChildren: thrift.New[int32](1000)}}
	for range 1000 {
		wide = append(wide, format.SchemaElement{Name: "x", Type: thrift.New(format.Double)})
	}
	for name, c := range map[string]struct {
		footer []byte
		want   string
	}{
		"nested columns": {footerOf(&format.FileMetaData{Schema: deep}), "fewer levels of nested columns"},
		"missing columns": {footerOf(&format.FileMetaData{Schema: wide, RowGroups: make([]format.RowGroup, 20000)}),
			"row group 0 has 0 columns, and the schema has 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			file := append([]byte("PAR1"), c.footer...)
			file = append(binary.LittleEndian.AppendUint32(file, uint32(len(c.footer))), "PAR1"...)
			bound.Check(t, 64<<20, func() {
				_, _, err := openFooter(bytes.NewReader(file), int64(len(file)))
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want %q", err, c.want)
				}
			})
		})
	}
}

// TestParquetLargeBatch: values that are few bytes in the file and many in a batch, since many rows have the same
// dictionary entry, or a row has many nulls, are an error that names the column.
func TestParquetLargeBatch(t *testing.T) {
	type text struct {
		Column string `parquet:"column,dict"`
	}
	type list struct {
		Column []*float64 `parquet:"column,list"`
	}
	type fixed struct {
		Column *[1000]byte `parquet:"column,optional"`
	}
	checkLargeBatch(t, text{strings.Repeat("x", 1000)})
	checkLargeBatch(t, list{make([]*float64, 200)})
	checkLargeBatch(t, fixed{})
}

// checkLargeBatch writes a row many times.
func checkLargeBatch[T any](t *testing.T, row T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "large.parquet")
	rows := slices.Repeat([]T{row}, 2000)
	if err := parquet.WriteFile(path, rows, parquet.Compression(&parquet.Zstd)); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{0, 1 << 20} { // 0: as it is
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		p := r.records.(*parquetReader)
		if p.maxBatchBytes != maxDeclared {
			t.Errorf("%T: a batch may have %d bytes", row, p.maxBatchBytes)
		}
		if limit > 0 {
			p.maxBatchBytes = limit
		}
		rec, err := r.Next()
		if err == nil {
			rec.Release()
		}
		isRefused := err != nil && strings.Contains(err.Error(), `column "column": row `) &&
			strings.Contains(err.Error(), "a batch of rows exceeds its limit of 1048576 bytes")
		if isRefused != (limit > 0) || err != nil && !isRefused {
			t.Errorf("%T with a limit of %d bytes: %v", row, limit, err)
		}
	}
}
