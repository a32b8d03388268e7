package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

// A Go program embeds a NATS server and an engine. It sends labelled rows of four features; the engine learns a
// projection from them, and answers each message with rows of two.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	defer stop()
	nc, closeServer := embeddedServer()
	defer closeServer()
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}

	pipelines := []stream.Pipeline{{
		Name: "flowers", Stream: "FEATURES", Subject: "features.flowers", Output: "reduced.flowers", Dead: "dead.flowers",
		Stage: plugin.Config{
			Spec: arrowio.Spec{Features: []string{"pixels"}, Label: "label"},
			Fit:  fit.Config{Method: "lda", Dim: 2},
		},
	}}
	if _, err := admin.Setup(ctx, js, pipelines, true); err != nil { // creates the streams
		log.Fatal(err)
	}
	engine, err := stream.New(stream.Options{Conn: nc, Pipelines: pipelines})
	if err != nil {
		log.Fatal(err)
	}
	running, drain := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(running) }()

	const messages = 30
	for i := range messages {
		if _, err := js.Publish(ctx, "features.flowers", flowers(i)); err != nil {
			log.Fatal(err)
		}
	}
	reader, err := js.OrderedConsumer(ctx, "REDUCED", jetstream.OrderedConsumerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	for i := range messages {
		msg, err := reader.Next(jetstream.FetchMaxWait(time.Minute))
		if err != nil {
			log.Fatal(err)
		}
		if i < messages-1 {
			continue
		}
		answer, err := ipc.NewReader(bytes.NewReader(msg.Data()))
		if err != nil {
			log.Fatal(err)
		}
		for answer.Next() {
			header := msg.Headers()
			fmt.Println(header.Get(wire.HeaderSource), header.Get(wire.HeaderMethod), answer.Record().NumRows(), "rows")
		}
		for _, field := range answer.Schema().Fields() {
			fmt.Println(field.Name, field.Type)
		}
		answer.Release()
	}

	drain()
	fmt.Println("ended:", <-ended)
	// Output:
	// FEATURES:30 lda 12 rows
	// label utf8
	// embedding fixed_size_list<item: float32>[2]
	// ended: <nil>
}

// embeddedServer starts a NATS server with JetStream in this process, and connects to it.
func embeddedServer() (nc *nats.Conn, closeServer func()) {
	dir, err := os.MkdirTemp("", "embedd-example-")
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir,
		NoSigs: true})
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	if nc, err = nats.Connect("", nats.InProcessServer(s)); err != nil {
		log.Fatal(err)
	}
	return nc, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		os.RemoveAll(dir)
	}
}

// flowers is an Arrow message of twelve rows of three classes.
func flowers(n int) []byte {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "pixels", Type: arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String},
	}, nil)
	rows := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer rows.Release()
	pixels := rows.Field(0).(*array.FixedSizeListBuilder)
	for i := range 12 {
		class := i % 3
		pixels.Append(true)
		for j := range 4 {
			value := float32((7*n + 5*i + 3*j) % 11)
			if j == class {
				value += 20
			}
			pixels.ValueBuilder().(*array.Float32Builder).Append(value)
		}
		rows.Field(1).(*array.StringBuilder).Append([]string{"iris", "rose", "tulip"}[class])
	}
	record := rows.NewRecord()
	defer record.Release()
	message, err := arrowio.FromRecords(schema, record)
	if err != nil {
		log.Fatal(err)
	}
	return message
}
