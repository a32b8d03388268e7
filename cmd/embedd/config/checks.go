package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// checkPattern checks a subject to subscribe to.
func checkPattern(s string) error {
	if err := checkTokens(s); err != nil {
		return err
	}
	tokens := strings.Split(s, ".")
	for i, t := range tokens {
		if t == ">" && i < len(tokens)-1 {
			return errors.New("the wildcard > is allowed only at the end")
		}
		if t != ">" && t != "*" && strings.ContainsAny(t, "*>") {
			return fmt.Errorf("a wildcard is a whole token: %q has one inside", t)
		}
	}
	if s == ">" {
		return errors.New("> would match the output too: name the subject")
	}
	return nil
}

// checkSubject checks a subject to publish to.
func checkSubject(s string) error {
	if err := checkTokens(s); err != nil {
		return err
	}
	if strings.ContainsAny(s, "*>") {
		return errors.New("a subject to publish to has no wildcard")
	}
	return nil
}

// checkDestination checks a subject to publish to that may have tokens of the input's.
func checkDestination(s string) error { return checkSubject(wildcardTokens.ReplaceAllString(s, "x")) }

var wildcardTokens = regexp.MustCompile(`\{\{[^{}\s]*\}\}`)

func checkTokens(s string) error {
	switch {
	case s == "":
		return errors.New("the subject is empty")
	case len(s) > 512:
		return fmt.Errorf("a subject has at most 512 characters, this has %d", len(s))
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return errors.New("a subject has no spaces or control characters")
	case slices.Contains(strings.Split(s, "."), ""):
		return errors.New("a subject has no empty token: check the dots")
	case strings.HasPrefix(s, "$") || strings.HasPrefix(s, "_INBOX."):
		return errors.New("subjects that begin with $ or _INBOX belong to the server")
	}
	return nil
}

var pipelineName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// unless returns a check that fails with a fixed text if the value does not satisfy holds.
func unless(holds func(string) bool, text string) func(string) error {
	return func(s string) error {
		if !holds(s) {
			return errors.New(text)
		}
		return nil
	}
}

// isStreamName reports whether a stream or a domain can have this name.
func isStreamName(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s,
		func(r rune) bool { return r <= ' ' || strings.ContainsRune(`.*>/\`, r) || r == 0x7f })
}

func checkGlob(s string) error {
	if s == "" {
		return errors.New("want a column name or a glob")
	}
	if _, err := path.Match(s, ""); err != nil {
		return errors.New(`not a valid glob: * ? and [a-z] are wildcards, \[ is a literal bracket`)
	}
	return nil
}

// CheckURL checks a list of server URLs. The error never contains the URL, which may contain a password.
func CheckURL(s string) error {
	for part := range strings.SplitSeq(s, ",") {
		u, err := url.Parse(withScheme(part))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return errors.New("not a server URL: want nats://HOST:PORT (or tls, ws, wss), several separated by commas")
		}
		if strings.HasPrefix(u.Host, "$") {
			return errors.New("the host begins with $: a variable is written ${NAME}, with braces")
		}
	}
	return nil
}

func checkListen(s string) error {
	_, port, err := net.SplitHostPort(s)
	if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || n > 65535 {
		return errors.New("want HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8474")
	}
	return nil
}

var (
	checkStream = unless(isStreamName,
		`a stream's name has no spaces and none of . * > / \; without a stream delete this line`)
	checkDomain = unless(isStreamName,
		`a JetStream domain has no spaces and none of . * > / \; without domains delete this line`)
	checkInbox = unless(func(s string) bool {
		return !slices.Contains(strings.Split(s, "."), "") && !strings.ContainsAny(s, "*> \t\r\n")
	}, "want a subject prefix, such as _INBOX_embedd, without wildcards and without a trailing dot")
	checkContext = unless(func(s string) bool { return s != "" && !strings.Contains(s, "..") },
		"want the name of a context, as `nats context ls` lists them")
	checkNotEmpty = unless(func(s string) bool { return s != "" }, "want a name")
	checkHost     = unless(func(s string) bool { return s != "" && !strings.ContainsAny(s, ":/@ *") },
		"want the name of a host, without scheme and port, such as metrics.example.com")
)

func withScheme(address string) string {
	address = strings.TrimSpace(address)
	if address != "" && !strings.Contains(address, "://") {
		return "nats://" + address
	}
	return address
}
