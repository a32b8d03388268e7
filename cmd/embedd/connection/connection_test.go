package connection

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/internal/link"
	"github.com/embedd/embedd/internal/testsize"
)

func TestMain(m *testing.M) {
	testsize.AtOnce(8)
	os.Exit(m.Run())
}

// serve starts a real server until the test ends.
func serve(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoSigs, o.NoLog, o.AuthTimeout = "127.0.0.1", true, true, 60
	if o.Port == 0 {
		o.Port = link.FreePort(t)
	}
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(3 * time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	return s
}

// address returns the address of a server, with a user.
func address(s *server.Server, user string) string {
	if user != "" {
		user += "@"
	}
	return "nats://" + user + s.Addr().String()
}

func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// must is for calls that fail only if the machine does.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// user is a key pair with its seed and public key.
func user(t *testing.T) (key nkeys.KeyPair, seed, public string) {
	t.Helper()
	key = must(nkeys.CreateUser())
	return key, string(must(key.Seed())), must(key.PublicKey())
}

// operator is a chain of trust, and the options of a server that trusts it.
type operator struct {
	account nkeys.KeyPair
	options server.Options
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	root := must(nkeys.CreateOperator())
	o := &operator{account: must(nkeys.CreateAccount())}
	claims := jwt.NewOperatorClaims(must(root.PublicKey()))
	trusted := must(jwt.DecodeOperatorClaims(must(claims.Encode(root))))
	public := must(o.account.PublicKey())
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(public, must(jwt.NewAccountClaims(public).Encode(root))); err != nil {
		t.Fatal(err)
	}
	o.options = server.Options{TrustedOperators: []*jwt.OperatorClaims{trusted}, AccountResolver: resolver}
	return o
}

// sign returns a user's JWT.
func (o *operator) sign(public string, change func(*jwt.UserClaims)) string {
	claims := jwt.NewUserClaims(public)
	if change != nil {
		change(claims)
	}
	return must(claims.Encode(o.account))
}

func (o *operator) creds(t *testing.T, dir, name string, change func(*jwt.UserClaims)) string {
	t.Helper()
	_, seed, public := user(t)
	return file(t, dir, name, string(must(jwt.FormatUserConfig(o.sign(public, change), []byte(seed)))))
}

func dial(t *testing.T, n config.NATS) (*Conn, error) {
	t.Helper()
	c, err := Dial(t.Context(), n, Options{Wait: 20 * time.Second})
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

// TestLogins: every kind of login connects, from the configuration and from a context.
func TestLogins(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	contexts := filepath.Join(dir, "nats", "context")
	if err := os.MkdirAll(contexts, 0o700); err != nil {
		t.Fatal(err)
	}
	_, seed, public := user(t)
	o := newOperator(t)
	_, jwtSeed, jwtPublic := user(t)
	token := o.sign(jwtPublic, nil)
	withJWT := serve(t, o.options)
	withUser := serve(t, server.Options{Username: "u", Password: "p@ss:word"})
	withToken := serve(t, server.Options{Authorization: "hunter2"})
	withKey := serve(t, server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})

	seedFile, jwtFile := file(t, dir, "seed", seed+"\n"), file(t, dir, "jwt", token)
	creds := file(t, dir, "u.creds", string(must(jwt.FormatUserConfig(token, []byte(jwtSeed)))))
	for _, c := range []struct {
		name   string
		server *server.Server
		n      config.NATS
		file   map[string]any // the same as a context
	}{
		{"user", withUser, config.NATS{Login: config.Login{User: "u", Password: "p@ss:word"}},
			map[string]any{"user": "u", "password": "p@ss:word"}},
		{"password file", withUser, config.NATS{Login: config.Login{User: "u",
			PasswordFile: file(t, dir, "password", "p@ss:word\n")}}, nil},
		{"user in the address", withUser, config.NATS{URL: address(withUser, "u:p%40ss%3Aword")},
			map[string]any{"url": address(withUser, "u:p%40ss%3Aword")}},
		{"token", withToken, config.NATS{Login: config.Login{Token: "hunter2"}}, map[string]any{"token": "hunter2"}},
		{"token file", withToken, config.NATS{Login: config.Login{TokenFile: file(t, dir, "token", "hunter2\n")}}, nil},
		{"token in the address", withToken, config.NATS{URL: address(withToken, "hunter2")}, nil},
		{"nkey", withKey, config.NATS{Login: config.Login{NKey: seedFile}}, map[string]any{"nkey": seedFile}},
		{"jwt and seed", withJWT, config.NATS{Login: config.Login{JWT: jwtFile,
			NKey: file(t, dir, "jwtseed", jwtSeed)}}, map[string]any{"user_jwt": token, "user_seed": jwtSeed}},
		{"creds", withJWT, config.NATS{Login: config.Login{Creds: creds}}, map[string]any{"creds": creds}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := c.n
			if n.URL == "" {
				n.URL = address(c.server, "")
			}
			nc, err := dial(t, n)
			if err != nil {
				t.Fatal(err)
			}
			if url := nc.ConnectedUrl(); strings.Contains(url, "@") {
				t.Errorf("the client knows the address as %s", url)
			}
			if c.file == nil {
				return
			}
			if c.file["url"] == nil {
				c.file["url"] = address(c.server, "")
			}
			c.file["inbox_prefix"] = "_INBOX_me"
			file(t, contexts, "one.json", string(must(json.Marshal(c.file))))
			if nc, err = dial(t, config.NATS{Context: "one"}); err != nil {
				t.Fatal(err)
			}
			if inbox := nc.NewInbox(); !strings.HasPrefix(inbox, "_INBOX_me.") {
				t.Errorf("the context's inbox prefix is not used: %s", inbox)
			}
		})
	}
	if _, err := dial(t, config.NATS{Context: "other"}); err == nil ||
		!strings.Contains(err.Error(), `unknown context "other"`) {
		t.Errorf("a context that is not there: %v", err)
	}
}

// TestRefused: one clear error at once, which names the login and contains no secret.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	o := newOperator(t)
	_, seed, _ := user(t)
	withJWT := serve(t, o.options)
	withUser := serve(t, server.Options{Username: "u", Password: "right"})
	at := time.Now().Add(-time.Hour)
	expired := o.creds(t, dir, "expired.creds", func(c *jwt.UserClaims) { c.Expires = at.Unix() })
	otherOperator := newOperator(t).creds(t, dir, "otherOperator.creds", nil)
	for _, c := range []struct {
		name   string
		server *server.Server
		login  config.Login
		want   string
	}{
		{"wrong password", withUser, config.Login{User: "u", Password: "hunter2"}, "user and password; check that"},
		{"wrong token", withUser, config.Login{Token: "hunter2"}, "the token; check that"},
		{"missing", withUser, config.Login{}, "requires credentials, and none are set; set nats.creds"},
		{"expired", withJWT, config.Login{Creds: expired}, expired + " expired at " + at.UTC().Format(time.RFC3339)},
		{"of another operator", withJWT, config.Login{Creds: otherOperator}, otherOperator + "; check that"},
		{"not there", withJWT, config.Login{Creds: filepath.Join(dir, "none")}, "no such file"},
		{"no key", withUser, config.Login{NKey: file(t, dir, "seed", seed)}, "does not support NKeys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			_, err := dial(t, config.NATS{URL: address(c.server, ""), Login: c.login})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), seed)) {
				t.Errorf("a secret is in %v", err)
			}
			if d := time.Since(begin); d > time.Minute {
				t.Errorf("it took %v", d)
			}
		})
	}
	for _, url := range []string{"nats://u:hunter2@:%zz", "nats://u:hunter2@h%zz",
		"nats://a:hunter2@h,nats://b:hunter2@h"} {
		if _, err := dial(t, config.NATS{URL: url}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestRotated: a login that is refused for a while, and then changed, restores the connection.
func TestRotated(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	contexts := filepath.Join(dir, "nats", "context")
	if err := os.MkdirAll(contexts, 0o700); err != nil {
		t.Fatal(err)
	}
	_, seed1, public1 := user(t)
	_, seed2, public2 := user(t)
	keys := func(public string) server.Options {
		return server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}}
	}
	o := newOperator(t)
	expiring := filepath.Join(dir, "expiring.creds")
	of := func(password string) server.Options { return server.Options{Username: "u", Password: password} }
	byContext := func(password string) string { return `{"user":"u","password":"` + password + `"}` }
	for _, c := range []struct {
		name          string
		before, after server.Options
		n             config.NATS
		path          string
		old, new      string // content of the file
	}{
		{"password", of("one"), of("two"),
			config.NATS{Login: config.Login{User: "u", PasswordFile: filepath.Join(dir, "password")}},
			filepath.Join(dir, "password"), "one", "two"},
		{"token", server.Options{Authorization: "one"}, server.Options{Authorization: "two"},
			config.NATS{Login: config.Login{TokenFile: filepath.Join(dir, "token")}},
			filepath.Join(dir, "token"), "one", "two"},
		{"nkey", keys(public1), keys(public2), config.NATS{Login: config.Login{NKey: filepath.Join(dir, "seed")}},
			filepath.Join(dir, "seed"), seed1, seed2},
		{"context", of("one"), of("two"), config.NATS{Context: "r"}, filepath.Join(contexts, "r.json"),
			byContext("one"), byContext("two")},
		{"creds that expire", o.options, o.options, config.NATS{Login: config.Login{Creds: expiring}}, expiring,
			"", string(must(os.ReadFile(o.creds(t, dir, "new.creds", nil))))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.before)
			n, old, fresh := c.n, c.old, c.new
			if n.Context == "" {
				n.URL = address(s, "")
			} else {
				url := `{"url":"` + address(s, "") + `",`
				old, fresh = strings.Replace(old, "{", url, 1), strings.Replace(fresh, "{", url, 1)
			}
			var nc *Conn
			if c.path == expiring { // its validity begins now, and ends if the machine pauses
				until(t, func() bool {
					o.creds(t, dir, "expiring.creds", func(c *jwt.UserClaims) { c.Expires = time.Now().Add(3 * time.Second).Unix() })
					var err error
					nc, err = dial(t, n)
					return err == nil
				})
			} else {
				file(t, filepath.Dir(c.path), filepath.Base(c.path), old)
				nc = must(dial(t, n))
			}
			after := c.after
			after.Host, after.Port, after.NoSigs, after.NoLog = "127.0.0.1", s.Addr().(*net.TCPAddr).Port, true, true
			s.Shutdown()
			s.WaitForShutdown()
			s = serve(t, after)
			// Three refusals are one more than the client tolerates by itself.
			until(t, func() bool { return refusals(s) >= 3 })
			// A server may close the connection before the client has read why.
			until(t, func() bool { return strings.Contains(nc.Trouble(), "refused the credentials") })
			if nc.IsClosed() {
				t.Error("it gave up")
			}
			begin := refusals(s)
			if err := os.WriteFile(c.path, []byte(fresh), 0o600); err != nil {
				t.Fatal(err)
			}
			until(t, func() bool { return nc.IsConnected() && nc.Trouble() == "" })
			if n := refusals(s) - begin; n > 3 {
				t.Errorf("%d refusals after the file was right", n)
			}
		})
	}
}

// ample is a timeout for events that must happen: only a failing test waits that long, however busy the machine is.
const ample = 10 * time.Minute

func until(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(ample); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v", ample)
		}
	}
}

// refusals returns how many clients a server disconnected because of their login.
func refusals(s *server.Server) (n int) {
	z, err := s.Connz(&server.ConnzOptions{State: server.ConnClosed})
	if err != nil {
		return 0
	}
	for _, c := range z.Conns {
		if strings.Contains(c.Reason, "Authentication") {
			n++
		}
	}
	return n
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() *authority {
	a := &authority{key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	a.cert = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey,
		a.key))))
	return a
}

// issue writes a certificate and its key.
func (a *authority) issue(t *testing.T, dir, name string, ends time.Time, hosts ...string) (cert, key string) {
	t.Helper()
	k := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: ends, DNSNames: hosts,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if len(hosts) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der := must(x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key))
	return file(t, dir, name+".pem", encode("CERTIFICATE", der)),
		file(t, dir, name+".key", encode("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(k))))
}

func (a *authority) file(t *testing.T, dir, name string) string {
	t.Helper()
	return file(t, dir, name, encode("CERTIFICATE", a.cert.Raw))
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// options are those of a server that speaks TLS.
func (a *authority) options(cert, key string, clients, first bool) server.Options {
	o := server.Options{TLSHandshakeFirst: first, TLSTimeout: 60,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{must(tls.LoadX509KeyPair(cert, key))}}}
	if clients {
		o.TLSConfig.ClientAuth, o.TLSConfig.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		o.TLSConfig.ClientCAs.AddCert(a.cert)
	}
	return o
}

// TestTLS: each way to use TLS works, and the error of each mistake has its fix.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, other := newAuthority(), newAuthority()
	ca, otherCA := ours.file(t, dir, "ca.pem"), other.file(t, dir, "other.pem")
	soon := time.Now().Add(time.Hour)
	cert, key := ours.issue(t, dir, "server", soon)
	named, namedKey := ours.issue(t, dir, "named", soon, "nats.example.org")
	old, oldKey := ours.issue(t, dir, "old", time.Now().Add(-time.Hour))
	mine, myKey := ours.issue(t, dir, "mine", soon)
	unknown, unknownKey := other.issue(t, dir, "unknown", soon)

	plain := serve(t, server.Options{})
	secure := serve(t, ours.options(cert, key, false, false))
	first := serve(t, ours.options(cert, key, false, true))
	mutual := serve(t, ours.options(cert, key, true, false))
	mutualFirst := serve(t, ours.options(cert, key, true, true))
	wrongName := serve(t, ours.options(named, namedKey, false, false))
	expired := serve(t, ours.options(old, oldKey, false, false))
	for _, c := range []struct {
		name   string
		server *server.Server
		tls    config.TLS
		want   string // of the error; "" is a connection
	}{
		{"TLS", secure, config.TLS{CA: ca}, ""},
		{"TLS first", first, config.TLS{CA: ca, First: true}, ""},
		{"mutual", mutual, config.TLS{CA: ca, Cert: mine, Key: myKey}, ""},
		{"mutual first", mutualFirst, config.TLS{CA: ca, Cert: mine, Key: myKey, First: true}, ""},
		{"no authority", secure, config.TLS{}, "set nats.tls.ca to the file of its certificate"},
		{"wrong authority", secure, config.TLS{CA: otherCA}, "set nats.tls.ca to the file of its certificate"},
		{"wrong name", wrongName, config.TLS{CA: ca}, "the certificate of the server is for other names"},
		{"expired", expired, config.TLS{CA: ca}, "the certificate of the server has expired"},
		{"no client certificate", mutual, config.TLS{CA: ca}, "set nats.tls.cert and nats.tls.key"},
		{"no client certificate, first", mutualFirst, config.TLS{CA: ca, First: true},
			"set nats.tls.cert and nats.tls.key"},
		{"a certificate of another authority", mutual, config.TLS{CA: ca, Cert: unknown, Key: unknownKey},
			"must be signed by an authority that the server trusts"},
		{"TLS first on a port without", secure, config.TLS{CA: ca, First: true}, "delete nats.tls.first"},
		{"a port that begins with TLS", first, config.TLS{CA: ca}, "set nats.tls.first to true"},
		{"no TLS there", plain, config.TLS{CA: ca}, "the server has no TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wait := 30 * time.Second
			if c.server == first && c.want != "" { // nothing ends the wait early
				wait = time.Second
			}
			nc, err := Dial(t.Context(), config.NATS{URL: address(c.server, ""), TLS: c.tls}, Options{Wait: wait})
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want == "":
				nc.Close()
			case err == nil || !strings.Contains(err.Error(), c.want):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// embedd waits for a server that starts later; a server that does not start is an error with the fix; and a signal ends
// the wait.
func TestDialWaits(t *testing.T) {
	t.Parallel()
	port := link.FreePort(t)
	n := config.NATS{URL: fmt.Sprint("nats://u:hunter2@127.0.0.1:", port)}

	_, err := Dial(t.Context(), n, Options{Wait: time.Second})
	if err == nil || !strings.Contains(err.Error(), "start one (nats-server -js)") ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("no server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, n, Options{Wait: time.Minute}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled wait: %v", err)
	}
	connected := make(chan error, 1)
	go func() {
		nc, err := Dial(t.Context(), n, Options{Wait: time.Minute})
		if err == nil {
			nc.Close()
		}
		connected <- err
	}()
	time.Sleep(2 * retryPause)
	serve(t, server.Options{Port: port, Username: "u", Password: "hunter2"})
	if err := <-connected; err != nil {
		t.Errorf("a server that starts later: %v", err)
	}
}

// TestDialOfSlowServer: a server that answers later than the client waits by default is reached within the wait.
func TestDialOfSlowServer(t *testing.T) {
	t.Parallel()
	s := serve(t, server.Options{})
	slow := must(net.Listen("tcp", "127.0.0.1:0"))
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { slow.Close() })
	wg.Go(func() {
		for {
			client, err := slow.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer client.Close()
				time.Sleep(nats.DefaultTimeout + time.Second/2)
				up, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer up.Close()
				wg.Go(func() {
					defer up.Close()
					_, _ = io.Copy(up, client)
				})
				_, _ = io.Copy(client, up)
			})
		}
	})
	c, err := Dial(t.Context(), config.NATS{URL: "nats://" + slow.Addr().String()}, Options{Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestTLSRotated: certificate files are read again, and problems with them are reported.
func TestTLSRotated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, other := newAuthority(), newAuthority()
	soon := time.Now().Add(time.Hour)
	cert, key := ours.issue(t, dir, "server", soon)
	s := serve(t, ours.options(cert, key, false, false))
	ca := ours.file(t, dir, "ca.pem")
	nc, err := dial(t, config.NATS{URL: address(s, ""), TLS: config.TLS{CA: ca}})
	if err != nil {
		t.Fatal(err)
	}
	port := s.Addr().(*net.TCPAddr).Port
	s.Shutdown()
	s.WaitForShutdown()
	cert, key = other.issue(t, dir, "another", soon)
	options := other.options(cert, key, false, false)
	options.Port = port
	serve(t, options)
	until(t, func() bool { return strings.Contains(nc.Trouble(), "of the server is not trusted") })
	other.file(t, dir, "ca.pem")
	until(t, func() bool { return nc.Trouble() == "" })
}

// TestNoStorm: a refused login is retried less and less often.
func TestNoStorm(t *testing.T) {
	t.Parallel()
	c := &Conn{log: slog.New(slog.DiscardHandler), target: target{login: func() (config.Login, error) {
		return config.Login{}, nil
	}}}
	c.recordFailure(nats.ErrAuthorization)
	var before, sum time.Duration
	for i := range 20 {
		wait := c.backoff(i)
		if wait < before*3/4 || wait > longRefusal*5/4 {
			t.Errorf("attempt %d waits %v after %v", i, wait, before)
		}
		before, sum = wait, sum+wait
	}
	if sum < 2*time.Minute {
		t.Errorf("twenty attempts within %v", sum)
	}
}

// TestDomain: JetStream requests go to the domain.
func TestDomain(t *testing.T) {
	t.Parallel()
	s := serve(t, server.Options{JetStream: true, JetStreamDomain: "hub", StoreDir: t.TempDir()})
	ctx, cancel := context.WithTimeout(t.Context(), ample)
	defer cancel()
	for domain, works := range map[string]bool{"": true, "hub": true, "moon": false} {
		nc, err := dial(t, config.NATS{URL: address(s, ""), Domain: domain})
		if err != nil {
			t.Fatal(err)
		}
		js, err := nc.JetStream()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = js.AccountInfo(ctx); (err == nil) != works || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("domain %q: %v", domain, err)
		}
	}
}

// A missing permission is named in the error of the request that gets no reply.
func TestDenied(t *testing.T) {
	t.Parallel()
	s := serve(t, server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{{Username: "u",
		Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"a"}}}}}})
	nc, err := dial(t, config.NATS{URL: address(s, "u:p")})
	if err != nil {
		t.Fatal(err)
	}
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = js.Stream(ctx, "S")
	if err == nil {
		t.Fatal("it is not denied")
	}
	until(t, func() bool { // however late the server reports it
		return strings.Contains(nc.Explain(err).Error(), "the server denied: publish to $JS.API.STREAM.INFO.S")
	})
	if !errors.Is(nc.Explain(err), err) {
		t.Errorf("%v", nc.Explain(err))
	}
}

// TestEnded: errors that no retry can fix are recognised.
func TestEnded(t *testing.T) {
	t.Parallel()
	nc, err := dial(t, config.NATS{URL: address(serve(t, server.Options{MaxPayload: 1000}), "")})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-nc.Ended():
		t.Fatal("it has ended before it began")
	default:
	}
	nc.Close()
	select {
	case <-nc.Ended():
	case <-time.After(time.Minute):
		t.Error("a connection that is closed has not ended")
	}
	if text := nc.Trouble(); !strings.Contains(text, "has ended") {
		t.Errorf("%q", text)
	}
}

// TestReceived: the bytes of an incomplete message count as received.
func TestReceived(t *testing.T) {
	t.Parallel()
	s := serve(t, server.Options{MaxPayload: 8 << 20})
	release := make(chan struct{})
	var passed atomic.Int64
	l := must(link.New(s.Addr().String(), nil, func(piece []byte) error {
		if passed.Add(int64(len(piece))) > 1<<20 {
			<-release
		}
		return nil
	}))
	t.Cleanup(l.Close)
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	nc, err := dial(t, config.NATS{URL: "nats://" + l.Address()})
	if err != nil {
		t.Fatal(err)
	}
	sub := must(nc.SubscribeSync("x"))
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	other := must(dial(t, config.NATS{URL: address(s, "")}))
	if err := other.Publish("x", make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); nc.Received() < 512<<10; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are counted of a message that has come in half", nc.Received())
		}
	}
	if n := nc.Stats().InMsgs; n > 0 {
		t.Errorf("%d messages are whole", n)
	}
	free()
	if _, err := sub.NextMsg(time.Minute); err != nil {
		t.Error(err)
	}
}
