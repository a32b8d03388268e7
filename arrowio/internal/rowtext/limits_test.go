package rowtext

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestSizesOfElements: the memory that is counted for cells, rows and columns is what they take, and little more.
func TestSizesOfElements(t *testing.T) {
	for name, of := range map[string][2]uintptr{
		"cell":   {cellBytes, unsafe.Sizeof(Cell{})},
		"row":    {rowBytes, unsafe.Sizeof(Row{})},
		"column": {columnBytes, unsafe.Sizeof(Column{})},
	} {
		if counted, size := of[0], of[1]; counted < size || counted > size+8 {
			t.Errorf("a %s takes %d bytes, and %d are counted", name, size, counted)
		}
	}
}

// TestManyErrors: 64 rows of a message have their own error; those after them share one of each code (Invariant 5).
func TestManyErrors(t *testing.T) {
	table, shared := &Table{}, map[wire.Code]*wire.Error{}
	for i := range 100 {
		one := wire.Errorf([]wire.Code{wire.Malformed, wire.TooLarge}[i%2], "row %d", i)
		switch kept := table.Keep(one); {
		case i < 64:
			if kept != one {
				t.Fatalf("row %d has the error %v", i, kept)
			}
		case shared[one.Code] == nil:
			shared[one.Code] = kept
			if kept == one || kept.Code != one.Code {
				t.Errorf("row %d has the error %v, and its code is %v", i, kept, one.Code)
			}
		case kept != shared[one.Code]:
			t.Errorf("row %d has an error of its own", i)
		}
	}
}

// TestNamesAreForgotten: more than 8,192 names, or 256 KiB of them, are forgotten before the next message.
func TestNamesAreForgotten(t *testing.T) {
	for _, c := range []struct {
		names, length int
		kept          bool
	}{{8192, 8, true}, {8193, 8, false}, {256, 1024, true}, {257, 1024, false}} {
		var n names
		n.begin()
		last := &n.first
		for i := range c.names {
			last = n.find(fmt.Appendf(nil, `"%0*d"`, c.length, i), last)
		}
		n.begin()
		if isKept := len(n.byText) == c.names && n.first.next != nil; isKept != c.kept || !isKept && len(n.byText) > 0 {
			t.Errorf("of %d names of %d bytes %d are known to the next message", c.names, c.length, len(n.byText))
		}
		if again := n.find([]byte(`"`+strings.Repeat("0", c.length)+`"`), &n.first); again.column != 0 || again.message != 0 {
			t.Errorf("a name of the message before is %+v", again)
		}
	}
}
