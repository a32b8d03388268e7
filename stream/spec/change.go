package spec

import (
	"fmt"
	"strings"
)

// Effect is what becomes of a changed key of the configuration.
type Effect string

// The effects.
const (
	// EffectApplied: the pipeline works with the new value. A key of training concerns the next candidates, and the live
	// model stays until one of them goes live.
	EffectApplied Effect = "applied"
	// EffectModelReset: the live model has the former value, and keeps it until `embedd model reset`.
	EffectModelReset Effect = "model reset"
	// EffectSchemaReset: the stored schema is that of the former value, and stays until `embedd schema reset`.
	EffectSchemaReset Effect = "schema reset"
	// EffectIgnored: the model is a file, and nothing is learned.
	EffectIgnored Effect = "ignored"
	// EffectTrainer: another replica is the trainer, and works with the former value.
	EffectTrainer Effect = "trainer"
)

// KeyDim is the key of the number of outputs, which the live model shows.
const KeyDim = "model.dim"

// Setting is the value of a key of the configuration file, as text. It has no secrets: it is stored in the server.
type Setting struct {
	Key   string // below the name of the pipeline, such as model.dim
	Value string
	// Effect of a change while a trained model is live: applied, model reset or schema reset; default applied.
	Effect     Effect
	IsLearning bool // only training uses the key
}

// Change is a key whose configured value is not the one that was in effect before.
type Change struct {
	Key    string `json:"key"`
	Was    string `json:"was"`
	Now    string `json:"now"` // as configured
	Effect Effect `json:"effect"`
}

// IsOpen reports whether the configured value is not in effect.
func (c Change) IsOpen() bool { return c.Effect != EffectApplied }

// Text is the change in a sentence, with what to do.
func (c Change) Text(pipeline string) string {
	text := fmt.Sprintf("%s changed from %s to %s: ", c.Key, orNone(c.Was), orNone(c.Now))
	switch c.Effect {
	case EffectModelReset:
		return text + fmt.Sprintf("the live model keeps %s; 'embedd model reset %s' begins a new epoch with %s",
			orNone(c.Was), pipeline, orNone(c.Now))
	case EffectSchemaReset:
		return text + fmt.Sprintf("the stored schema stays; if other columns are features now, 'embedd schema reset %s' "+
			"replaces it", pipeline)
	case EffectIgnored:
		return text + "ignored, since the model is a file"
	case EffectTrainer:
		return text + "another replica is the trainer and has the former value; give all replicas the same configuration"
	}
	return text + "applied"
}

// NextText is the change in a sentence, before a start with the configuration.
func (c Change) NextText(pipeline string) string {
	if c.Effect == EffectApplied {
		return c.Text(pipeline) + " at the next start"
	}
	return c.Text(pipeline)
}

// maxOpenText is how many changes a reason lists.
const maxOpenText = 3

// OpenText describes the changes that are not in effect, "" if there are none.
func OpenText(changes []Change, pipeline string) string {
	var texts []string
	more := 0
	for _, c := range changes {
		switch {
		case !c.IsOpen():
		case len(texts) < maxOpenText:
			texts = append(texts, c.Text(pipeline))
		default:
			more++
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("%d more changed keys are not in effect", more))
	}
	return strings.Join(texts, "; ")
}

func orNone(value string) string {
	if value == "" {
		return `""`
	}
	return value
}
