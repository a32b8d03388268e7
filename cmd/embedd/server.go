package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The embedded server's address and store, for run.
const (
	embeddedPort  = 4222
	embeddedStore = "embedd-data"
)

// startServer embeds a NATS server with JetStream and file storage on loopback. Port -1 takes a free one. The caller
// shuts it down with stopServer.
func startServer(store string, port int) (*server.Server, error) {
	dir, err := filepath.Abs(store)
	if err != nil {
		return nil, err
	}
	if port > 0 {
		// The server itself would only log that the port is taken.
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("port %d on 127.0.0.1 is taken, perhaps by a NATS server: use that one (nats.url, --server or NATS_URL), or stop it so that embedd can embed its own", port)
		}
		if err != nil {
			return nil, fmt.Errorf("listening on port %d for the embedded NATS server: %w", port, err)
		}
		l.Close()
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "embedd", Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir,
		MaxPayload: 8 << 20, // the largest that the server itself does not warn of
	})
	if err != nil {
		return nil, fmt.Errorf("making the embedded NATS server: %w", err)
	}
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		stopServer(s)
		return nil, fmt.Errorf("the embedded NATS server does not start; its store is %s: look whether the disk is full or another server uses it", dir)
	}
	if !s.JetStreamEnabled() {
		stopServer(s)
		return nil, fmt.Errorf("the embedded NATS server has no JetStream; its store is %s: look whether it can be written", dir)
	}
	return s, nil
}

func stopServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}
