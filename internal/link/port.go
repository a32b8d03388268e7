package link

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreePort is a port of 127.0.0.1 that is the test's until it ends, whatever it stops and starts there. It is none of
// those that systems give to connections and to who asks for any. The same port of UDP, which nobody uses, is held for
// as long: so all who ask here, in other processes too, know that it is taken.
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
