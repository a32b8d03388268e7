package engine

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/plugin"
)

// schema returns the part of a stage that depends on schema and model.file. An error comes with the key to change.
func schema(p *config.Pipeline) (stage plugin.Config, key string, err error) {
	stage = plugin.Config{Spec: p.Schema.Spec, Nulls: p.Schema.Nulls}
	stage.Spec.Limits.Message, stage.Spec.Limits.Body = int(p.Limits.Message), int(p.Limits.Expanded)
	if p.Model.File != "" {
		if stage.Fixed, err = files.ReadModel(p.Model.File); err != nil {
			return stage, "model.file", err
		}
		elements, note := stage.Fixed.Features(), stage.Fixed.Note()
		if stage.Nulls == "auto" {
			stage.Nulls = plugin.Nulls(note.Nulls)
		}
		if stage.Spec.Encodings, err = arrowio.EncodingsOf(elements, note.Categories, note.Dates); err != nil {
			return stage, "model.file", fmt.Errorf("%s: %w", p.Model.File, err)
		}
		if _, err := stage.Spec.ContractOf(elements); err != nil {
			return stage, "schema.features", errors.New(otherFeatures(p, elements, err))
		}
	}
	if stage.Nulls == "" || stage.Nulls == "auto" {
		stage.Nulls = plugin.NullsReject
	}
	return stage, "", nil
}

// otherFeatures explains that the features of a model file are not those of schema, and how to make them agree.
func otherFeatures(p *config.Pipeline, elements []string, difference error) string {
	asked := p.Schema.Features
	text := fmt.Sprintf("the model %s has %d features, %s, and schema.features is [%s]: %v; ", p.Model.File, len(elements),
		shortened(elements), shortened(asked), difference)
	if slices.Contains(elements, p.Schema.Label) || slices.Contains(elements, p.Schema.Key) {
		return text + "name other columns in schema.label and schema.key, or none (\"\"), or fit the model without it"
	}
	ours := fmt.Sprintf("write features: [%s]", strings.Join(entriesOf(elements), ", "))
	if len(asked) != 1 || strings.ContainsAny(asked[0], `*?[\`) || len(elements) == 1 {
		return text + ours
	}
	return fmt.Sprintf("%sif the lists of %s have these features in this order, as `embedd publish --pack %[2]s` sends "+
		"them, write features: [{column: %s, size: %d}]; if they are columns of the messages, %s", text, asked[0],
		config.Quoted(asked[0]), len(elements), ours)
}

// entriesOf are entries of schema.features that accept a fixed model with these feature elements.
func entriesOf(elements []string) (entries []string) {
	contract, err := arrowio.NewContract(elements, "", "")
	if err != nil {
		return []string{`"*"`}
	}
	var names []string
	for _, c := range contract.Columns() {
		names = append(names, c.Name)
		entries = append(entries, config.Quoted(c.Name))
	}
	if len(names) <= 4 {
		return entries
	}
	prefix := names[0]
	for _, name := range names {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	glob := strings.TrimRight(prefix, "0123456789") + "*"
	if _, err := path.Match(glob, ""); err != nil {
		glob = "*"
	}
	return []string{strconv.Quote(glob)}
}

func shortened(names []string) string {
	if len(names) > 4 {
		return strings.Join(names[:3], ", ") + " ..."
	}
	return strings.Join(names, ", ")
}
