package wire_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/embedd/embedd/arrowio/wire"
)

// A client handles a dead letter by its code, and finds the part that a message is of.
func Example() {
	header := map[string]string{wire.HeaderCode: "schema_changed", wire.HeaderSource: "FEATURES:42",
		wire.HeaderPart: "2/3"}
	if wire.Code(header[wire.HeaderCode]) == wire.SchemaChanged {
		fmt.Println("send", header[wire.HeaderSource], "again after a schema reset")
	}
	part, parts, _ := wire.ParsePart(header[wire.HeaderPart])
	fmt.Println("part", part, "of", parts)
	// Output:
	// send FEATURES:42 again after a schema reset
	// part 1 of 3
}

func ExampleErrorf() {
	var err error = wire.Errorf(wire.FeatureCount, "%d elements, and %d are expected", 63, 64).
		WithHint("send lists of 64 elements").In("pixels")
	fmt.Println(err)
	fmt.Println(errors.Is(err, wire.FeatureCount))
	// Output:
	// column "pixels": 63 elements, and 64 are expected; send lists of 64 elements
	// true
}

// The message id of an output depends on its input and the pipeline's key, so a repeated output is a duplicate for the
// server.
func ExampleKey_ID() {
	key := wire.NewKey([]byte("32 random bytes of the pipeline"))
	in := wire.Origin{Stream: "FEATURES", Created: time.Unix(0, 0), Seq: 42}
	again := wire.Origin{Stream: "FEATURES", Created: time.Unix(0, 0), Seq: 42}
	fmt.Println(key.ID(in, "digits", wire.AnswerOut, 0) == key.ID(again, "digits", wire.AnswerOut, 0))
	fmt.Println(key.ID(in, "digits", wire.AnswerOut, 0) == key.ID(in, "digits", wire.AnswerOut, 1))
	// Output:
	// true
	// false
}
