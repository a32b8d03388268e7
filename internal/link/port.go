package link

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreePort is a port of 127.0.0.1 that no program listens on now. It is none of those that systems give to connections and
// to who asks for any, so it stays free while a server that had it is away.
func FreePort() int {
	for {
		port := 20000 + rand.IntN(12000)
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			l.Close()
			return port
		}
	}
}
