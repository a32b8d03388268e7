package config

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// Login is a user, a token, credentials or a key; none if it is empty. It contains secrets: do not print its fields.
type Login struct {
	User, Password, PasswordFile string
	Token, TokenFile             string
	Creds                        string // file of a JWT and its seed
	NKey, JWT                    string // files: a seed, and its JWT

	jwtText, seedText string // the values, if a context contains them
}

// Identity is what a connection presents to the server.
type Identity struct {
	User, Password, Token, JWT string
	Seed                       string // signs the nonce of the server
}

// Read reads the files. The error never contains a secret.
func (l Login) Read() (id Identity, err error) {
	id = Identity{User: l.User, Password: l.Password, Token: l.Token, JWT: l.jwtText, Seed: l.seedText}
	for _, f := range []struct {
		path string
		read func(string) (string, error)
		to   *string
		key  string
	}{{l.PasswordFile, readSecret, &id.Password, "password_file"}, {l.TokenFile, readSecret, &id.Token, "token_file"},
		{l.NKey, readSeed, &id.Seed, "nkey"}, {l.JWT, readJWT, &id.JWT, "jwt"}} {
		if f.path == "" {
			continue
		}
		if *f.to, err = f.read(f.path); err != nil {
			return Identity{}, fmt.Errorf("nats.%s: %w", f.key, cause(err))
		}
	}
	if l.Creds != "" {
		creds, err := readCreds(l.Creds)
		if err != nil {
			return Identity{}, fmt.Errorf("nats.creds: %w", cause(err))
		}
		id.JWT, id.Seed = creds.JWT, creds.Seed
	}
	return id, nil
}

// Name describes the login in messages: its source, without its secret.
func (l Login) Name() string {
	for _, file := range [][2]string{{"creds", l.Creds}, {"jwt", l.JWT}, {"nkey", l.NKey}, {"token_file", l.TokenFile},
		{"password_file", l.PasswordFile}} {
		if file[1] != "" {
			return "nats." + file[0] + " " + file[1]
		}
	}
	switch {
	case l.Token != "":
		return "the token"
	case l.User != "":
		return "user and password"
	case l.jwtText != "":
		return "the JWT"
	}
	return "no credentials"
}

// Public is the public key of the seed, "" if there is no seed.
func (id Identity) Public() (string, error) {
	if id.Seed == "" {
		return "", nil
	}
	key, err := nkeys.FromSeed([]byte(id.Seed))
	if err != nil {
		return "", errors.New("the seed is invalid")
	}
	defer key.Wipe()
	return key.PublicKey()
}

// Sign signs the nonce of a server.
func (id Identity) Sign(nonce []byte) ([]byte, error) {
	key, err := nkeys.FromSeed([]byte(id.Seed))
	if err != nil {
		return nil, errors.New("the seed is invalid")
	}
	defer key.Wipe()
	return key.Sign(nonce)
}

// Expires is the expiry of the JWT, the zero time if there is none.
func (id Identity) Expires() time.Time {
	claims, err := jwt.DecodeUserClaims(id.JWT)
	if id.JWT == "" || err != nil || claims.Expires == 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0)
}

// LoginOf is the login in a list of server URLs, empty if there is none.
func LoginOf(urls string) (Login, error) {
	var found Login
	for part := range strings.SplitSeq(urls, ",") {
		at := strings.LastIndex(part, "@")
		if at < 0 {
			continue
		}
		u, err := url.Parse(withScheme(part))
		if err != nil || u.User == nil {
			return Login{}, errors.New("the user in the URL cannot be parsed: set nats.user and nats.password_file, or " +
				"nats.token_file")
		}
		login := Login{Token: u.User.Username()}
		if password, ok := u.User.Password(); ok {
			login = Login{User: u.User.Username(), Password: password}
		}
		if found != (Login{}) && found != login {
			return Login{}, errors.New("the URLs have different users, and a connection has one login for all its servers: " +
				"set nats.user and nats.password_file, or nats.token_file")
		}
		found = login
	}
	return found, nil
}

// Servers are the server URLs without their users.
func Servers(urls string) (out []string) {
	for part := range strings.SplitSeq(urls, ",") {
		if part = withScheme(part); part == "" {
			continue
		}
		scheme, rest, _ := strings.Cut(part, "://")
		out = append(out, scheme+"://"+rest[strings.LastIndex(rest, "@")+1:])
	}
	return out
}

// Context is a context of the nats CLI.
type Context struct {
	URL         string `json:"url"`
	Login       Login  `json:"-"`
	TLS         TLS    `json:"-"`
	InboxPrefix string `json:"inbox_prefix"`
	Domain      string `json:"jetstream_domain"`
	APIPrefix   string `json:"jetstream_api_prefix"`
	Proxy       string `json:"socks_proxy"` // URL
}

// contextFile is the file format of the nats CLI.
type contextFile struct {
	Context
	Token       string `json:"token"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Creds       string `json:"creds"`
	NKey        string `json:"nkey"`
	JWT         string `json:"user_jwt"`
	Seed        string `json:"user_seed"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	First       bool   `json:"tls_first"`
	NSC         string `json:"nsc"`
	WindowsCert string `json:"windows_cert_store"`
}

// ReadContext reads a context by its name or by the absolute path of its file. The error contains no secret.
func ReadContext(name string) (*Context, error) {
	path := name
	if !filepath.IsAbs(name) {
		dir := os.Getenv("XDG_CONFIG_HOME")
		if dir == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("finding the contexts of the nats CLI: %w; set XDG_CONFIG_HOME, or give the absolute "+
					"path of the context file", err)
			}
			dir = filepath.Join(home, ".config")
		}
		path = filepath.Join(dir, "nats", "context", name+".json")
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("unknown context %q: %s does not exist; `nats context ls` lists the contexts", name, path)
	}
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	var f contextFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("context %q: %s is not a context of the nats CLI: want a JSON object", name, path)
	}
	if err := f.lookUp(); err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	if f.WindowsCert != "" {
		return nil, fmt.Errorf("context %q: certificates of the Windows store are not supported: set cert and key to files",
			name)
	}
	for _, secret := range []string{f.Token, f.Password, f.Seed, f.Creds, f.NKey} {
		if strings.HasPrefix(secret, "op://") {
			return nil, fmt.Errorf("context %q: secrets of 1Password (op://) are not supported: put the secret or its file "+
				"into the context", name)
		}
	}
	c := &f.Context
	c.TLS = TLS{CA: expandHome(f.CA), Cert: expandHome(f.Cert), Key: expandHome(f.Key), First: f.First}
	// A connection has one login; the order is that of the nats CLI.
	switch {
	case f.User != "":
		c.Login.User, c.Login.Password = f.User, f.Password
	case f.Creds != "":
		c.Login.Creds = expandHome(os.ExpandEnv(f.Creds))
	case f.JWT != "":
		c.Login.jwtText, c.Login.seedText, c.Login.NKey = f.JWT, f.Seed, expandHome(f.NKey)
	case f.NKey != "":
		c.Login.NKey = expandHome(f.NKey)
	case f.Token != "":
		c.Login.Token = f.Token
	default:
		if c.Login, err = LoginOf(f.URL); err != nil {
			return nil, fmt.Errorf("context %q: %w", name, err)
		}
	}
	return c, nil
}

// lookUp asks nsc for the fields that the context leaves to nsc.
func (f *contextFile) lookUp() error {
	if f.NSC == "" {
		return nil
	}
	if !strings.HasPrefix(f.NSC, "nsc://") { // it becomes an argument
		return errors.New("want nsc as nsc://OPERATOR/ACCOUNT/USER")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nsc", "generate", "profile", f.NSC).Output()
	if err != nil {
		return fmt.Errorf("running nsc generate profile: %w; set creds to the credentials file instead", err)
	}
	var profile struct {
		Creds    string `json:"user_creds"`
		Operator struct {
			Service []string `json:"service"`
		} `json:"operator"`
	}
	if err := json.Unmarshal(out, &profile); err != nil {
		return errors.New("the profile that nsc printed cannot be parsed; set creds to the credentials file instead")
	}
	f.Creds = cmp.Or(f.Creds, profile.Creds)
	f.URL = cmp.Or(f.URL, strings.Join(profile.Operator.Service, ","))
	return nil
}

// check checks the URL and the files of a context.
func (c *Context) check() error {
	if err := CheckURL(c.URL); err != nil && c.URL != "" {
		return fmt.Errorf("the context's url: %w", err)
	}
	if _, err := c.Login.Read(); err != nil {
		return fmt.Errorf("the context: %w", err)
	}
	if c.TLS.CA != "" {
		if err := holdsCertificates(c.TLS.CA); err != nil {
			return fmt.Errorf("the context's ca: %w", err)
		}
	}
	if c.TLS.Cert != "" || c.TLS.Key != "" {
		if err := holdsPair(c.TLS.Cert, c.TLS.Key); err != nil {
			return fmt.Errorf("the context's cert and key: %w", err)
		}
	}
	return nil
}

func expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	home, err := os.UserHomeDir()
	if !ok || err != nil {
		return path
	}
	return filepath.Join(home, rest)
}
