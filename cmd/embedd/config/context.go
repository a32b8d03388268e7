package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Context is a context of the `nats` command line tool.
type Context struct {
	URL         string
	Login       Login
	TLS         TLS
	InboxPrefix string
	Domain      string // of JetStream
	APIPrefix   string // of JetStream
	Proxy       string // URL of a SOCKS proxy
}

// contextFile is a context as the tool writes it.
type contextFile struct {
	URL         string `json:"url"`
	Proxy       string `json:"socks_proxy"`
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
	Domain      string `json:"jetstream_domain"`
	APIPrefix   string `json:"jetstream_api_prefix"`
	InboxPrefix string `json:"inbox_prefix"`
	WindowsCert string `json:"windows_cert_store"`
}

// ReadContext reads a context: one of the tool's, by name, or a file, by its absolute path. The error holds no secret.
func ReadContext(name string) (*Context, error) {
	path := name
	if !filepath.IsAbs(name) {
		dir := os.Getenv("XDG_CONFIG_HOME")
		if dir == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("finding the contexts of the nats tool: %w; set XDG_CONFIG_HOME, or name the file of the context by its absolute path", err)
			}
			dir = filepath.Join(home, ".config")
		}
		path = filepath.Join(dir, "nats", "context", name+".json")
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("unknown context %q: there is no %s; `nats context ls` lists those that are there", name,
			path)
	}
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	var f contextFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("context %q: %s is not a context of the nats tool: want a JSON object", name, path)
	}
	if err := f.lookUp(); err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	if f.WindowsCert != "" {
		return nil, fmt.Errorf("context %q: certificates of the Windows store are not supported: name files in cert and key",
			name)
	}
	for _, secret := range []string{f.Token, f.Password, f.Seed, f.Creds, f.NKey} {
		if strings.HasPrefix(secret, "op://") {
			return nil, fmt.Errorf("context %q: secrets of 1Password (op://) are not supported: put the secret, or the file of it, into the context",
				name)
		}
	}
	c := &Context{URL: f.URL, InboxPrefix: f.InboxPrefix, Domain: f.Domain, APIPrefix: f.APIPrefix, Proxy: f.Proxy,
		TLS: TLS{CA: expandHome(f.CA), Cert: expandHome(f.Cert), Key: expandHome(f.Key), First: f.First}}
	// One login, in the tool's own order.
	switch {
	case f.User != "":
		c.Login.User, c.Login.Password = f.User, f.Password
	case f.Creds != "":
		c.Login.Creds = expandHome(os.ExpandEnv(f.Creds))
	case f.JWT != "":
		c.Login.jwt, c.Login.seed, c.Login.NKey = f.JWT, f.Seed, expandHome(f.NKey)
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

// lookUp asks nsc for what a context leaves to it.
func (f *contextFile) lookUp() error {
	if f.NSC == "" {
		return nil
	}
	if !strings.HasPrefix(f.NSC, "nsc://") { // it becomes an argument
		return errors.New("nsc names a user as nsc://OPERATOR/ACCOUNT/USER")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nsc", "generate", "profile", f.NSC).Output()
	if err != nil {
		return fmt.Errorf("asking nsc for its profile: %w; name the file of the credentials in creds", err)
	}
	var profile struct {
		Creds    string `json:"user_creds"`
		Operator struct {
			Service []string `json:"service"`
		} `json:"operator"`
	}
	if err := json.Unmarshal(out, &profile); err != nil {
		return errors.New("what nsc says of its profile is not understood; name the file of the credentials in creds")
	}
	if f.Creds == "" {
		f.Creds = profile.Creds
	}
	if f.URL == "" {
		f.URL = strings.Join(profile.Operator.Service, ",")
	}
	return nil
}

// check looks whether what a context names is what it should be.
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
