package file_test

import (
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/embedd/embedd/arrowio/file"
)

// A CSV file becomes an Arrow IPC file, batch by batch.
func Example() {
	dir, err := os.MkdirTemp("", "embedd")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rows.csv")
	if err := os.WriteFile(path, []byte("x,y,label\n1,0.5,a\n2,,b\n"), 0o644); err != nil {
		log.Fatal(err)
	}

	in, err := file.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	for _, f := range in.Schema().Fields() {
		fmt.Println(f.Name, f.Type)
	}
	out, err := file.Create(filepath.Join(dir, "rows.arrow"))
	if err != nil {
		log.Fatal(err)
	}
	defer out.Discard() // does nothing after Close
	for {
		rec, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		err = out.Write(rec)
		rec.Release()
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// x int64
	// y float64
	// label utf8
}
