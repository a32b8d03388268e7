// Package killpoint ends the process at a named place, for tests of what a crash there costs. Without the build tag
// killpoints it does nothing and costs nothing; with it, the environment names the place:
//
//	EMBEDD_KILL_AT=published:7 embedd run -c embedd.yaml
//
// ends the process, like kill -9, when it reaches published for the seventh time, and
//
//	EMBEDD_KILL_AT=learning@21 embedd run -c embedd.yaml
//
// ends it each time that it learns message 21 of its stream.
package killpoint

// Point is a place in the life of a message or of a model.
type Point string

// The points.
const (
	Pulled    Point = "pulled"    // a message was taken from the input, nothing was done yet
	Published Point = "published" // its output was sent and is not confirmed yet
	Confirmed Point = "confirmed" // its output is confirmed, the message is not acknowledged yet
	Acked     Point = "acked"     // the message is acknowledged
	Dead      Point = "dead"      // a dead letter was sent, the server has not confirmed it yet
	Learned   Point = "learned"   // the rows of a message were learned
	Claimed   Point = "claimed"   // the name of a model is claimed, the model is not written yet
	Written   Point = "written"   // a model is written and read back, the pointer does not name it yet
	Pointed   Point = "pointed"   // the pointer names a model, outputs are still of the previous one
)

// Learning is reached with the number of a message whose rows are about to be learned.
const Learning Point = "learning"

// All returns the points of Here, in the order in which a process reaches them.
func All() []Point {
	return []Point{Pulled, Published, Confirmed, Acked, Dead, Learned, Claimed, Written, Pointed}
}
