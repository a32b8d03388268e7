package config

import (
	"errors"
	"fmt"
	"net/url"
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

	jwt, seed string // the values, if a context contains them
}

// Identity is what a connection presents to the server.
type Identity struct {
	User, Password, Token, JWT string
	Seed                       string // signs the nonce of the server
}

// Read reads the files. The error never contains a secret.
func (l Login) Read() (id Identity, err error) {
	id = Identity{User: l.User, Password: l.Password, Token: l.Token, JWT: l.jwt, Seed: l.seed}
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
		if id.JWT, id.Seed, err = readCreds(l.Creds); err != nil {
			return Identity{}, fmt.Errorf("nats.creds: %w", cause(err))
		}
	}
	return id, nil
}

// Name describes the login in messages: its source, without its secret.
func (l Login) Name() string {
	switch {
	case l.Creds != "":
		return "nats.creds " + l.Creds
	case l.JWT != "":
		return "nats.jwt " + l.JWT
	case l.NKey != "":
		return "nats.nkey " + l.NKey
	case l.TokenFile != "":
		return "nats.token_file " + l.TokenFile
	case l.PasswordFile != "":
		return "nats.password_file " + l.PasswordFile
	case l.Token != "":
		return "the token"
	case l.User != "":
		return "user and password"
	case l.jwt != "":
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

func withScheme(address string) string {
	address = strings.TrimSpace(address)
	if address != "" && !strings.Contains(address, "://") {
		return "nats://" + address
	}
	return address
}
