// Package stream runs stages on NATS: it consumes the input, publishes what a stage makes of it, sees it confirmed,
// and only then acknowledges. A separate reader feeds training, and models are stored in the server.
//
// An [Engine] runs any number of pipelines over one connection. It opens nothing before [Engine.Run] and leaves no
// goroutine behind after it.
//
// Use errors.Is to distinguish errors: [ErrStreamMissing], [ErrNoJetStream].
//
// What holds, on JetStream: every input message has an answer in the output stream or in the dead letters, or is a
// counted skip; the answer's identity is a function of the input alone, and whatever may be stored is looked up before
// it is sent again; an input is acknowledged after its answer is confirmed. On core NATS (no input stream):
// at most once.
package stream
