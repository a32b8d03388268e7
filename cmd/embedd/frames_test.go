package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/ipc"
	"go.yaml.in/yaml/v3"

	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/files"
	"github.com/embedd/embedd/internal/testsize"
)

func framed(messages ...[]byte) (all []byte) {
	for _, m := range messages {
		all = append(binary.BigEndian.AppendUint32(all, uint32(len(m))), m...)
	}
	return all
}

// framesModel fits a model, and returns its path and a function that makes a message of lines of CSV.
func framesModel(t *testing.T) (path string, message func(lines string) []byte) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "model.embedd")
	rows := writeFile(t, dir, "rows.csv", labelledRows(60))
	verb(t, 0, "fit", "--data", rows, "--label", "label", "--method", "pca", "--dim", "1", "-o", path)
	return path, func(lines string) []byte {
		in := sure(file.Options{}.NewReader(strings.NewReader("x,y,label\n"+lines), "test"))
		defer in.Close()
		return sure(in.NextMessage())
	}
}

// TestFrames: each message is answered in order, by a message or by one line, whatever it is; only a cut or oversized
// one ends the command.
func TestFrames(t *testing.T) {
	model, message := framesModel(t)
	good, bad := message("1,2,a\n3,4,b\n"), message("1,2,a\n,4,b\n")
	log := filepath.Join(t.TempDir(), "log")
	run := func(in []byte, flags ...string) (code int, answers [][]byte, lines []string) {
		t.Helper()
		var out, errs bytes.Buffer
		e := &cli.Env{Stdin: bytes.NewReader(in), Stdout: &out, Stderr: &errs}
		code = dispatch(t.Context(), e, append([]string{"transform", "--model", model, "--frames", "uint32be"}, flags...))
		for b := out.Bytes(); len(b) > 0; {
			n := binary.BigEndian.Uint32(b)
			answers, b = append(answers, b[4:4+n]), b[4+n:]
		}
		if errs.Len() > 0 {
			lines = strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
		}
		return code, answers, lines
	}
	n := testsize.Of(1000, 100_000)
	var all [][]byte
	for i := range n {
		switch i % 100 {
		case 3:
			all = append(all, bad)
		case 7:
			all = append(all, []byte("not\nArrow"))
		case 9:
			all = append(all, nil)
		case 11:
			all = append(all, good[:len(good)-20])
		default:
			all = append(all, good)
		}
	}
	code, answers, lines := run(framed(all...), "--log", log, "--nulls", "reject")
	if code != 0 || len(answers) != n-n/25 || len(lines) != n/25 {
		t.Fatalf("exit %d: %d messages have %d answers and %d lines: %.300s", code, n, len(answers), len(lines), lines)
	}
	for i, says := range []string{"message 4: row 2, feature \"x\"", "message 8: ", "message 10: ", "message 12: "} {
		if !strings.Contains(lines[i], says) {
			t.Errorf("line %d is %s, want %s", i, lines[i], says)
		}
	}
	r := sure(ipc.NewReader(bytes.NewReader(answers[0])))
	defer r.Release()
	if !r.Next() || r.Record().NumRows() != 2 || !r.Schema().HasField("embedding") || !r.Schema().HasField("label") {
		t.Errorf("an answer is %v", r.Schema())
	}
	if text := string(sure(os.ReadFile(log))); !strings.Contains(text, fmt.Sprintf("messages=%d failed=%d", n, n/25)) {
		t.Errorf("the log ends with %s", text[max(0, len(text)-300):])
	}
	if code, answers, lines := run(nil); code != 0 || answers != nil || lines != nil {
		t.Errorf("no message: exit %d, %d answers, %s", code, len(answers), lines)
	}
	if code, answers, lines := run(framed(bad), "--nulls", "skip"); code != 0 || len(answers) != 1 || lines != nil {
		t.Errorf("--nulls skip: exit %d, %d answers, %s", code, len(answers), lines)
	}
	for says, in := range map[string][]byte{
		"the input ends after 2 of the 4 bytes": append(framed(good), 0, 0),
		"the input ends after 3 of its 9 bytes": append(framed(good), 0, 0, 0, 9, 1, 2, 3),
		"the limit is 67108864":                 append(framed(good), 'A', 'R', 'R', 'O'),
	} {
		if code, answers, lines := run(in); code != 1 || len(answers) != 1 || len(lines) != 1 ||
			!strings.Contains(lines[0], says) || !strings.Contains(lines[0], "message 2") {
			t.Errorf("exit %d, %d answers, %s; want %s", code, len(answers), lines, says)
		}
	}
	for says, args := range map[string][]string{
		"--data and -o are required, or --frames":  {"transform", "--model", model},
		"-o x.csv and --frames without --pipeline": {"transform", "--model", model, "--frames", "uint32be", "-o", "x.csv"},
		"together with --frames":                   {"transform", "--model", model, "--data", "x", "-o", "y", "--log", "z"},
		"want one of none, uint32be":               {"transform", "--model", model, "--frames", "lines"},
	} {
		if code, _, errs := call(t.Context(), args...); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%v: exit %d, %s; want %s", args, code, errs, says)
		}
	}
}

// talk starts transform with frames, and returns a function that sends a message and returns its answer, or the line of
// one that has none, and one that ends the input and returns the exit code.
func talk(t *testing.T, ctx context.Context, args ...string) (ask func([]byte) (answer []byte, line string),
	end func() int) {
	t.Helper()
	stdin, send := io.Pipe()
	receive, stdout := io.Pipe()
	lines, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		e := &cli.Env{Stdin: stdin, Stdout: stdout, Stderr: stderr}
		ended <- dispatch(ctx, e, append([]string{"transform", "--frames", "uint32be"}, args...))
		stdout.Close()
		stderr.Close()
	}()
	type reply struct {
		answer []byte
		line   string
	}
	replies := make(chan reply)
	go func() {
		for {
			var length [4]byte
			if _, err := io.ReadFull(receive, length[:]); err != nil {
				return
			}
			answer := make([]byte, binary.BigEndian.Uint32(length[:]))
			if _, err := io.ReadFull(receive, answer); err != nil {
				return
			}
			replies <- reply{answer: answer}
		}
	}()
	go func() {
		errs := bufio.NewScanner(lines)
		for errs.Scan() {
			replies <- reply{line: errs.Text()}
		}
	}()
	return func(msg []byte) ([]byte, string) {
			sure(send.Write(framed(msg)))
			r := <-replies
			return r.answer, r.line
		}, func() int {
			send.Close()
			return <-ended
		}
}

// modelOf is the model that an answer names.
func modelOf(t *testing.T, answer []byte) string {
	t.Helper()
	r := sure(ipc.NewReader(bytes.NewReader(answer)))
	defer r.Release()
	meta := r.Schema().Metadata()
	return meta.Values()[meta.FindKey(wire.HeaderModel)]
}

// TestFramesWatch: a model that replaces the file answers the next message, and a damaged one changes nothing.
func TestFramesWatch(t *testing.T) {
	model, message := framesModel(t)
	log := filepath.Join(t.TempDir(), "log")
	ask, end := talk(t, t.Context(), "--model", model, "--watch", "--log", log)
	msg := message("1,2,a\n")
	live := func() string {
		t.Helper()
		answer, line := ask(msg)
		if line != "" {
			t.Fatal(line)
		}
		return modelOf(t, answer)
	}
	first := live()
	if again := live(); again != first {
		t.Errorf("model %s became %s", first, again)
	}
	rows := writeFile(t, t.TempDir(), "rows.csv", labelledRows(80))
	verb(t, 0, "fit", "--data", rows, "--label", "label", "--method", "lda", "-o", model)
	second := live()
	if second == first {
		t.Errorf("the new model does not answer")
	}
	writeFile(t, filepath.Dir(model), filepath.Base(model), "damaged")
	if now := live(); now != second {
		t.Errorf("a damaged model: %s answers, want %s", now, second)
	}
	if code := end(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if text := string(sure(os.ReadFile(log))); strings.Count(text, "a new model is live") != 1 ||
		strings.Count(text, "the new model cannot be used") != 1 {
		t.Errorf("the log is %s", text)
	}
}

// TestFramesLearn: with a pipeline messages are learned, each is answered, and the next process begins with the model.
func TestFramesLearn(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, dir, "embedd.yaml", "pipelines: {p: {input: {subject: in.p}, schema: {features: [x, y], "+
		"label: label, key: id}, output: {subject: out.p}, model: {method: lda, dim: 1}}}\n")
	model := filepath.Join(dir, "m.embedd")
	in := sure(file.Options{}.NewReader(strings.NewReader(labelledRows(300)), "test"))
	defer in.Close()
	msg := sure(in.NextMessage())
	ask, end := talk(t, t.Context(), "-c", path, "--pipeline", "p", "-o", model)
	_, line := ask(msg)
	if !strings.Contains(line, "message 1: ") {
		t.Fatalf("before the first model the line is %q", line)
	}
	var answer []byte
	for answer == nil {
		answer, _ = ask(msg)
	}
	live := modelOf(t, answer)
	if code := end(); code != 0 {
		t.Errorf("exit %d", code)
	}
	ask, end = talk(t, t.Context(), "-c", path, "--pipeline", "p", "-o", model)
	if answer, line = ask(msg); line != "" || modelOf(t, answer) == "" {
		t.Fatalf("a new process: %q", line)
	}
	if stored := sure(files.ReadModel(model)).Digest()[:16]; len(live) != len(stored) {
		t.Errorf("%s answered, and %s is stored", live, stored)
	}
	end()
	other := writeFile(t, dir, "other.yaml", strings.Replace(string(sure(os.ReadFile(path))), "[x, y]", "[x]", 1))
	if code, _, errs := call(t.Context(), "transform", "--frames", "uint32be", "-c", other, "--pipeline", "p", "-o",
		model); code != 2 || !strings.Contains(errs, "features other than schema.features") {
		t.Errorf("a model of other features: exit %d, %s", code, errs)
	}
	if code, _, errs := call(t.Context(), "transform", "--frames", "uint32be", "-c", path, "--pipeline", "q"); code != 2 ||
		!strings.Contains(errs, `has no pipeline "q"`) {
		t.Errorf("an unknown pipeline: exit %d, %s", code, errs)
	}
}

// TestFirstSignal: the first signal ends verbs that wait for standard input.
func TestFirstSignal(t *testing.T) {
	model, _ := framesModel(t)
	for _, args := range [][]string{
		{"transform", "--model", model, "--frames", "uint32be"},
		{"transform", "--model", model, "--data", "-", "-o", "-"},
		{"fit", "--data", "-", "--label", "label", "-o", filepath.Join(t.TempDir(), "x")},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		silent, sender := io.Pipe()
		ended := make(chan int)
		go func() {
			ended <- dispatch(ctx, &cli.Env{Stdin: silent, Stdout: io.Discard, Stderr: io.Discard}, args)
		}()
		cancel(signalError{syscall.SIGTERM})
		if code := <-ended; code != 128+15 {
			t.Errorf("%v: exit %d", args, code)
		}
		sender.Close()
	}
}

// TestConnectExample runs the processor of examples/connect as Redpanda Connect and Bento do: it sends one message, and
// waits for an answer or a line before the next.
func TestConnectExample(t *testing.T) {
	model, message := framesModel(t)
	var c struct {
		Pipeline struct {
			Processors []struct {
				Subprocess struct {
					Name   string
					Args   []string
					Buffer int    `yaml:"max_buffer"`
					Send   string `yaml:"codec_send"`
					Recv   string `yaml:"codec_recv"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(sure(os.ReadFile("../../examples/connect/connect.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	p := c.Pipeline.Processors[0].Subprocess
	const codec = "length_prefixed_uint32_be"
	if p.Name != "embedd" || p.Send != codec || p.Recv != codec || p.Buffer < 1<<20 {
		t.Errorf("the processor is %+v", p)
	}
	t.Chdir(t.TempDir())
	if err := os.Rename(model, "model.embedd"); err != nil {
		t.Fatal(err)
	}
	if strings.Join(p.Args[:3], " ") != "transform --frames uint32be" {
		t.Fatalf("the arguments are %q", p.Args)
	}
	ask, end := talk(t, t.Context(), p.Args[3:]...)
	for i := range 5 {
		if i%2 == 1 {
			if _, line := ask([]byte("{}")); !strings.Contains(line, fmt.Sprintf("message %d", i+1)) {
				t.Fatalf("the line is %q", line)
			}
			continue
		}
		answer, line := ask(message("1,2,a\n"))
		if line != "" || len(answer) > p.Buffer {
			t.Fatalf("an answer of %d bytes, %s", len(answer), line)
		}
		r := sure(ipc.NewReader(bytes.NewReader(answer)))
		if !r.Schema().HasField("embedding") {
			t.Errorf("the answer is %v", r.Schema())
		}
		r.Release()
	}
	if code := end(); code != 0 {
		t.Errorf("exit %d at the end of the input", code)
	}
}
