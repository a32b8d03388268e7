package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"
)

// resolvePath resolves a path relative to the configuration file. A path that exists only in the working directory
// resolves there, as in older versions.
func (d *document) resolvePath(key, path string) string {
	dir := filepath.Dir(d.file)
	if filepath.IsAbs(path) || dir == "." {
		return path
	}
	here := filepath.Join(dir, path)
	a, missing := os.Stat(here)
	b, err := os.Stat(path)
	switch {
	case err != nil || missing == nil && os.SameFile(a, b):
	case missing != nil:
		d.note(key, "read in the working directory; a path should be relative to the configuration, in %s", dir)
		return path
	default:
		d.note(key, "the working directory has one too; the one relative to the configuration, in %s, is used", dir)
	}
	return here
}

// cause is the error without the path of the file: the position in the configuration identifies it, and the path may be
// a secret that was put there by mistake.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("the file cannot be read: %w", path.Err)
	}
	return err
}

func readable(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: `embedd fit` or `embedd model export` writes one", err)
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func holdsCertificates(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	found := false
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("%s has a certificate that cannot be parsed: %w", path, err)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no PEM certificate (-----BEGIN CERTIFICATE-----)", path)
	}
	return nil
}

func holdsKey(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return cause(err)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return nil
		}
	}
	return errors.New("the file has no PEM private key (-----BEGIN PRIVATE KEY-----)")
}

// holdsPair checks that a key belongs to a certificate.
func holdsPair(cert, key string) error {
	if err := holdsCertificates(cert); err != nil {
		return err
	}
	if err := holdsKey(key); err != nil {
		return err
	}
	_, err := tls.LoadX509KeyPair(cert, key)
	return err
}

// holds is the check of the content of a file that a function reads.
func holds[T any](read func(path string) (T, error)) func(path string) error {
	return func(path string) error {
		_, err := read(path)
		return cause(err)
	}
}

// The files of a login, without those of credentials.
var readSecret, readSeed, readJWT = fileOf(secretIn), fileOf(seedIn), fileOf(jwtIn)

// fileOf reads files whose content a function parses.
func fileOf(parse func([]byte) (string, error)) func(path string) (string, error) {
	return func(path string) (string, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		return parse(data)
	}
}

// secretIn is the text of a file of one line.
func secretIn(data []byte) (string, error) {
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" || strings.ContainsAny(text, "\r\n\x00") {
		return "", errors.New("the file must contain only the secret, in one line")
	}
	return text, nil
}

// seedIn finds the seed of a user, bare or decorated.
func seedIn(data []byte) (string, error) {
	key, err := nkeys.ParseDecoratedNKey(bytes.TrimSpace(data))
	if err != nil {
		return "", errors.New("the file has no NKey seed (SU...)")
	}
	defer key.Wipe()
	public, err := key.PublicKey()
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return "", errors.New("the seed in the file is not of a user: a user seed begins with SU")
	}
	seed, err := key.Seed()
	return string(seed), err
}

// jwtIn finds the JWT of a user, bare or decorated.
func jwtIn(data []byte) (string, error) {
	text, err := nkeys.ParseDecoratedJWT(data)
	if err == nil {
		text = strings.TrimSpace(text)
		_, err = jwt.DecodeUserClaims(text)
	}
	if err != nil {
		return "", errors.New("the file has no user JWT")
	}
	return text, nil
}

// readCreds reads the JWT and the seed of a credentials file.
func readCreds(path string) (id Identity, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return id, err
	}
	if id.JWT, err = jwtIn(data); err == nil {
		id.Seed, err = seedIn(data)
	}
	return id, err
}

// maxUsersFile bounds a file of users, in bytes.
const maxUsersFile = 1 << 20

// ReadUsers reads users and the bcrypt hashes of their passwords: basic_auth_users of the web configuration file of
// Prometheus, whose other keys are ignored. The error contains no hash.
func ReadUsers(path string) (map[string]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxUsersFile {
		return nil, fmt.Errorf("the file has %d bytes; want at most %d", info.Size(), maxUsersFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var web struct {
		Users map[string]string `yaml:"basic_auth_users"`
	}
	if yaml.Unmarshal(data, &web) != nil || len(web.Users) == 0 {
		return nil, errors.New("the file has no `basic_auth_users: {NAME: BCRYPT_HASH}`")
	}
	for name, hash := range web.Users {
		if cost, err := bcrypt.Cost([]byte(hash)); name == "" || err != nil || cost > maxCost {
			return nil, fmt.Errorf("user %q has no bcrypt hash with a cost of at most %d: make one with `htpasswd -nB %s`", name,
				maxCost, name)
		}
	}
	return web.Users, nil
}

// maxCost bounds the time of a comparison: about a second.
const maxCost = 14
