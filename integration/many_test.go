package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
)

// TestThousandPipelines: a thousand pipelines in one daemon, on one server with default settings. If one stream does
// not allow enough consumers, `check` reports it; over four streams all pipelines answer, and without input the daemon
// uses less than a fifth of a core.
func TestThousandPipelines(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it")
	}
	s := startServerProcess(t, "")
	one := manyPipelines(t, s.url, 1, 1000)
	dial(t, s.url).stream("IN0", nil, "in0.>")
	out := succeed(t, "check", "-c", one, "--server", s.url)
	if !strings.Contains(out, "need 3000 consumers of stream IN0") {
		t.Errorf("check of a thousand pipelines on one stream:\n%s", tailOf(out, 5))
	}
	if used := idlePipelines(t, 4, 250, time.Minute); used > 0.2 {
		t.Errorf("the idle daemon takes %.2f cores", used)
	}
}

// TestPipelinesGrow measures the cost of 1, 10 and 100 pipelines in one daemon without input.
func TestPipelinesGrow(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it")
	}
	for _, count := range []int{1, 10, 100} {
		t.Run(strconv.Itoa(count), func(t *testing.T) { idlePipelines(t, 1, count, 20*time.Second) })
	}
}

// manyPipelines returns a configuration with pipelines that train, a number for each of some streams.
func manyPipelines(t *testing.T, url string, streams, each int) string {
	var text strings.Builder
	for i := range streams * each {
		in := i % streams
		fmt.Fprintf(&text, `
p%d:
  input: {stream: IN%d, subject: in%d.p%d}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.p%d, dead: dead.p%d}
  model: {method: lda, dim: 4}
  training: {until_ready: pca, window: {rows: 1000}}
`, i, in, in, i, i, i)
	}
	return configFile(t, url, text.String())
}

// TestIdlePipelines measures the memory of a daemon with 300 pipelines that train: before their first message, and when
// each has answered eight messages of 50 rows and is idle again.
func TestIdlePipelines(t *testing.T) {
	if !testsize.Soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it")
	}
	const count, messages, settled = 300, 8, 40 * time.Second
	_, c, d := openPipelines(t, 1, count)
	look := func(when string) {
		time.Sleep(settled)
		pid := d.cmd.Process.Pid
		t.Logf("%d pipelines %s: resident %d MiB, of the heap and stacks %s, of files %s", count, when, residentMiB(t, pid),
			processStatus(t, pid, "RssAnon"), processStatus(t, pid, "RssFile"))
	}
	look("without a message")
	for n := range messages {
		body := digits(t).message(t, 50*n, 50*n+50, true)
		for i := range count {
			c.send(fmt.Sprintf("in0.p%d", i), body)
		}
	}
	c.await("REDUCED", count*messages)
	look(fmt.Sprintf("after %d messages each", messages))
	_, page := d.get("/metrics")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "go_goroutines ") || strings.HasPrefix(line, "go_memstats_") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// openPipelines starts a server and a daemon with pipelines, and returns when the daemon serves.
func openPipelines(t *testing.T, streams, each int) (s *serverProcess, c *client, d *daemon) {
	t.Helper()
	s = startServerProcess(t, "")
	c = dial(t, s.url)
	c.stream("REDUCED", nil, "reduced.>")
	c.stream("DEAD", nil, "dead.>")
	for i := range streams {
		c.stream(fmt.Sprint("IN", i), nil, fmt.Sprintf("in%d.>", i))
	}
	path := manyPipelines(t, s.url, streams, each)
	if out := succeed(t, "check", "-c", path, "--server", s.url); strings.Contains(out, "consumers") {
		t.Errorf("check of %d pipelines on %d streams:\n%s", streams*each, streams, tailOf(out, 5))
	}
	begin := time.Now()
	d = launch(t, path)
	d.awaitServing()
	t.Logf("%d pipelines: open after %v", streams*each, time.Since(begin).Round(time.Second/10))
	return s, c, d
}

// idlePipelines has pipelines answer and learn 400 rows each, then waits, logs the costs of the daemon, and returns its
// share of a core without input.
func idlePipelines(t *testing.T, streams, each int, settled time.Duration) float64 {
	s, c, d := openPipelines(t, streams, each)
	empty := residentMiB(t, d.cmd.Process.Pid)
	body := digits(t).message(t, 0, 400, true)
	begin := time.Now()
	for i := range streams * each {
		c.send(fmt.Sprintf("in%d.p%d", i%streams, i), body)
	}
	c.await("REDUCED", streams*each)
	t.Logf("all have answered after %v", time.Since(begin).Round(time.Second/10))
	eventually(t, says("all are ready"), func() bool {
		code, _ := d.get("/readyz")
		return code == 200
	})
	time.Sleep(settled)
	used, server := processorTime(t, d.cmd.Process.Pid), processorTime(t, s.cmd.Process.Pid)
	time.Sleep(settled)
	of := settled.Seconds()
	share := (processorTime(t, d.cmd.Process.Pid) - used).Seconds() / of
	t.Logf("idle, of a core: the daemon %.3f, the server %.3f; resident %d MiB, %d before the first message", share,
		(processorTime(t, s.cmd.Process.Pid)-server).Seconds()/of, residentMiB(t, d.cmd.Process.Pid), empty)
	return share
}

// residentMiB returns the resident memory of a process.
func residentMiB(t testing.TB, pid int) int {
	t.Helper()
	statm := strings.Fields(string(must(os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)))(t)))
	return must(strconv.Atoi(statm[1]))(t) * os.Getpagesize() >> 20
}

// processStatus returns a field of /proc/PID/status.
func processStatus(t testing.TB, pid int, field string) string {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t))) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// processorTime returns the processor time of a process.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	fields := processFields(t, pid)
	// User and system, in hundredths of a second.
	return time.Duration(must(strconv.Atoi(fields[11]))(t)+must(strconv.Atoi(fields[12]))(t)) * 10 * time.Millisecond
}

// pageFaults returns how many pages a process has requested that were not read from a disk.
func pageFaults(t testing.TB, pid int) float64 {
	t.Helper()
	return must(strconv.ParseFloat(processFields(t, pid)[7], 64))(t)
}

// processFields returns what /proc says of a process, from its state on.
func processFields(t testing.TB, pid int) []string {
	t.Helper()
	text := string(must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t))
	return strings.Fields(text[strings.LastIndex(text, ")")+1:])
}
