// Package embedded runs a NATS server inside the process.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/internal/durable"
)

// Port, Store and Name are the port, the directory and the name of the server that `embedd run` embeds.
const (
	Port  = 4222
	Store = "embedd-data"
	Name  = "embedd" // of the server
)

// Start starts a NATS server with JetStream and file storage on loopback. Port -1 takes a free port. The caller shuts
// it down with Stop.
func Start(store string, port int) (*server.Server, error) {
	dir, err := filepath.Abs(store)
	if err != nil {
		return nil, err
	}
	if err := CheckStore(dir); err != nil { // the server would only log it
		return nil, fmt.Errorf("the embedded NATS server cannot write its store: %w; start in a directory that can be "+
			"written, or use another server (nats.url, --server or NATS_URL)", err)
	}
	if port > 0 {
		// The server would only log that the port is in use.
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("port %d on 127.0.0.1 is in use, perhaps by a NATS server: use that server (nats.url, "+
				"--server or NATS_URL), or stop it so that embedd can run its own", port)
		}
		if err != nil {
			return nil, fmt.Errorf("embedded NATS server: listening on port %d: %w", port, err)
		}
		l.Close()
	}
	s, err := server.NewServer(&server.Options{
		ServerName: Name, Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir,
		MaxPayload: 8 << 20, // the largest for which the server logs no warning
	})
	if err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		Stop(s)
		return nil, fmt.Errorf("the embedded NATS server does not start: check that the disk of its store %s is not full "+
			"and that no other server uses the store", dir)
	}
	if !s.JetStreamEnabled() {
		Stop(s)
		return nil, fmt.Errorf("the embedded NATS server cannot enable JetStream: check that its store %s is writable", dir)
	}
	return s, nil
}

// CheckStore returns why a server cannot write its store, or nil: the store or the subdirectory of JetStream.
func CheckStore(store string) error {
	_, err := durable.CheckWritable(store)
	if err == nil {
		_, err = durable.CheckWritable(filepath.Join(store, server.JetStreamStoreDir))
	}
	return err
}

// Stop shuts the server down and waits for its end.
func Stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// Dial connects to the server in memory, without a socket.
func Dial(ctx context.Context, s *server.Server, o connection.Options) (*connection.Conn, error) {
	o.Server = s
	return connection.Dial(ctx, config.NATS{}, o)
}
