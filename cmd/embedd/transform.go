package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

func transformCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "transform", Short: "apply a model to a file or an Arrow stream"}
	f := cli.FlagsOf(cmd)
	modelPath := f.String("model", "", "`FILE` of the model")
	data := f.String("data", "", "`FILE` of rows: .csv .csv.gz .tsv .parquet .arrow .arrows, or - for "+
		"standard input, in any of these formats")
	path := f.StringP("output", "o", "",
		"`FILE` to write: .csv .csv.gz .tsv .parquet .arrow .arrows, or - for an Arrow IPC stream on standard output")
	keep := f.Commas("keep", "`COLUMNS` to keep next to the embedding: all (every column but the features), none, "+
		"names or globs (default all)")
	column := f.String("column", "embedding", "`NAME` of the output column")
	single := f.Bool("columns", false,
		"write the embedding as float32 columns NAME_0, NAME_1, ... instead of one list column")
	nulls := f.Choice("nulls", "`POLICY` for rows with a missing or infinite feature: reject is an error, impute uses "+
		"the model's mean, skip leaves them out", "reject", "impute", "skip")
	var how file.Options
	dataset.CSVFlags(f, &how)
	f.Require("model", "data", "output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		m, err := files.ReadModel(*modelPath)
		if err != nil {
			return err
		}
		encoder, err := arrowio.NewEncoder(arrowio.Output{Column: *column, Columns: *single, Keep: *keep})
		if err != nil {
			return cli.UsageError{Err: err}
		}
		decoder, contract, err := dataset.Spec{Pinned: m.Features()}.Decoder()
		if err != nil {
			return fmt.Errorf("%s: %w", *modelPath, err)
		}
		in, err := files.Open(e, *data, how)
		if err != nil {
			return err
		}
		defer in.Close()
		if err := checkKept(*keep, in, *data); err != nil {
			return err
		}
		out, err := files.Create(e, *path)
		if err != nil {
			return err
		}
		defer out.Discard()
		t := transformer{in: in, model: m, decoder: decoder, contract: contract, encoder: encoder, nulls: *nulls, path: *data,
			meta: modelMeta(m), columns: dataset.Columns{Name: filepath.Base(*data), Other: "numbers that are not in the model"}}
		if err := t.run(ctx, e, out); err != nil {
			return err
		}
		if err := out.Close(); err != nil {
			return err
		}
		dataset.NoteFile(e, in)
		t.columns.Note(e, in, m.Features())
		if t.skipped > 0 {
			e.Notef("%d of %d rows are left out, because a feature is missing", t.skipped, t.rows)
		}
		if t.imputed > 0 {
			e.Notef("%d of %d rows have missing features: each became the model's mean", t.imputed, t.rows)
		}
		e.Infof("%d rows, %d features to %d by %s %s, to %s", t.rows-t.skipped, m.M(), m.Dim(), m.Method(),
			m.Digest()[:16], *path)
		return nil
	}
	return cmd
}

// checkKept returns an error if a name of --keep is no column of the file.
func checkKept(keep []string, in *file.Reader, path string) error {
	var names []string
	for _, f := range in.Schema().Fields() {
		names = append(names, f.Name)
	}
	for _, name := range keep {
		if name != "all" && name != "none" && !strings.ContainsAny(name, `*?[\`) && !slices.Contains(names, name) {
			return cli.Usagef("%s has no column %q for --keep%s: its columns are %s", path, name,
				cli.DidYouMean(name, names), cli.Listed(names))
		}
	}
	return nil
}

// modelMeta is the metadata of the output schema that names the model, as the daemon writes it.
func modelMeta(fitted *model.Model) []wire.Pair {
	version := cmp.Or(fitted.Note().Version, fitted.Digest()[:16])
	live := plugin.Live{Model: fitted, Version: version, Epoch: int(fitted.Note().Epoch)}
	pairs := live.Metadata()
	return append(pairs[1:], pairs[0])
}

// transformer decodes, projects and encodes batches as the daemon does: the embedding of a file equals, bit by bit,
// what the daemon would publish.
type transformer struct {
	in       *file.Reader
	model    *model.Model
	decoder  *arrowio.Decoder
	contract *arrowio.Contract
	encoder  *arrowio.Encoder
	nulls    string
	path     string
	meta     []wire.Pair
	columns  dataset.Columns

	rows, skipped, imputed int
}

// run processes one batch at a time.
func (t *transformer) run(ctx context.Context, e *cli.Env, out *file.Writer) error {
	show := report.NewProgress(e)
	defer show.End()
	for batches := 0; ; batches++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		msg, err := t.in.NextMessage()
		if err == io.EOF && batches == 0 {
			// A file without rows gives an output with a schema and no rows.
			msg, err = arrowio.FromRecords(t.in.Schema())
		} else if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		reduced, err := t.batch(msg)
		if err != nil {
			return err
		}
		if err := out.WriteMessage(reduced); err != nil {
			return err
		}
		show.Show(fmt.Sprintf("%d rows", t.rows), -1)
	}
}

func (t *transformer) batch(msg []byte) ([]byte, error) {
	m, err := t.decoder.Decode(msg, t.contract)
	if err != nil {
		return nil, dataset.ExplainBatch(err, t.in, t.path, t.rows)
	}
	defer m.Release()
	t.columns.See(m)
	r := arrowio.Reduced{Message: m, Dim: t.model.Dim()}
	for _, b := range m.Batches() {
		drop, err := t.faulty(b)
		if err != nil {
			return nil, err
		}
		y := make([]float32, b.Rows()*r.Dim)
		if err := t.model.Project(y, modelRows(b)); err != nil {
			return nil, fmt.Errorf("%s: %w", t.path, err)
		}
		r.Y, r.Drop = append(r.Y, y), append(r.Drop, drop)
		t.rows += b.Rows()
	}
	out, err := t.encoder.Encode(r, t.meta)
	if err != nil {
		return nil, dataset.ExplainBatch(err, t.in, t.path, t.rows)
	}
	return out, nil
}

// faulty applies --nulls to a batch and returns the rows to drop.
func (t *transformer) faulty(b *arrowio.Batch) (drop []int, err error) {
	for _, f := range b.Faults() {
		switch t.nulls {
		case "reject":
			return nil, fmt.Errorf("%s: row %d, feature %q: %s: fix the row, or use --nulls impute or --nulls skip",
				t.path, t.rows+f.Row+1, f.Feature, f.What)
		case "skip":
			drop = append(drop, f.Row)
			t.skipped++
		default:
			t.imputed++
		}
	}
	return drop, nil
}

// modelRows converts the features of a batch, without a copy.
func modelRows(b *arrowio.Batch) model.Rows {
	blocks := b.Features()
	r := model.Rows{N: b.Rows(), Blocks: make([]model.Block, len(blocks))}
	for i, k := range blocks {
		r.Blocks[i] = model.Block(k)
	}
	return r
}
