package link

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

// TestLink forwards in both directions, lets a watch close a connection before the data is forwarded, cuts, and leaves
// nothing behind.
func TestLink(t *testing.T) {
	defer goleak.VerifyNone(t)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	var down atomic.Int64
	l, err := New(server.Addr().String(), func(piece []byte) error {
		if string(piece) == "end" {
			return errors.New("end")
		}
		return nil
	}, func(piece []byte) error {
		down.Add(int64(len(piece)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	say := func(c net.Conn, text string) (string, error) {
		if _, err := c.Write([]byte(text)); err != nil {
			return "", err
		}
		answer := make([]byte, len(text))
		_, err := io.ReadFull(c, answer)
		return string(answer), err
	}
	c := dial()
	if got, err := say(c, "hello"); got != "hello" || err != nil || down.Load() != 5 {
		t.Errorf("came back as %q after %d bytes: %v", got, down.Load(), err)
	}
	if _, err := say(c, "end"); err == nil || down.Load() != 5 {
		t.Errorf("a watch did not end the connection: %v, %d bytes came back", err, down.Load())
	}
	c = dial()
	if _, err := say(c, "hello"); err != nil {
		t.Errorf("the link ended with its connection: %v", err)
	}
	l.Cut()
	if _, err := say(c, "hello"); err == nil {
		t.Error("a connection that was cut carries on")
	}
}
