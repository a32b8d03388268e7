package relay

import "time"

// bookmark is what the owner of a partition stores for the next one: where its consumer starts, and whether it ended
// cleanly.
type bookmark struct {
	Created time.Time `json:"created"` // of the stream
	Floor   uint64    `json:"floor"`   // up to here all messages are acknowledged
	UpTo    uint64    `json:"up_to"`   // up to here some may be answered
	Deaths  uint64    `json:"deaths"`  // how often an owner ended at this floor without a clean end
	Holder  string    `json:"holder"`  // the owner; "" when all that it pulled is answered
}
