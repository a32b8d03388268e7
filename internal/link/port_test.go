package link

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFreePort: a port is given to one test at a time, in this process and in others; the ports of a finished test are
// free.
func TestFreePort(t *testing.T) {
	const many = 300
	if os.Getenv("EMBEDD_FREE_PORTS") != "" {
		for range many {
			fmt.Println("port", FreePort(t))
		}
		return
	}
	given := map[string]bool{}
	take := func(port string) {
		if given[port] {
			t.Errorf("port %s is given twice", port)
		}
		given[port] = true
	}
	for range many {
		take(fmt.Sprint(FreePort(t)))
	}
	another := exec.Command(os.Args[0], "-test.run", "^TestFreePort$")
	another.Env = append(os.Environ(), "EMBEDD_FREE_PORTS=1")
	out, err := another.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if port, ok := strings.CutPrefix(line, "port "); ok {
			take(strings.TrimSpace(port))
		}
	}
	if len(given) != 2*many {
		t.Errorf("%d ports are given, want %d", len(given), 2*many)
	}
	var port int
	t.Run("over", func(t *testing.T) { port = FreePort(t) })
	again, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		t.Fatalf("a port is held when its test is over: %v", err)
	}
	again.Close()
}
