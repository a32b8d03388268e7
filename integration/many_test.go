package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestThousandPipelines: a thousand pipelines in one daemon, on one server as it is without settings. Where one stream has
// not consumers enough for them `check` says so; over four streams all answer, and while nothing comes the daemon takes
// less than a fifth of a core.
func TestThousandPipelines(t *testing.T) {
	if !soak() {
		t.Skip("it takes minutes; EMBEDD_SOAK=1 runs it")
	}
	s := startServerProcess(t, "")
	c := dial(t, s.url)
	const streams, each = 4, 250
	config := func(streamOf func(i int) string) string {
		var text strings.Builder
		for i := range streams * each {
			fmt.Fprintf(&text, `
p%d:
  input: {stream: %s, subject: %s.p%d}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.p%d, dead: dead.p%d}
  model: {method: lda, dim: 4}
  training: {until_ready: pca, window: {rows: 1000}}
`, i, streamOf(i), strings.ToLower(streamOf(i)), i, i, i)
		}
		return configFile(t, s.url, text.String())
	}
	c.stream("REDUCED", nil, "reduced.>")
	c.stream("DEAD", nil, "dead.>")
	of := func(i int) string { return fmt.Sprint("IN", i%streams) }
	for i := range streams {
		c.stream(of(i), nil, strings.ToLower(of(i))+".>")
	}
	if out := succeed(t, "check", "-c", config(func(int) string { return "IN0" }), "--server", s.url); !strings.Contains(out, "need 3000 consumers of stream IN0") {
		t.Errorf("check says of a thousand pipelines on one stream:\n%s", tailOf(out, 5))
	}
	path := config(of)
	if out := succeed(t, "check", "-c", path, "--server", s.url); strings.Contains(out, "consumers") {
		t.Errorf("check says of a thousand pipelines on four streams:\n%s", tailOf(out, 5))
	}
	begin := time.Now()
	d := launch(t, path)
	eventually(t, func() string { return "the daemon serves: " + tailOf(d.log.String(), 3) }, func() bool {
		m := listens.FindStringSubmatch(d.log.String())
		if m != nil {
			d.http = "http://" + m[1]
		}
		return m != nil
	})
	t.Logf("open after %v", time.Since(begin).Round(time.Second))
	body := digits(t).message(t, 0, 400, true)
	begin = time.Now()
	for i := range streams * each {
		c.send(fmt.Sprintf("%s.p%d", strings.ToLower(of(i)), i), body)
	}
	c.await("REDUCED", streams*each)
	t.Logf("all have answered after %v", time.Since(begin).Round(time.Second))
	eventually(t, says("all are ready"), func() bool {
		code, _ := d.get("/readyz")
		return code == 200
	})
	time.Sleep(time.Minute)
	used, of60 := processorTime(t, d.cmd.Process.Pid), 60*time.Second
	server := processorTime(t, s.cmd.Process.Pid)
	time.Sleep(of60)
	used, server = processorTime(t, d.cmd.Process.Pid)-used, processorTime(t, s.cmd.Process.Pid)-server
	t.Logf("idle, of a core: the daemon %.3f, the server %.3f", used.Seconds()/of60.Seconds(), server.Seconds()/of60.Seconds())
	if used > of60/5 {
		t.Errorf("the idle daemon takes %.2f cores", used.Seconds()/of60.Seconds())
	}
}

// processorTime is what a process has taken so far.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat := string(must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t))
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	total := 0
	for _, f := range fields[11:13] { // user and system, in hundredths of a second
		total += must(strconv.Atoi(f))(t)
	}
	return time.Duration(total) * 10 * time.Millisecond
}
