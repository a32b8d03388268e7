// Package stream runs stages on NATS: it consumes the input, publishes what a stage makes of it, sees it confirmed,
// and only then acknowledges. A separate reader feeds training, and models are stored in the server.
//
// [New] makes an [Engine], which runs any number of pipelines over one connection. It opens nothing before [Engine.Run]
// and leaves no goroutine behind after it. Package admin creates the streams of the pipelines.
//
// Use errors.Is to distinguish errors: [ErrStreamMissing], [ErrNoJetStream], [ErrConsumerTaken], [ErrDenied],
// [ErrDrain] and [ErrNoPipeline].
//
// On JetStream, every input message has an answer in the output stream or in the dead letters, or is a counted skip.
// The answer's identity is a function of the input alone, an answer that may be stored is looked up before it is sent
// again, and an input is acknowledged after its answer is confirmed. On core NATS, without an input stream, an input is
// answered at most once.
package stream
