package console

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream"
)

// transforms limits the messages that are transformed at once, so that requests leave cores to the stream. No place is
// taken while a client sends or reads.
var transforms = make(chan struct{}, runtime.GOMAXPROCS(0))

// streams limits the open streams. Each keeps the dictionaries of its Arrow stream and a message or its answer, up to
// limits.message each.
var streams = make(chan struct{}, 24)

// transformTimeout is how long a message, or a batch of a stream of them, may take to arrive and its answer to leave.
const transformTimeout = time.Minute

// busy is the error of a request whose time is over before its turn came.
func busy(ctx context.Context) error {
	if ctx.Err() != context.DeadlineExceeded {
		return ctx.Err()
	}
	return stream.WithCode(codeClients, fmt.Errorf("for %v other requests were transformed: try again",
		transformTimeout))
}

// transform answers a message or, if its length is not known or exceeds the limit, a stream: batch by batch, all under
// one model. Between batches a stream holds none of the messages that are limited.
func (s *server) transform(w http.ResponseWriter, r *request) (any, error) {
	e, err := s.engine()
	if err != nil {
		return nil, err
	}
	form, err := e.Messages(r.pipeline())
	if err == nil {
		err = negotiate(&form, r.Header)
	}
	if err != nil {
		return nil, err
	}
	t := &transform{engine: e, log: s.options.Log, request: r, w: w, out: http.NewResponseController(w), form: form}
	// An answer over HTTP/1.0 ends with the connection: its client would take one that is cut off for complete.
	hasBatches := form.Input == form.Output && form.Input != wire.FormatJSON && r.ProtoAtLeast(1, 1)
	if hasBatches && (r.ContentLength < 0 || r.ContentLength > form.Limit) {
		return nil, withFormatHint(t.stream())
	}
	t.held.limit = form.Limit
	defer t.held.set(0)
	return nil, withFormatHint(t.one(func() ([]byte, error) { return t.whole(r.Body) }, func(m stream.Message) error {
		if err := t.held.set(int64(len(m.Data))); err != nil {
			return err
		}
		s.answer(w, m)
		return errHandled
	}))
}

// withFormatHint adds the Content-Type header to the error of a body that is not in the expected format. The error
// itself names only the key input.format, because messages of a stream cause it too.
func withFormatHint(err error) error {
	switch code := stream.ErrorCode(err); wire.Code(code) {
	case wire.NotArrow, wire.NotJSON, wire.NotCSV:
		return stream.WithCode(code, fmt.Errorf("%w; over HTTP the header Content-Type names the format", err))
	}
	return err
}

// transform is one request.
type transform struct {
	engine  *stream.Engine
	log     *slog.Logger
	request *request
	w       http.ResponseWriter
	out     *http.ResponseController
	form    stream.Messages
	first   *stream.Message // without its data: its model serves all
	batches int
	held    heldMemory // of a message that is no stream
}

// one reads, transforms and answers a message within transformTimeout.
func (t *transform) one(read func() ([]byte, error), answer func(stream.Message) error) error {
	end := time.Now().Add(transformTimeout)
	ctx, cancel := context.WithDeadline(t.request.Context(), end)
	defer cancel()
	if err := errors.Join(t.out.SetReadDeadline(end), t.out.SetWriteDeadline(end)); err != nil {
		return err
	}
	data, err := read()
	if err != nil {
		return err
	}
	m, err := t.do(ctx, data)
	if err != nil {
		return err
	}
	if t.batches++; t.batches == 1 {
		first := m
		first.Data = nil
		t.first = &first
	}
	return answer(m)
}

// do transforms a message when its turn comes.
func (t *transform) do(ctx context.Context, data []byte) (stream.Message, error) {
	select {
	case transforms <- struct{}{}:
		defer func() { <-transforms }()
	case <-ctx.Done():
		return stream.Message{}, busy(ctx)
	}
	made, err := t.engine.Do(ctx, t.request.pipeline(), "transform", stream.Request{Data: data, First: t.first,
		Input: t.form.Input, Output: t.form.Output})
	if err != nil {
		return stream.Message{}, err
	}
	return made.(stream.Message), nil
}

// whole reads a message.
func (t *transform) whole(in io.Reader) ([]byte, error) {
	data, err := io.ReadAll(t.held.reader(http.MaxBytesReader(t.w, io.NopCloser(in), t.form.Limit)))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, stream.WithCode(string(wire.TooLarge), fmt.Errorf("the message has more than %d bytes; send fewer "+
			"rows, or raise limits.message", t.form.Limit))
	}
	if err != nil && stream.ErrorCode(err) != codeClients {
		err = badRequest(fmt.Errorf("reading the message: %w", err))
	}
	return data, err
}

// readError is the error of reading a body.
func (t *transform) readError(err error) error {
	switch {
	case err == nil, err == io.EOF, stream.ErrorCode(err) == string(wire.TooLarge):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return badRequest(fmt.Errorf("a message did not arrive within %v: %w", transformTimeout, err))
	case t.form.Input == wire.FormatArrow && t.batches == 0:
		return stream.WithCode(string(wire.NotArrow), err)
	}
	return badRequest(fmt.Errorf("reading the message: %w", err))
}

// endOfStream ends an Arrow IPC stream.
const endOfStream = "\xff\xff\xff\xff\x00\x00\x00\x00"

// stream answers each batch before the next is read. An error of the first is answered as that of a message; a later
// one ends the answer without its end, so that no client takes it for complete.
func (t *transform) stream() error {
	if err := t.out.EnableFullDuplex(); err != nil { // else a refusal waits for the end of the body
		return err
	}
	select {
	case streams <- struct{}{}:
		defer func() { <-streams }()
	default:
		return stream.WithCode(codeClients, fmt.Errorf("%d streams are open, which is the limit: try again, or send "+
			"messages with their length", cap(streams)))
	}
	in := bufio.NewReaderSize(t.request.Body, chunkBytes)
	w := file.NewWriter(t.w, "the answer") // as one Arrow stream
	write, end := w.WriteMessage, w.Close
	read, more := file.Messages(in, t.form.Limit), func() error {
		_, err := in.Peek(1)
		if head, _ := in.Peek(len(endOfStream)); err == nil && t.batches > 0 && string(head) == endOfStream {
			_, err = in.Peek(len(endOfStream) + 1) // the client may keep the body open
		}
		return err
	}
	if t.form.Input != wire.FormatArrow {
		lines := &lineChunks{in: in, limit: t.form.Limit, isCSV: t.form.Input == wire.FormatCSV}
		read, more, write, end = lines.next, lines.more, t.text(lines.isCSV), func() error { return nil }
	}
	for {
		err := t.out.SetReadDeadline(time.Now().Add(transformTimeout))
		if err == nil {
			err = more()
		}
		if err == io.EOF && t.batches > 0 {
			err = t.out.SetWriteDeadline(time.Now().Add(transformTimeout))
			if err = errors.Join(err, end()); err == nil {
				return errHandled
			}
		} else if err == nil || err == io.EOF {
			err = t.one(func() ([]byte, error) {
				data, err := read()
				return data, t.readError(err)
			}, func(m stream.Message) error {
				if t.batches == 1 {
					setHeaders(t.w, m)
				}
				return errors.Join(write(m.Data), t.out.Flush())
			})
		}
		switch {
		case err == nil:
		case err == io.EOF && t.batches > 0: // the end of an Arrow stream was all that was left
		case t.batches == 0:
			return err
		default:
			t.log.Info("a stream of messages over HTTP was aborted", "pipeline", t.request.pipeline(), "batches", t.batches,
				"by", t.request.by(), "error", err)
			panic(http.ErrAbortHandler)
		}
	}
}

// text returns what writes messages of lines as one: CSV has its header once.
func (t *transform) text(isCSV bool) func([]byte) error {
	return func(data []byte) error {
		if isCSV && t.batches > 1 {
			first := &lineChunks{in: bufio.NewReader(bytes.NewReader(data)), limit: int64(len(data)), isCSV: true}
			header, err := first.row()
			if err != nil && err != io.EOF {
				return err
			}
			data = data[len(header):]
		}
		_, err := t.w.Write(data)
		return err
	}
}

// chunkBytes is the size of a batch of lines: large enough to amortize its cost, small enough to be answered soon.
const chunkBytes = 64 << 10

// lineChunks cuts text into messages of whole rows, CSV with its header in each: those that have arrived, up to
// chunkBytes or the size of the header, and within the limit.
type lineChunks struct {
	in      *bufio.Reader
	limit   int64
	isCSV   bool
	header  []byte
	kept    []byte // a row that did not fit into the last message
	started bool   // there was a message
}

// more returns io.EOF if there is nothing left.
func (l *lineChunks) more() error {
	if l.kept != nil {
		return nil
	}
	_, err := l.in.Peek(1)
	return err
}

func (l *lineChunks) next() ([]byte, error) {
	chunk, rows := bytes.Clone(l.header), 0
	for len(chunk)-len(l.header) < max(chunkBytes, len(l.header)) &&
		(rows == 0 || l.in.Buffered() > 0) { // else more has not arrived
		row, err := l.row()
		if err != nil && err != io.EOF {
			return nil, err
		}
		if len(bytes.TrimSpace(row)) > 0 {
			if row[len(row)-1] != '\n' {
				row = append(row, '\n')
			}
			if rows > 0 && int64(len(chunk)+len(row)) > l.limit {
				l.kept = row
				break
			}
			if chunk = append(chunk, row...); l.isCSV && l.header == nil {
				l.header = bytes.Clone(row)
			} else {
				rows++
			}
		}
		if err == io.EOF && rows == 0 && l.started {
			return nil, io.EOF
		}
		if err == io.EOF {
			break // also without rows: the pipeline reports what it expects
		}
	}
	l.started = true
	return chunk, nil
}

// row reads a line, or several where a line break is inside of quotes of CSV.
func (l *lineChunks) row() (row []byte, err error) {
	if row = l.kept; row != nil {
		l.kept = nil
		return row, nil
	}
	for quotes := 0; ; {
		part, err := l.in.ReadSlice('\n')
		if row = append(row, part...); int64(len(row)) > l.limit {
			return nil, wire.Errorf(wire.TooLarge, "a line has more than %d bytes", l.limit).WithHint("raise limits.message")
		}
		if quotes += bytes.Count(part, []byte{'"'}); err == bufio.ErrBufferFull || err == nil && l.isCSV && quotes%2 == 1 {
			continue
		}
		return row, err
	}
}
