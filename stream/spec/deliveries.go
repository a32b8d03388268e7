package spec

// Deliveries are what a replica has received from the consumer that all replicas share. Replicas compare the sum with
// what the server has delivered.
type Deliveries struct {
	Received uint64 `json:"received"` // messages, since its start
	Newest   uint64 `json:"newest"`   // consumer sequence of the newest
	Pulls    uint64 `json:"pulls"`    // that have ended
	Pulling  bool   `json:"pulling"`  // one is open
	// Interruptions counts events after which messages that the server delivered may not have been received.
	Interruptions uint64 `json:"interruptions"`
	Server        string `json:"server"` // name of the server that it is connected to
}
