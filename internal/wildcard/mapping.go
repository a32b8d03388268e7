package wildcard

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Mapping makes a subject of another one that matches a pattern, as a subject mapping of NATS does: the token
// {{wildcard(1)}} is the token at the first * of the pattern.
type Mapping struct {
	tokens  []string
	from    []int // the token of the subject to insert, by token; -1: the one in tokens
	pattern string
}

// MaxMapped is the maximum length of a subject that a mapping makes: a server accepts 4,096 bytes of a publish command,
// which has a reply subject too.
const MaxMapped = 2048

var insertion = regexp.MustCompile(`^\{\{wildcard\((\d{1,3})\)\}\}$`)

// ParseMapping reads the destination of a mapping of the subjects that match a pattern. A destination without braces is
// a subject, which all of them are mapped to.
func ParseMapping(pattern, destination string) (*Mapping, error) {
	m := &Mapping{pattern: Mapped(destination)}
	var stars []int
	for i, token := range strings.Split(pattern, ".") {
		if token == "*" {
			stars = append(stars, i)
		}
	}
	for i, token := range strings.Split(destination, ".") {
		from := -1
		if strings.ContainsAny(token, "{}") {
			found := insertion.FindStringSubmatch(token)
			if found == nil {
				return nil, fmt.Errorf("the token %q is no {{wildcard(1)}}, which is the token at the first * of %s; a token is a "+
					"word, or that alone", token, pattern)
			}
			n, _ := strconv.Atoi(found[1]) // of at most three digits
			if i == 0 {
				return nil, fmt.Errorf("the first token is %s, so a publisher could name any subject: begin with a word",
					token)
			}
			if n < 1 || n > len(stars) {
				return nil, fmt.Errorf("%s needs at least %d * in the input's subject, and %s has %d: write a * for the token "+
					"that the output's subject takes", token, max(n, 1), pattern, len(stars))
			}
			from = stars[n-1]
		}
		m.tokens, m.from = append(m.tokens, token), append(m.from, from)
	}
	return m, nil
}

// Mapped is the pattern of the subjects that a destination can become: each {{wildcard(n)}} is a *.
func Mapped(destination string) string {
	if !strings.Contains(destination, "{") {
		return destination
	}
	tokens := strings.Split(destination, ".")
	for i, token := range tokens {
		if insertion.MatchString(token) {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}

// Pattern is the pattern of the subjects that the mapping makes.
func (m *Mapping) Pattern() string { return m.pattern }

// Map maps a subject that matches the pattern. It is an error if the result would not be a subject to publish to: NATS
// lets a client publish to features.> as if that were a word.
func (m *Mapping) Map(subject string) (string, error) {
	if !strings.Contains(m.pattern, "*") {
		return m.pattern, nil
	}
	given := strings.Split(subject, ".")
	var b strings.Builder
	for i, token := range m.tokens {
		if from := m.from[i]; from >= 0 {
			if from >= len(given) {
				return "", fmt.Errorf("the subject has %d tokens, and the output's subject takes token %d", len(given), from+1)
			}
			if token = given[from]; token == "*" || token == ">" {
				return "", fmt.Errorf("its token %q is a wildcard, which the output's subject would have", token)
			}
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	if b.Len() > MaxMapped {
		return "", fmt.Errorf("the output's subject would have %d bytes, and the limit is %d", b.Len(), MaxMapped)
	}
	return b.String(), nil
}
