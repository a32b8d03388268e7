package config

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Value is a key of a pipeline with its value, given or by default.
type Value struct {
	Key        string // below the name of the pipeline
	Text       string // as in a file
	Reset      string // the reset that a changed value of a running pipeline needs: model, schema, or "" for none
	IsLearning bool   // only training uses it: it has no effect with a model file
}

// Values are the keys of a pipeline in the order of the reference. None of them is a secret.
func (p *Pipeline) Values() (values []Value) {
	for _, f := range spec {
		key, ok := strings.CutPrefix(f.path, each)
		if !ok || f.secret {
			continue
		}
		target := f.target(&Config{}, p)
		if _, isSet := target.(func(string) error); isSet {
			continue // its value is in another key
		}
		values = append(values, Value{key, valueText(f, target), f.reset, isLearning(f)})
	}
	return values
}

// isLearning reports whether only training uses a key.
func isLearning(f field) bool {
	return strings.HasPrefix(f.path, each+"training.") || strings.HasPrefix(f.path, each+"model.") && f.path != each+
		"model.file"
}

// maxValue is the maximum number of bytes of a value's text; of a longer one a digest shows whether it has changed.
const maxValue = 200

func valueText(f field, target any) string {
	text := fullText(f, target)
	if len(text) > maxValue {
		text = fmt.Sprintf("%s... (SHA-256 %.8x)", strings.ToValidUTF8(text[:maxValue/2], ""), sha256.Sum256([]byte(text)))
	}
	return text
}

func fullText(f field, target any) string {
	switch t := target.(type) {
	case *string:
		return *t
	case *[]string:
		return listText(*t, nil)
	case *Schema:
		return listText(t.Features, t.Sizes)
	case *map[string]string:
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(*t)) {
			pairs = append(pairs, name+": "+(*t)[name])
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	case *BadLimit:
		if t.Of == 0 {
			return f.or
		}
		return fmt.Sprintf("%d of %d", t.Count, t.Of)
	case *bool:
		return strconv.FormatBool(*t)
	case *uint64:
		return strconv.FormatUint(*t, 10)
	case *int:
		return numberText(f, float64(*t), strconv.Itoa(*t))
	case *int64:
		return numberText(f, float64(*t), sizeText(float64(*t)))
	case *float64:
		if len(f.words) > 0 && math.IsInf(*t, 1) {
			return f.words[0]
		}
		return numberText(f, *t, strconv.FormatFloat(*t, 'g', -1, 64))
	case *time.Duration:
		return numberText(f, t.Seconds(), t.String())
	}
	panic(fmt.Sprintf("config: no text for a %T", target)) // a test formats every value
}

// numberText is the text of a number, or the word for none.
func numberText(f field, number float64, text string) string {
	if number == 0 {
		return cmp.Or(f.or, text)
	}
	return text
}

// listText is a list as in a file.
func listText(names []string, sizes map[string]int) string {
	entries := make([]string, len(names))
	for i, name := range names {
		if entries[i] = name; sizes[name] > 0 {
			entries[i] = fmt.Sprintf("{column: %s, size: %d}", name, sizes[name])
		}
	}
	return "[" + strings.Join(entries, ", ") + "]"
}
