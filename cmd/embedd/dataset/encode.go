package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/files"
)

// encode finds the encodings of --categories and --dates: those of a model, else from all values in the file,
// which is read twice then.
func (s *Spec) encode(ctx context.Context, e *cli.Env, schema *arrow.Schema) (err error) {
	if s.ModelFeatures != nil {
		s.encodings, err = arrowio.EncodingsOf(s.ModelFeatures, s.Categories, s.Dates)
		return err
	}
	for _, column := range s.Categories {
		for _, f := range schema.Fields() {
			if strings.HasPrefix(f.Name, column+"=") {
				return cli.Usagef("%s: column %q has the name of a feature of --categories %s: rename one", s.Path, f.Name, column)
			}
		}
	}
	if len(s.Categories) > 0 {
		if err := s.findValues(ctx, e); err != nil {
			return err
		}
	}
	for _, column := range s.Dates {
		s.encodings = append(s.encodings, arrowio.Encoding{Column: column})
	}
	return nil
}

// findValues reads the file for the values of each category.
func (s *Spec) findValues(ctx context.Context, e *cli.Env) error {
	in, err := files.Open(ctx, e, s.Path, s.File)
	if err != nil {
		return err
	}
	defer in.Close()
	values := make([]map[string]bool, len(s.Categories))
	decoders := make([]*arrowio.Decoder, len(s.Categories))
	for k, column := range s.Categories {
		// A label is text, an integer or a boolean, and so is a category.
		if decoders[k], err = arrowio.NewDecoder(arrowio.Spec{Label: column, Limits: file.Limits()}); err != nil {
			return err
		}
		values[k] = map[string]bool{}
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		msg, err := in.NextMessage()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for k, column := range s.Categories {
			if err := addValues(values[k], decoders[k], msg); err != nil {
				return fmt.Errorf("%s: --categories %s: %w", s.Path, column, err)
			}
		}
	}
	for k, column := range s.Categories {
		if len(values[k]) == 0 {
			return fmt.Errorf("%s: column %q of --categories has no value: leave it out", s.Path, column)
		}
		s.encodings = append(s.encodings, arrowio.Encoding{Column: column,
			Values: slices.SortedFunc(maps.Keys(values[k]), compareClasses)})
	}
	return nil
}

// addValues adds the values of a category in a message.
func addValues(to map[string]bool, d *arrowio.Decoder, msg []byte) error {
	m, err := d.Decode(msg, nil)
	if err != nil {
		return fmt.Errorf("%w: a category is the same, and in CSV a whole number without a fraction", err)
	}
	defer m.Release()
	for _, b := range m.Batches() {
		for row := range b.Rows() {
			if text, ok := b.Label(row); ok {
				to[text] = true
			}
		}
	}
	if len(to) > arrowio.MaxValues {
		return fmt.Errorf("the column has more than %d values, and each becomes a feature: leave it out, or join rare values",
			arrowio.MaxValues)
	}
	return nil
}

// NoteUnseen prints how many categories were not among those of the model.
func NoteUnseen(e *cli.Env, unseen int) {
	e.NoteIf(unseen > 0, "%d values of categories are none that the fit saw: their features are 0", unseen)
}
