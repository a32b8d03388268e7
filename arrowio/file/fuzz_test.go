package file

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/bound"
)

// FuzzStream: for any bytes, a stream is read to its end or to an error, within memory in proportion to the bytes.
func FuzzStream(f *testing.F) {
	rec := sample(5)
	defer rec.Release()
	msg, err := arrowio.FromRecords(rec.Schema(), rec)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(msg)
	f.Add(msg[:len(msg)-8])
	f.Add(append(append([]byte(nil), msg...), msg...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		bound.Check(t, costOf(b), func() {
			if r, err := NewReader(bytes.NewReader(b), "fuzz"); err == nil {
				readAll(t, r)
			}
		})
	})
}

// FuzzArrowFile, FuzzCSV and FuzzParquet do the same for files of these formats.
func FuzzArrowFile(f *testing.F) {
	written(f, ".arrow")
	fuzzFile(f, arrowFile, ".arrow", 0)
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,x\n,\"y\n\"\n"))
	f.Add([]byte("\xef\xbb\xbfa;b\r\n1;2\r\n"))
	f.Add([]byte("a,a\n1\n"))
	f.Add([]byte("t,f,n\ntrue,1e400,9223372036854775808\nFALSE,-0x1p3,1_0\n"))
	fuzzFile(f, csvFormat, ".csv", 0)
}

func FuzzParquet(f *testing.F) {
	written(f, ".parquet")
	for _, name := range []string{"lz4.parquet", "runs.parquet", "types.parquet"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	fuzzFile(f, parquetFormat, ".parquet", 512<<20) // its reader needs some megabytes for each column
}

// written writes the seeds as files.
func written(f *testing.F, suffix string) {
	for _, rows := range []int{0, 7} {
		path := filepath.Join(f.TempDir(), "seed"+suffix)
		w, err := Create(path)
		if err != nil {
			f.Fatal(err)
		}
		rec := sample(rows)
		if err := w.Write(rec); err != nil {
			f.Fatal(err)
		}
		rec.Release()
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
}

// fuzzFile reads files of a format, whose reader may need more memory.
func fuzzFile(f *testing.F, format formatName, suffix string, more uint64) {
	path := filepath.Join(f.TempDir(), "fuzz"+suffix)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		bound.Check(t, costOf(b)+more, func() {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			r, err := open(file, path, format, Options{})
			if err != nil {
				file.Close()
				return
			}
			readAll(t, r)
			r.Close()
		})
	})
}

// costOf returns what reading a number of bytes may allocate in total: a file's buffers, its batches, and the same
// written again.
func costOf(b []byte) uint64 { return 64<<20 + 256*uint64(len(b)) }

// readAll reads to the end or to an error, but not more batches than a seed has several times over, and writes what it
// reads. A Parquet file of a few bytes can have any number of equal rows.
func readAll(t *testing.T, r *Reader) {
	w := NewWriter(io.Discard, "fuzz")
	for range 16 {
		rec, err := r.Next()
		if err != nil {
			return
		}
		if err := w.Write(rec); err != nil {
			t.Errorf("a batch that was read cannot be written: %v", err)
		}
		rec.Release()
	}
}
