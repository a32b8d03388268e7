package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/plugin"
)

// maxFrame is the largest message of `transform --frames`: the largest that limits.message allows a daemon.
const maxFrame = 64 << 20

// frames answers each message on standard input, before it reads the next one: with a message on standard output or, if
// it cannot be transformed, with one line on standard error. A message is bytes after their number, an unsigned integer
// of 32 bits, the most significant byte first. Nothing else is written to the two, so that a program that sends
// messages one by one can pair them with answers.
type frames struct {
	*transformer
	refresh func(*slog.Logger) // before each message; nil: nothing
}

// answer returns at the end of the input, at a signal, and with an error if a message is cut or longer than maxFrame:
// where the next one begins is not known then.
func (t *frames) answer(ctx context.Context, e *cli.Env, logPath string) error {
	log, done, err := openLog(logPath)
	if err != nil {
		return err
	}
	defer done()
	in, failed := bufio.NewReader(e.Input(ctx)), 0
	var body bytes.Buffer
	for n := 1; ; n++ {
		t.path, t.rows = fmt.Sprintf("message %d", n), 0
		err := readFrame(in, &body)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			log.Info("the input ended", "messages", n-1, "failed", failed, "skipped_rows", t.skipped, "imputed_rows",
				t.imputed)
			return ctx.Err()
		}
		if err != nil {
			log.Error("the input cannot be read", "message", n, "error", err)
			return fmt.Errorf("%s: %w", t.path, err)
		}
		if t.refresh != nil {
			t.refresh(log)
		}
		answer, err := t.batch(ctx, body.Bytes())
		if err != nil {
			failed++
			log.Warn("a message cannot be transformed", "message", n, "error", err)
			e.Infof("%s", cli.OneLine(err.Error()))
			continue
		}
		if _, err := e.Stdout.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
			return fmt.Errorf("%s: writing its answer: %w", t.path, err)
		}
	}
}

// watched returns a function that opens the model of a file again if the file has changed since last, which was taken
// before the model was read, so that no change between the two is missed. A model that cannot be opened is logged, once
// for each change, and changes nothing.
func watched(path string, last os.FileInfo, open func(*model.Model) error) func(*slog.Logger) {
	return func(log *slog.Logger) {
		now, err := os.Stat(path)
		if err != nil || last != nil && os.SameFile(now, last) && now.ModTime().Equal(last.ModTime()) &&
			now.Size() == last.Size() {
			return // a file that is missing is perhaps about to be replaced
		}
		last = now
		m, err := files.ReadModel(path)
		if err == nil {
			err = open(m)
		}
		if err != nil {
			log.Error("the new model cannot be used; the previous one stays live", "error", err)
			return
		}
		log.Info("a new model is live", "file", path, "digest", m.Digest()[:16])
	}
}

// answerLearning answers messages as a pipeline of the configuration does, and learns from them. Without a model,
// before the first, a message is answered with a line. The live model is kept in the file at path, if it is not "".
func answerLearning(ctx context.Context, e *cli.Env, configuration *client.File, name, path, logPath string) error {
	pipeline, c, err := stageOf(configuration, name)
	if err != nil {
		return err
	}
	if pipeline.Input.Labels != "" {
		return cli.Usagef("transform: pipeline %s takes late labels from the subject %s, and frames have none: send the "+
			"labels with their rows, and leave input.labels out", name, pipeline.Input.Labels)
	}
	if c.Fixed == nil && path != "" {
		if err := keepModel(&c, path); err != nil {
			return err
		}
	}
	stage, err := plugin.New(c)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	defer stage.Close()
	t := &transformer{stage: stage, nulls: c.Nulls}
	n := uint64(0)
	t.learn = func(m *arrowio.Message) error {
		for n++; stage.Status().Backlog > pipeline.Training.Window.Rows; {
			if err := cli.Sleep(ctx, 10*time.Millisecond); err != nil { // learning is behind, and would drop rows
				return err
			}
		}
		return stage.Learn(m, plugin.Position{Seq: n, Time: time.Now()})
	}
	return (&frames{transformer: t}).answer(ctx, e, logPath)
}

// keepModel makes a stage begin with the model in a file, if there is one, and write there each that goes live.
func keepModel(c *plugin.Config, path string) error {
	m, err := files.ReadModel(path)
	switch {
	case err == nil && !c.Spec.Accepts(m.Features()):
		return cli.Usagef("transform: -o %s: its model has features other than schema.features of the pipeline: name "+
			"another file, or move this one away", path)
	case err == nil:
		epoch := max(1, int(m.Note().Epoch))
		c.Resume = &plugin.Live{Model: m, Version: m.Digest()[:16], Epoch: epoch}
		c.Epochs = epoch
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	c.Store = func(_ context.Context, r *plugin.Release) (string, error) {
		err := files.WriteWhole(path, func(w io.Writer) error { return model.Write(w, r.Model) })
		return r.Model.Digest()[:16], err
	}
	return nil
}

// readFrame reads a message into body. At the end of the input the error is io.EOF.
func readFrame(in io.Reader, body *bytes.Buffer) error {
	var length [4]byte
	switch n, err := io.ReadFull(in, length[:]); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the input ends after %d of the 4 bytes of its length", n)
	case err != nil:
		return err
	}
	size := int64(binary.BigEndian.Uint32(length[:]))
	if size > maxFrame {
		return fmt.Errorf("its length is %d bytes, and the limit is %d: send each message after its length, 4 bytes with "+
			"the most significant first", size, maxFrame)
	}
	body.Reset()
	if n, err := io.CopyN(body, in, size); errors.Is(err, io.EOF) { // allocates for what arrives, not for the length
		return fmt.Errorf("the input ends after %d of its %d bytes", n, size)
	} else if err != nil {
		return err
	}
	return nil
}

// openLog opens a log that is appended to; without a path it discards what is logged.
func openLog(path string) (log *slog.Logger, done func(), err error) {
	if path == "" {
		return slog.New(slog.DiscardHandler), func() {}, nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, nil, fmt.Errorf("--log: %w", err)
	}
	return slog.New(slog.NewTextHandler(file, nil)), func() { file.Close() }, nil
}
