package daemon

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// bearer returns a check of a request's bearer token against a file, which is read for each request so that it can be
// rotated. Without a file every request passes.
func bearer(path string) func(*http.Request) bool {
	if path == "" {
		return func(*http.Request) bool { return true }
	}
	return func(r *http.Request) bool {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			return false
		}
		id, err := config.Login{TokenFile: path}.Read()
		if err != nil {
			return false
		}
		// Digests have one length, so the time of the comparison does not reveal the length of the token.
		a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(id.Token))
		return subtle.ConstantTimeCompare(a[:], b[:]) == 1
	}
}

// certificate is the key pair of two files. It is read again when a file changes.
type certificate struct {
	cert, key string

	mu     sync.Mutex
	read   [2]time.Time // modification times of the files
	loaded *tls.Certificate
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var at [2]time.Time
	for i, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			at[i] = info.ModTime()
		}
	}
	if c.loaded != nil && at == c.read {
		return c.loaded, nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		if c.loaded != nil {
			return c.loaded, nil // the files may be half written
		}
		return nil, err
	}
	c.loaded, c.read = &pair, at
	return c.loaded, nil
}
