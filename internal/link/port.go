package link

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreePort reserves a port of 127.0.0.1 for a test until it ends, while the test starts and stops servers on it. It is
// outside the range of ephemeral ports. The reservation is the UDP port of the same number, which other calls of
// FreePort find in use, in other processes too.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100_000 {
		port := 20000 + rand.IntN(12000)
		held, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			held.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { held.Close() })
		return port
	}
	t.Fatal("no port of 20000 to 31999 is free")
	return 0
}
