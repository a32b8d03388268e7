package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/ipc"
	"go.yaml.in/yaml/v3"

	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
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
		"--data and -o are required, or --frames": {"transform", "--model", model},
		"--frames and -o exclude each other":      {"transform", "--model", model, "--frames", "uint32be", "-o", "x.csv"},
		"together with --frames":                  {"transform", "--model", model, "--data", "x", "-o", "y", "--log", "z"},
		"want one of none, uint32be":              {"transform", "--model", model, "--frames", "lines"},
	} {
		if code, _, errs := call(t.Context(), args...); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%v: exit %d, %s; want %s", args, code, errs, says)
		}
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
	stdin, send := io.Pipe()
	receive, stdout := io.Pipe()
	lines, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- dispatch(t.Context(), &cli.Env{Stdin: stdin, Stdout: stdout, Stderr: stderr}, p.Args)
		stdout.Close()
		stderr.Close()
	}()
	errs := bufio.NewReader(lines)
	for i := range 5 {
		body := message("1,2,a\n")
		isBad := i%2 == 1
		if isBad {
			body = []byte("{}")
		}
		sure(send.Write(framed(body)))
		if isBad {
			if line, err := errs.ReadString('\n'); err != nil || !strings.Contains(line, fmt.Sprintf("message %d", i+1)) {
				t.Fatalf("the line is %q, %v", line, err)
			}
			continue
		}
		var length [4]byte
		sure(io.ReadFull(receive, length[:]))
		answer := make([]byte, binary.BigEndian.Uint32(length[:]))
		if len(answer) > p.Buffer {
			t.Fatalf("an answer of %d bytes", len(answer))
		}
		sure(io.ReadFull(receive, answer))
		r := sure(ipc.NewReader(bytes.NewReader(answer)))
		if !r.Schema().HasField("embedding") {
			t.Errorf("the answer is %v", r.Schema())
		}
		r.Release()
	}
	send.Close()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d at the end of the input", code)
	}
}
