// Package killpoint ends the process at a named place, for tests of what a crash there costs. In a usual build it does
// nothing and costs nothing; with the build tag killpoints the environment says where:
//
//	EMBEDD_KILL_AT=published:7 embedd run -c embedd.yaml
//
// ends the process the seventh time that it comes to published, as kill -9 does, and
//
//	EMBEDD_KILL_AT=learning@21 embedd run -c embedd.yaml
//
// each time that it learns from message 21 of its stream.
package killpoint

// Point is a place in the life of a message or of a model.
type Point string

// The places.
const (
	Pulled    Point = "pulled"    // a message was taken from the input, nothing was done yet
	Published Point = "published" // its answer was sent, the server has not confirmed it yet
	Confirmed Point = "confirmed" // the server has the answer, the message is not acknowledged yet
	Acked     Point = "acked"     // the message is acknowledged
	Dead      Point = "dead"      // a dead letter was sent, the server has not confirmed it yet
	Learned   Point = "learned"   // the rows of a message were learned
	Claimed   Point = "claimed"   // the store says that a model comes, the model is not written yet
	Written   Point = "written"   // a model is written and read back, the pointer does not name it yet
	Pointed   Point = "pointed"   // the pointer names a model, outputs are still of the one before
)

// Learning is a place that messages come to by their number: their rows are about to be learned.
const Learning Point = "learning"

// All are the places of Here, in the order in which a process comes to them.
func All() []Point {
	return []Point{Pulled, Published, Confirmed, Acked, Dead, Learned, Claimed, Written, Pointed}
}
