package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/embedd/embedd/cmd/embedd/config"
)

// Bounds of what a process remembers of its clients.
const (
	maxSessions  = 1000
	maxAddresses = 1000
	maxKnown     = 100 // passwords that were compared
)

// The delay of an answer to wrong credentials doubles with each of them from one address, until one is right or
// forgetAfter has passed.
const (
	firstDelay  = 100 * time.Millisecond
	maxDelay    = 5 * time.Second
	forgetAfter = 10 * time.Minute
)

// cookieName is the name of the cookie of a session. Without a path it is sent to the API alone, also behind a prefix.
const cookieName = "embedd_session"

// Access decides who may read and who may operate. Sessions end with the process. Safe for concurrent use.
type Access struct {
	config  *atomic.Pointer[config.HTTP]
	compare chan struct{} // one password at a time: each costs a tenth of a second of a core

	mu       sync.Mutex
	sessions map[[32]byte]session
	failures map[string]failure  // by address
	known    map[[32]byte]string // user by digest of name, password and hash
}

type session struct {
	user   string
	grants [32]byte // of the configured secret: the session ends when that changes
	since  time.Time
}

type failure struct {
	count int
	last  time.Time
}

// NewAccess follows a configuration, which may be replaced.
func NewAccess(c *atomic.Pointer[config.HTTP]) *Access {
	return &Access{config: c, compare: make(chan struct{}, 1), sessions: map[[32]byte]session{},
		failures: map[string]failure{}, known: map[[32]byte]string{}}
}

// IsOpen reports whether no credentials are configured.
func (a *Access) IsOpen() bool {
	c := a.config.Load()
	return c.TokenFile == "" && c.UsersFile == ""
}

// Identify returns the user of a request, and whether it may read: it has the token, a user's password, or the cookie
// of a session, or none is configured. With wrong credentials it waits, longer each time.
func (a *Access) Identify(r *http.Request) (user string, ok bool) {
	if user, ok = a.identify(r); !ok {
		a.delay(r)
	}
	return user, ok
}

// IdentifyProbe reports whether a request may read, for an answer that must not wait. So it does not look at the
// credentials of an address before the delay of its last wrong ones is over.
func (a *Access) IdentifyProbe(r *http.Request) bool {
	if r.Header.Get("Authorization") != "" && a.isDelayed(r) {
		return false
	}
	_, ok := a.identify(r)
	if !ok {
		a.fail(r)
	}
	return ok
}

func (a *Access) identify(r *http.Request) (user string, ok bool) {
	if a.IsOpen() {
		return "", true
	}
	if cookie, err := r.Cookie(cookieName); err == nil {
		if user, ok = a.userOf(cookie.Value); ok {
			return user, true
		}
	}
	return a.authenticate(r)
}

// authenticate checks the credentials in the header of a request.
func (a *Access) authenticate(r *http.Request) (user string, ok bool) {
	c := a.config.Load()
	if given, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); is && c.TokenFile != "" {
		id, err := config.Login{TokenFile: c.TokenFile}.Read()
		if err != nil {
			return "", false
		}
		// Digests have one length, so the time of the comparison does not reveal the length of the token.
		x, y := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(id.Token))
		return "token", subtle.ConstantTimeCompare(x[:], y[:]) == 1
	}
	name, password, is := r.BasicAuth()
	if !is || c.UsersFile == "" {
		return "", false
	}
	users, err := config.ReadUsers(c.UsersFile)
	if err != nil {
		return "", false
	}
	return name, a.isPassword(r.Context(), name, password, users[name])
}

// isPassword compares a password with its hash. An unknown user has an empty hash, and
// costs as much as a wrong password.
func (a *Access) isPassword(ctx context.Context, name, password, hash string) bool {
	id := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", name, password, hash))
	a.mu.Lock()
	_, known := a.known[id]
	a.mu.Unlock()
	if known {
		return true
	}
	select {
	case a.compare <- struct{}{}:
		defer func() { <-a.compare }()
	case <-ctx.Done():
		return false
	}
	compared := []byte(hash)
	if hash == "" {
		compared = hashOfNone()
	}
	if bcrypt.CompareHashAndPassword(compared, []byte(password)) != nil || hash == "" {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxKnown {
		clear(a.known)
	}
	a.known[id] = name
	return true
}

// hashOfNone is the hash of a password that no user has.
var hashOfNone = sync.OnceValue(func() []byte {
	hash, _ := bcrypt.GenerateFromPassword([]byte(rand.Text()), bcrypt.DefaultCost) // it is short enough
	return hash
})

// grants is a digest of the files of credentials.
func (a *Access) grants() [32]byte {
	c := a.config.Load()
	h := sha256.New()
	for _, path := range []string{c.TokenFile, c.UsersFile} {
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(h, "%q %v ", data, err)
	}
	return [32]byte(h.Sum(nil))
}

// open begins a session for a user, and sets its cookie.
func (a *Access) open(w http.ResponseWriter, user string, isTLS bool) {
	secret := rand.Text()
	one := session{user, a.grants(), time.Now()}
	a.mu.Lock()
	if len(a.sessions) >= maxSessions {
		oldest := [32]byte{}
		for id, s := range a.sessions {
			if o, is := a.sessions[oldest]; !is || s.since.Before(o.since) {
				oldest = id
			}
		}
		delete(a.sessions, oldest)
	}
	a.sessions[sha256.Sum256([]byte(secret))] = one
	a.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: secret, HttpOnly: true, Secure: isTLS,
		SameSite: http.SameSiteStrictMode})
}

// userOf is the user of a session.
func (a *Access) userOf(secret string) (string, bool) {
	grants := a.grants()
	a.mu.Lock()
	defer a.mu.Unlock()
	s, is := a.sessions[sha256.Sum256([]byte(secret))]
	return s.user, is && s.grants == grants
}

// end ends the session of a request, and deletes its cookie.
func (a *Access) end(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		a.mu.Lock()
		delete(a.sessions, sha256.Sum256([]byte(cookie.Value)))
		a.mu.Unlock()
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, HttpOnly: true, MaxAge: -1, SameSite: http.SameSiteStrictMode})
}

// Refuse answers a request that may not read.
func (a *Access) Refuse(w http.ResponseWriter, r *http.Request) {
	if a.config.Load().UsersFile != "" && r.Header.Get("Authorization") != "" {
		w.Header().Add("WWW-Authenticate", `Basic realm="embedd"`)
	}
	w.Header().Add("WWW-Authenticate", "Bearer")
	Refuse(w, "unauthorized", "the token of http.token_file is required, as Authorization: Bearer TOKEN, or a user of "+
		"http.users_file")
}

// delay waits if a request has wrong credentials.
func (a *Access) delay(r *http.Request) {
	f, isWrong := a.fail(r)
	if !isWrong {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.delay())
	defer cancel()
	<-ctx.Done()
}

// fail counts the wrong credentials of a request; one without any is not counted.
func (a *Access) fail(r *http.Request) (f failure, isWrong bool) {
	if r.Header.Get("Authorization") == "" {
		return f, false
	}
	host := addressOf(r)
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.failures) >= maxAddresses {
		clear(a.failures)
	}
	f = a.failures[host]
	if now.Sub(f.last) > forgetAfter {
		f.count = 0
	}
	f.count, f.last = f.count+1, now
	a.failures[host] = f
	return f, true
}

// isDelayed reports whether the delay of the last wrong credentials of an address is not over.
func (a *Access) isDelayed(r *http.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, is := a.failures[addressOf(r)]
	return is && time.Since(f.last) < f.delay()
}

// delay is the delay of the last wrong credentials.
func (f failure) delay() time.Duration { return min(firstDelay<<min(f.count-1, 16), maxDelay) }

// forget ends the delays of a request's address.
func (a *Access) forget(r *http.Request) {
	a.mu.Lock()
	delete(a.failures, addressOf(r))
	a.mu.Unlock()
}

// mayNotOperate returns why a request with read access may not change anything, "" if it may.
func (a *Access) mayNotOperate() string {
	c := a.config.Load()
	switch {
	case !c.MayOperate():
		return "http.operate is false, or auto beyond loopback: set it to true to operate pipelines over HTTP"
	case !c.Loopback() && a.IsOpen():
		return "http.allow_insecure lets every machine in, so operations are refused: set http.token_file or http.users_file"
	}
	return ""
}

// addressOf is the address of the client, without its port.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
