package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

func transformCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("transform", "apply a model to a file or an Arrow stream", 0, 0)
	modelPath := f.String("model", "", "`FILE` of the model")
	data := f.Data(new(string), dataset.Formats)
	path := f.StringP("output", "o", "",
		"`FILE` to write: .csv .csv.gz .tsv .parquet .arrow .arrows, or - for an Arrow IPC stream on standard output")
	keep := f.Commas("keep", "`COLUMNS` to keep next to the embedding: all (every column but the features), none, "+
		"names or globs (default all)")
	column := f.String("column", "embedding", "`NAME` of the output column")
	single := f.Bool("columns", false,
		"write the embedding as float32 columns NAME_0, NAME_1, ... instead of one list column")
	var nulls string
	dataset.NullsFlag(f, &nulls, "(default what the fit did, as the model says, else reject)")
	var how file.Options
	dataset.FileFlags(f, &how)
	form := f.Choice("frames", "answer messages on standard input, each a message after its length in this `FORM`, in "+
		"place of --data: each with a message on standard output, or with one line on standard error",
		"none", "uint32be")
	watch := f.Bool("watch", false, "with --frames: read the file of --model again when it has changed")
	pipeline := f.String("pipeline", "", "with --frames, in place of --model: work as this pipeline, a `NAME` in the "+
		"file of -c, and learn from the messages; -o keeps the live model in a file, and begins with it if it exists")
	configuration := client.FileFlag(f, "the pipelines")
	f.Complete("pipeline", client.Pipelines)
	log := f.String("log", "", "with --frames: append the log to this `FILE`; without it there is none")
	f.Exclusive("frames", "data")
	f.Exclusive("model", "pipeline")
	for _, ofModel := range []string{"keep", "column", "columns", "nulls", "watch"} {
		f.Exclusive("pipeline", ofModel)
	}
	cmd.Use += " --model FILE --data FILE -o FILE | --frames FORM --model FILE|--pipeline NAME"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		isFrames := *form != "none"
		switch {
		case *modelPath == "" && *pipeline == "":
			return cli.Usagef("transform: --model is required: usage: %s", cmd.UseLine())
		case !isFrames && (*data == "" || *path == ""):
			return cli.Usagef("transform: --data and -o are required, or --frames: usage: %s", cmd.UseLine())
		case isFrames && *pipeline == "" && *path != "":
			return cli.Usagef("transform: -o %s and --frames without --pipeline: answers are written to standard output; leave "+
				"-o out", *path)
		}
		for name, given := range map[string]bool{"log": *log != "", "watch": *watch, "pipeline": *pipeline != ""} {
			if given && !isFrames {
				return cli.Usagef("transform: --%s: want it together with --frames", name)
			}
		}
		if *pipeline != "" {
			return answerLearning(ctx, e, configuration, *pipeline, *path, *log)
		}
		before, _ := os.Stat(*modelPath) // an error is that of the read
		m, err := files.ReadModel(*modelPath)
		if err != nil {
			return err
		}
		t := &transformer{path: *data, asked: plugin.Nulls(nulls), limits: file.Limits(),
			output: arrowio.Output{Column: *column, Columns: *single, Keep: *keep}}
		if isFrames {
			t.limits = arrowio.Limits{Message: maxFrame, Body: 4 * maxFrame}
		}
		if err := t.open(m); err != nil {
			return err
		}
		defer func() { t.stage.Close() }()
		if !isFrames {
			return t.transformFile(ctx, e, how, *path)
		}
		f := &frames{transformer: t}
		if *watch {
			f.refresh = watched(*modelPath, before, t.open)
		}
		return f.answer(ctx, e, *log)
	}
	return cmd
}

// transformFile transforms a file of rows into another file, and prints what it did.
func (t *transformer) transformFile(ctx context.Context, e *cli.Env, how file.Options, path string) error {
	m := t.stage.Live().Model
	how.Categories = m.Note().Categories
	in, err := files.Open(ctx, e, t.path, how)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := checkKept(t.output.Keep, in, t.path); err != nil {
		return err
	}
	out, err := files.Create(e, path)
	if err != nil {
		return err
	}
	defer out.Discard()
	t.in = in
	t.columns = dataset.Columns{Name: files.Base(t.path), Other: "numbers that are not in the model"}
	if err := t.run(ctx, e, out); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	dataset.NoteFile(e, in)
	t.columns.Note(e, in, m.Features())
	e.NoteIf(t.skipped > 0, "%d of %d rows are left out, because a feature is missing", t.skipped, t.rows)
	e.NoteIf(t.imputed > 0, "%d of %d rows have missing features: each became the model's mean", t.imputed, t.rows)
	dataset.NoteUnseen(e, t.unseen)
	e.Infof("%d rows, %d features to %d by %s %s, to %s", t.rows-t.skipped, m.M(), m.Dim(), m.Method(),
		m.Digest()[:16], path)
	return nil
}

// checkKept returns an error if a name of --keep is no column of the file.
func checkKept(keep []string, in *file.Reader, path string) error {
	names := dataset.ColumnNames(in.Schema())
	for _, name := range keep {
		if name != "all" && name != "none" && !strings.ContainsAny(name, `*?[\`) && !slices.Contains(names, name) {
			return cli.Usagef("%s has no column %q for --keep%s: its columns are %s", path, name,
				cli.DidYouMean(name, names), cli.Listed(names))
		}
	}
	return nil
}

// transformer transforms batches as the daemon does: the embedding of a file equals, bit by bit, what the daemon would
// publish.
type transformer struct {
	asked  plugin.Nulls // "": those of the model
	output arrowio.Output
	limits arrowio.Limits

	in      *file.Reader // nil: messages come from elsewhere
	stage   *plugin.Stage
	nulls   plugin.Nulls
	learn   func(*arrowio.Message) error // nil: nothing is learned
	path    string
	columns dataset.Columns

	rows, skipped, imputed, unseen int
}

// open uses a model from now on. If it fails, the previous one stays in use.
func (t *transformer) open(m *model.Model) error {
	policy := cmp.Or(t.asked, plugin.Nulls(m.Note().Nulls))
	stage, err := plugin.New(plugin.Config{Fixed: m, Nulls: policy, Output: t.output,
		Spec: arrowio.Spec{Features: []string{"*"}, Limits: t.limits}})
	if err != nil {
		return cli.Usagef("%w", err)
	}
	if t.stage != nil {
		t.stage.Close()
	}
	t.stage, t.nulls = stage, policy
	return nil
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
		reduced, err := t.batch(ctx, msg)
		if err != nil {
			return err
		}
		if err := out.WriteMessage(reduced); err != nil {
			return err
		}
		show.Show(fmt.Sprintf("%d rows", t.rows), -1)
	}
}

func (t *transformer) batch(ctx context.Context, msg []byte) ([]byte, error) {
	m, err := t.stage.Decode(msg)
	if err != nil {
		return nil, t.explain(err)
	}
	defer m.Release()
	t.columns.See(m)
	if t.learn != nil {
		if err := t.learn(m); err != nil {
			return nil, t.explain(err)
		}
	}
	r, err := t.stage.Transform(ctx, m)
	if err != nil {
		return nil, t.explain(err)
	}
	if len(r.Faults) > 0 {
		return nil, t.refused(r)
	}
	if t.skipped += r.Skipped; r.Skipped == 0 {
		for _, b := range m.Batches() {
			t.imputed += len(b.Faults())
		}
	}
	t.rows += m.Rows()
	t.unseen += m.Unseen()
	out, err := t.stage.Encode(r)
	if err != nil {
		return nil, t.explain(err)
	}
	return out, nil
}

// refused returns the error of the first row without an output.
func (t *transformer) refused(r *plugin.Result) error {
	row := t.rows + 1
	for k, b := range r.Reduced.Message.Batches() {
		if len(r.Rejected[k]) > 0 {
			row += r.Rejected[k][0]
			break
		}
		row += b.Rows()
	}
	path := t.path
	if t.in != nil {
		path, row = t.in.Place(row)
	}
	f, other := r.Faults[0], "--nulls impute or --nulls skip"
	if f.Code != "" {
		return fmt.Errorf("%s: row %d, column %q: %s: fix the row", path, row, f.Feature, f.What)
	}
	if t.nulls == plugin.NullsImpute {
		other = "--nulls skip" // the mean does not help
	}
	return fmt.Errorf("%s: row %d, feature %q: %s: fix the row, or use %s", path, row, f.Feature, f.What, other)
}

// explain adds the place to the error of a batch.
func (t *transformer) explain(err error) error {
	if t.in == nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	return dataset.ExplainBatch(err, t.in, t.path, t.rows, nil)
}
