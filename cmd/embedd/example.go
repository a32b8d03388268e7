package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/dataset"
	"github.com/embedd/embedd/cmd/embedd/files"
)

// example is where init finds the columns of a pipeline.
type example struct{ file, subject string }

// exampleTimeout is how long init waits for a message.
const exampleTimeout = 30 * time.Second

// ask asks for a file or a subject, unless one is known.
func (x *example) ask(ctx context.Context, e *cli.Env) error {
	if x.file != "" || x.subject != "" {
		return nil
	}
	e.Print("A file of rows, or a subject with messages, whose columns to fill in (Enter for an example): ")
	line, err := bufio.NewReader(e.Input(ctx)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	line = strings.TrimSpace(line)
	if _, err := os.Stat(line); err == nil || strings.ContainsRune(line, '/') {
		x.file = line
	} else {
		x.subject = line
	}
	return nil
}

// name is a name for the pipeline: that of the file without its suffix, or the last token of the subject; that of the
// starter file if it cannot be a plain key, or if an output would go to the input.
func (x *example) name() string {
	name, _, _ := strings.Cut(filepath.Base(x.file), ".")
	if x.file == "" {
		name = x.subject[strings.LastIndexByte(x.subject, '.')+1:]
	}
	name = strings.ReplaceAll(name, " ", "_")
	isOutput := x.subject == "reduced."+name || x.subject == "dead."+name
	if isOutput || !pipelineName.MatchString(name) || config.Quoted(name) != name && !strings.Contains(name, "-") {
		return "digits"
	}
	return name
}

// pipelineName is a name of a pipeline that YAML reads as text.
var pipelineName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// values reads the rows, and returns the keys of a pipeline for them; nil without any.
func (x *example) values(ctx context.Context, e *cli.Env, server *client.Server) (map[string]string, error) {
	values := map[string]string{}
	var in *file.Reader
	var err error
	switch {
	case x.file != "":
		in, err = files.Open(ctx, e, x.file, file.Options{})
	case x.subject != "":
		var data []byte
		if data, values["input.stream"], err = x.message(ctx, e, server); err != nil {
			return nil, err
		}
		values["input.subject"] = config.Quoted(x.subject)
		if format := formatOf(data); format != wire.FormatArrow {
			values["input.format"] = string(format)
		}
		in, err = file.NewReader(bytes.NewReader(data), x.subject)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	rec, err := in.Next()
	if err != nil {
		return nil, fmt.Errorf("%s has no rows to read columns from: %w", cmp.Or(x.file, x.subject), err)
	}
	defer rec.Release()
	label := labelOf(rec)
	n, err := describe(rec, label, values)
	if err != nil {
		return nil, err
	}
	about, dim := "none recognised (if a column has the class, set schema.label to it)", min(8, n/2)
	if label != "" {
		about = label
	}
	if classes := classesOf(in, rec, label); classes > 1 {
		about, dim = fmt.Sprintf("%s with %d classes", label, classes), min(20, max(2, classes-1))
	}
	dim = max(1, min(dim, n-1))
	values["model.dim"] = fmt.Sprint(dim)
	e.Infof("%d features in %s; label: %s; %d outputs (model.dim)", n, values["schema.features"], about, dim)
	return values, nil
}

// maxCounted is the number of rows among which classes are counted.
const maxCounted = 100_000

// classesOf counts the classes of the rows of a file, of which rec are the first; 0 without a label.
func classesOf(in *file.Reader, rec arrow.Record, label string) int {
	classes, at := map[string]bool{}, rec.Schema().FieldIndices(label)
	rec.Retain()
	defer func() { rec.Release() }()
	for rows := int64(0); len(at) == 1 && rows < maxCounted; {
		column := rec.Column(at[0])
		for i := range column.Len() {
			if column.IsValid(i) {
				classes[column.ValueStr(i)] = true
			}
		}
		rows += rec.NumRows()
		next, err := in.Next()
		if err != nil { // the end, or a row that other verbs report
			break
		}
		rec.Release()
		rec = next
	}
	return len(classes)
}

// message is the newest stored message of the subject and the name of its stream, or the next message.
func (x *example) message(ctx context.Context, e *cli.Env, server *client.Server) (data []byte, stream string,
	err error) {
	nc, err := server.Dial(ctx, e)
	if err != nil {
		return nil, "", err
	}
	js, err := nc.JetStream()
	if err != nil {
		return nil, "", err
	}
	next, err := nc.SubscribeSync(x.subject)
	if err != nil {
		return nil, "", fmt.Errorf("subscribing to %s: %w", x.subject, err)
	}
	if name, err := js.StreamNameBySubject(ctx, x.subject); err == nil {
		if s, err := js.Stream(ctx, name); err == nil {
			stream = name
			if msg, err := s.GetLastMsgForSubject(ctx, x.subject); err == nil {
				return msg.Data, stream, nil
			} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil, "", fmt.Errorf("reading stream %s: %w", name, err)
			}
		}
	}
	e.Infof("waiting %v for a message on %s", exampleTimeout, x.subject)
	ctx, cancel := context.WithTimeout(ctx, exampleTimeout)
	defer cancel()
	msg, err := next.NextMsgWithContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) {
		return nil, "", fmt.Errorf("no message on %s within %v: publish one, or give a file with --data", x.subject,
			exampleTimeout)
	}
	if err != nil {
		return nil, "", err
	}
	return msg.Data, stream, nil
}

// formatOf is the value of input.format for a message.
func formatOf(data []byte) wire.Format {
	text := bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xff, 0xff, 0xff}):
		return wire.FormatArrow
	case len(text) > 0 && (text[0] == '[' || text[0] == '{'):
		if text[0] == '[' || json.Valid(text) { // rows of NDJSON are objects
			return wire.FormatJSON
		}
		return wire.FormatNDJSON
	}
	return wire.FormatCSV
}

// labels are the usual names of a column of labels.
var labels = []string{"label", "labels", "class", "target", "y", "species", "category", "variety", "quality"}

// maxListed is the number of feature columns that are listed one by one.
const maxListed = 16

// describe sets the columns of a record, and returns the number of features.
func describe(rec arrow.Record, label string, values map[string]string) (features int, err error) {
	rest := without(rec, label)
	defer rest.Release()
	decoder, _, err := dataset.Spec{}.Decoder()
	if err != nil {
		return 0, err
	}
	m, err := decoder.FromRecord(rest, nil)
	if err != nil {
		return 0, err
	}
	defer m.Release()
	var lists, numbers []string
	for _, f := range m.Fields() {
		switch {
		case !f.Feature:
		case f.Holds == "number":
			numbers = append(numbers, f.Name)
		default:
			lists = append(lists, f.Name)
		}
	}
	list := cmp.Or(listOf(lists), listOf(numbers))
	if len(lists) == 0 && len(numbers) > maxListed {
		list = listOf([]string{globOf(numbers, m.Fields())})
	}
	elements := slices.DeleteFunc(m.Contract().Elements(), func(element string) bool {
		list, _, _ := strings.Cut(element, "[")
		return len(lists) > 0 && !slices.Contains(lists, list)
	})
	values["schema.features"], values["schema.label"] = list, cmp.Or(config.Quoted(label), `""`)
	return len(elements), nil
}

// labelOf is the column with a usual name and values of labels, else the only column of text; "" if there is none.
func labelOf(rec arrow.Record) string {
	fields := rec.Schema().Fields()
	for _, name := range labels {
		for i, f := range fields {
			if strings.EqualFold(f.Name, name) && hasLabels(rec.Column(i)) {
				return f.Name
			}
		}
	}
	var texts []string
	for _, f := range fields {
		if f.Type.ID() == arrow.STRING || f.Type.ID() == arrow.DICTIONARY {
			texts = append(texts, f.Name)
		}
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return ""
}

// hasLabels reports whether a column can be labels: text, integers or booleans, and numbers of JSON that are integers,
// but no coordinates, which a column y may have.
func hasLabels(column arrow.Array) bool {
	if numbers, ok := column.(*array.Float64); ok {
		isFraction := func(v float64) bool { return v != math.Trunc(v) } // NaN too
		return !slices.ContainsFunc(numbers.Float64Values(), isFraction)
	}
	id := column.DataType().ID()
	return arrow.IsInteger(id) || slices.Contains([]arrow.Type{arrow.STRING, arrow.LARGE_STRING, arrow.DICTIONARY,
		arrow.BOOL}, id)
}

// without is a record without the column of a name.
func without(rec arrow.Record, name string) arrow.Record {
	var fields []arrow.Field
	var columns []arrow.Array
	for i, f := range rec.Schema().Fields() {
		if name == "" || f.Name != name {
			fields, columns = append(fields, f), append(columns, rec.Column(i))
		}
	}
	meta := rec.Schema().Metadata()
	return array.NewRecord(arrow.NewSchema(fields, &meta), columns, rec.NumRows())
}

// globOf is a pattern for many columns: their common beginning if no other column has it, else all numeric ones.
func globOf(names []string, all []arrowio.Field) string {
	prefix := names[0]
	for _, name := range names {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	for _, f := range all {
		if strings.HasPrefix(f.Name, prefix) && !slices.Contains(names, f.Name) {
			return "*"
		}
	}
	return prefix + "*"
}

// listOf writes names as a list of YAML; "" for none.
func listOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	var out []string
	for _, name := range names {
		out = append(out, config.Quoted(name))
	}
	return "[" + strings.Join(out, ", ") + "]"
}
