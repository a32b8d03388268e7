package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// maxFrame is the largest message of `transform --frames`: the largest that limits.message allows a daemon.
const maxFrame = 64 << 20

// answerFrames answers each message on standard input, before it reads the next one: with a message on standard output
// or, if it cannot be transformed, with one line on standard error. A message is bytes after their number, an unsigned
// integer of 32 bits, the most significant byte first. Nothing else is written to the two, so that a program that sends
// messages one by one can pair them with answers. It returns at the end of the input, and an error if a message is cut
// or longer than maxFrame: where the next one begins is not known then.
func answerFrames(ctx context.Context, e *cli.Env, t *transformer, logPath string) error {
	log, done, err := openLog(logPath)
	if err != nil {
		return err
	}
	defer done()
	in, failed := bufio.NewReader(e.Stdin), 0
	var body bytes.Buffer
	for n := 1; ; n++ {
		t.path, t.rows = fmt.Sprintf("message %d", n), 0
		err := readFrame(in, &body)
		if errors.Is(err, io.EOF) {
			log.Info("the input ended", "messages", n-1, "failed", failed, "skipped_rows", t.skipped, "imputed_rows",
				t.imputed)
			return nil
		}
		if err != nil {
			log.Error("the input cannot be read", "message", n, "error", err)
			return fmt.Errorf("%s: %w", t.path, err)
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
