package config

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// removed takes the place of a value in a redacted configuration.
const removed = "REMOVED"

// Redacted returns the text of a configuration for a report to others: without comments, without the values of keys
// that hold secrets, and without those of unknown keys, which may be misspelt ones. Of URLs the users and passwords are
// removed.
func Redacted(text []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("the file is not YAML, so its secrets cannot be distinguished from the rest: %w", err)
	}
	redact(&doc, "")
	return yaml.Marshal(&doc)
}

// redact redacts what is at a path.
func redact(n *yaml.Node, path string) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			key.HeadComment, key.LineComment, key.FootComment = "", "", ""
			redact(n.Content[i+1], strings.TrimPrefix(path+"."+key.Value, "."))
			if strings.Contains(key.Value, "://") || isPasted(path, key.Value) {
				key.Value, key.Tag, key.Style = removed, "!!str", 0
			}
		}
	case yaml.ScalarNode:
		switch {
		case path == "nats.url" || isShown(path) && strings.Contains(n.Value, "://"):
			n.Value = Redact(n.Value)
		case !isShown(path) || isPasted(path, n.Value):
			n.Value, n.Tag, n.Style = removed, "!!str", 0
		}
	case yaml.AliasNode:
		n.Kind, n.Alias, n.Value, n.Tag = yaml.ScalarNode, nil, removed, "!!str"
	default:
		for _, c := range n.Content {
			redact(c, path)
		}
	}
	n.Anchor = ""
	if !strings.HasPrefix(n.Tag, "!!") {
		n.Tag = "" // it may be a word that another tool replaces by a secret
	}
}

// isPasted reports whether a value is a secret itself: a seed of nk, a JWT, a hash of bcrypt, or a private key. For a
// key that names a file, a host or a context it is one also if it has a user, more than a line, or the look of a token.
func isPasted(path, value string) bool {
	if secrets.MatchString(value) {
		return true
	}
	return (strings.HasPrefix(path, "nats.") || strings.HasPrefix(path, "http.")) &&
		(strings.ContainsAny(value, "@\n") || opaque.MatchString(value))
}

var (
	secrets = regexp.MustCompile(`S[A-Z2-7]{50,}|eyJ|\$2[abxy]\$|-----BEGIN`)
	opaque  = regexp.MustCompile(`^[A-Za-z0-9_+=-]{20,}$`)
)

// isShown reports whether the value at a path may be shown: that of a key that is no secret.
func isShown(path string) bool {
	parts := strings.Split(path, ".")
	if parts[0] == "pipelines" && len(parts) > 2 {
		parts[1] = "*"
	}
	if parts[0] == "nats" && len(parts) == 4 && parts[1] == "users" { // a login, as in nats
		parts = []string{"nats", parts[3]}
	}
	path = strings.Join(parts, ".")
	for _, f := range spec {
		if f.path == path || strings.HasPrefix(path, f.path+".") {
			return !f.secret
		}
	}
	return false
}
