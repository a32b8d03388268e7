package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// columnChunk is where the pages of a leaf are, in one row group.
type columnChunk struct {
	start, length int64 // in the file
	codec         format.CompressionCodec
	uncompressed  int64 // size, as declared
}

// openFooter reads the footer of a file, and returns the column chunks of each row group. The footer that parquet-go
// gets says what pageReader gives it: pages that are uncompressed and begin at byte 0.
func openFooter(file io.ReaderAt, size int64) (*parquet.File, [][]columnChunk, error) {
	meta, err := readParquetFooter(file, size)
	if err != nil {
		return nil, nil, err
	}
	var chunks [][]columnChunk
	total := int64(0) // bytes of all chunks
	for g := range meta.RowGroups {
		group := &meta.RowGroups[g]
		group.SortingColumns = nil
		of := make([]columnChunk, len(group.Columns))
		for k := range group.Columns {
			m := &group.Columns[k].MetaData
			if m.Codec == format.Lz4 {
				return nil, nil, fmt.Errorf("column %q is compressed with the LZ4 codec of before 2021, which has no "+
					"specification: write it with Zstandard "+
					"(pyarrow.parquet.write_table(pyarrow.parquet.read_table(FILE), FILE, compression=%q))",
					strings.Join(m.PathInSchema, "."), "zstd")
			}
			start, length := m.DataPageOffset, m.TotalCompressedSize
			if m.DictionaryPageOffset > 0 {
				start = min(start, m.DictionaryPageOffset)
			}
			if start < 0 || length < 0 || start > size || length > size-start {
				return nil, nil, fmt.Errorf("column %q has %d bytes at %d, which are not in the file of %d bytes: it was cut off",
					strings.Join(m.PathInSchema, "."), length, start, size)
			}
			// Chunks that share pages would decompress them as often as a few bytes of the footer say.
			if total += length; total > size {
				return nil, nil, fmt.Errorf("its columns have more bytes than the file of %d bytes, so some share pages: the file "+
					"is damaged", size)
			}
			of[k] = columnChunk{start, length, m.Codec, max(0, m.TotalUncompressedSize)}
			group.Columns[k] = format.ColumnChunk{MetaData: format.ColumnMetaData{Type: m.Type, PathInSchema: m.PathInSchema,
				NumValues: m.NumValues, TotalCompressedSize: math.MaxInt64}}
		}
		chunks = append(chunks, of)
	}
	b, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err != nil {
		return nil, nil, err
	}
	b = append([]byte("PAR1"), b...)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(b)-4)), "PAR1"...)
	f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)), parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true))
	return f, chunks, err
}

// readParquetFooter decodes the footer of a file.
func readParquetFooter(file io.ReaderAt, size int64) (*format.FileMetaData, error) {
	var tail [8]byte
	if size < 12 {
		return nil, fmt.Errorf("a file of %d bytes is not a Parquet file", size)
	}
	if _, err := file.ReadAt(tail[:], size-8); err != nil {
		return nil, fmt.Errorf("the Parquet footer cannot be read: %w", err)
	}
	errEncrypted := errors.New("the file is encrypted, which cannot be read: write it without encryption")
	switch string(tail[4:]) {
	case "PAR1":
	case "PARE":
		return nil, errEncrypted
	default:
		return nil, errors.New("there is no Parquet footer: the file was cut off or not closed by its writer")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-12 {
		return nil, fmt.Errorf("the Parquet footer declares %d bytes, and the file has %d: the file was cut off or not "+
			"closed by its writer", n, size)
	}
	b := make([]byte, n)
	_, err := file.ReadAt(b, size-8-n)
	meta := new(format.FileMetaData)
	if err == nil {
		_, err = decodeThrift(b, meta) // a signature may follow
	}
	if err != nil {
		return nil, fmt.Errorf("the Parquet footer cannot be read (%w): the file was cut off or not closed by its writer",
			err)
	}
	if meta.EncryptionAlgorithm.Value != nil {
		return nil, errEncrypted
	}
	return meta, checkSchema(meta)
}

// maxPathNames is how many names the paths of all elements of a schema may have. A flat column has two.
const maxPathNames = 1 << 22

// checkSchema checks what parquet-go allocates for a schema: the path of each element, and each column of each row
// group. Nested groups with a few bytes each could make that any size, and exhaust the stack (Invariant 6).
func checkSchema(meta *format.FileMetaData) error {
	leaves, names := 0, 0
	var open []int32 // of each group around an element, the number of its children that follow
	for k := range meta.Schema {
		e := &meta.Schema[k]
		if e.Type.Valid {
			leaves++
		}
		if names += len(open) + 1; names > maxPathNames {
			return fmt.Errorf("the paths of its columns have over %d names: write it with fewer levels of nested columns",
				maxPathNames)
		}
		if e.NumChildren.V > 0 {
			open = append(open, e.NumChildren.V)
			continue
		}
		for n := len(open) - 1; n >= 0; n-- {
			if open[n]--; open[n] > 0 {
				break
			}
			open = open[:n]
		}
	}
	for k := range meta.RowGroups {
		if n := len(meta.RowGroups[k].Columns); n != leaves {
			return fmt.Errorf("row group %d has %d columns, and the schema has %d: the file is damaged", k, n, leaves)
		}
	}
	return nil
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
