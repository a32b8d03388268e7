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
)

// beside is where a path of the file leads: beside the file. One that is only below the working directory is taken from
// there, where all of them once were.
func (d *document) beside(key, path string) string {
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
		d.note(key, "taken from the working directory; a path belongs beside the configuration, in %s", dir)
		return path
	default:
		d.note(key, "the working directory has one too; the one beside the configuration, in %s, is taken", dir)
	}
	return here
}

// cause is what is wrong with a file, without its path: the place in the configuration says which, and a path that is
// none may be a secret that was put there by mistake.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("the file cannot be read: %w", path.Err)
	}
	return err
}

func readable(path string) error {
	f, err := os.Open(path)
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
			return fmt.Errorf("%s holds a certificate that cannot be read: %w", path, err)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("%s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", path)
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
	return errors.New("the file holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)")
}

// holdsPair looks whether a key is that of a certificate.
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

func holdsCreds(path string) error {
	_, _, err := readCreds(path)
	return cause(err)
}

func holdsSeed(path string) error {
	_, err := readSeed(path)
	return cause(err)
}

func holdsJWT(path string) error {
	_, err := readJWT(path)
	return cause(err)
}

func holdsSecret(path string) error {
	_, err := readSecret(path)
	return cause(err)
}

// readSecret is the one line of a file.
func readSecret(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" || strings.ContainsAny(text, "\r\n\x00") {
		return "", errors.New("the file must hold the secret alone, in one line")
	}
	return text, nil
}

func readSeed(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return seedIn(data)
}

// seedIn finds a user's seed, bare or decorated.
func seedIn(data []byte) (string, error) {
	key, err := nkeys.ParseDecoratedNKey(bytes.TrimSpace(data))
	if err != nil {
		return "", errors.New("the file holds no NKey seed (SU...)")
	}
	defer key.Wipe()
	public, err := key.PublicKey()
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return "", errors.New("the file holds the seed of something else than a user: a user's begins with SU")
	}
	seed, err := key.Seed()
	return string(seed), err
}

func readJWT(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return jwtIn(data)
}

// jwtIn finds a user's JWT, bare or decorated.
func jwtIn(data []byte) (string, error) {
	text, err := nkeys.ParseDecoratedJWT(data)
	if err == nil {
		text = strings.TrimSpace(text)
		_, err = jwt.DecodeUserClaims(text)
	}
	if err != nil {
		return "", errors.New("the file holds no user's JWT")
	}
	return text, nil
}

// readCreds is the JWT and the seed of a credentials file.
func readCreds(path string) (token, seed string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	if token, err = jwtIn(data); err == nil {
		seed, err = seedIn(data)
	}
	return token, seed, err
}
