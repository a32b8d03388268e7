package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
)

// textMessages returns the digits as messages of a format: rows of each, with an id and a text that together are larger
// than an output may be. Every fifth message has a row without a value.
func textMessages(t testing.TB, format string, messages, rows int) (out []string) {
	g := digits(t)
	text := strings.Repeat("é", 200)
	for k := range messages {
		var lines []string
		for i := range rows {
			id := k*rows + i
			var x []string
			for _, v := range g.x[id%g.n*64 : (id%g.n+1)*64] {
				x = append(x, fmt.Sprint(v))
			}
			if k%5 == 1 && i == 2 {
				x[7] = map[bool]string{true: "", false: "null"}[format == "csv"]
			}
			switch format {
			case "csv":
				lines = append(lines, fmt.Sprintf("row-%d-,%s,%s", id, text, strings.Join(x, ",")))
			default:
				lines = append(lines,
					fmt.Sprintf(`{"id":"row-%d-","text":%q,"pixels":[%s]}`, id, text, strings.Join(x, ",")))
			}
		}
		switch format {
		case "json":
			out = append(out, "["+strings.Join(lines, ",")+"]")
		case "ndjson":
			out = append(out, "\ufeff"+strings.Join(lines, "\r\n\r\n")+"\r\n")
		default:
			names := "\ufeffid,text"
			for j := range 64 {
				names += fmt.Sprintf(",pixels[%d]", j)
			}
			out = append(out, names+"\r\n\r\n"+strings.Join(lines, "\r\n"))
		}
	}
	return out
}

// TestTextKilled: the daemon is killed while it answers messages of each format, whose outputs are split. Every row is
// in one output or dead letter, and after a replay of the dead letters in one output.
func TestTextKilled(t *testing.T) {
	t.Parallel()
	const messages, rows = 60, 8
	formats := []string{"json", "ndjson", "csv"}
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.stream("FEATURES", nil, "features.>")
	c.stream("REDUCED", func(o *jetstream.StreamConfig) { o.MaxMsgSize = 6 << 10 }, "reduced.>")
	c.stream("DEAD", nil, "dead.>")
	model := packedModel(t, "lda", 3)
	pipelines := func(nulls string) (text string) {
		for _, f := range formats {
			text += fmt.Sprintf(`
%[1]s:
  input: {stream: FEATURES, subject: features.%[1]s, format: %[1]s}
  schema: {features: [pixels], nulls: %[2]s}
  output: {subject: reduced.%[1]s, dead: dead.%[1]s, format: %[1]s}
  model: {file: %[3]s}`, f, nulls, model)
		}
		return text
	}
	config := configFile(t, s.ClientURL(), pipelines("reject"))
	setAckWait(t, config, "3s")
	d := startDaemon(t, config)
	for i, f := range formats {
		for _, msg := range textMessages(t, f, messages, rows) {
			c.send("features."+f, []byte(msg))
		}
		c.await("REDUCED", 20+40*i)
		d.kill()
		d = startDaemon(t, config)
	}
	for _, f := range formats {
		c.settled("FEATURES", f)
	}
	once(t, "FEATURES", 1, messages*len(formats), c.read("REDUCED"))
	counts := func(stream string) map[string]int {
		out := map[string]int{}
		for _, one := range c.read(stream) {
			format := strings.TrimPrefix(one.subject, map[string]string{"REDUCED": "reduced.", "DEAD": "dead."}[stream])
			if one.header.Get(wire.HeaderContentType) != wire.Format(format).ContentType() {
				t.Errorf("%s: content type %q", one.subject, one.header.Get(wire.HeaderContentType))
			}
			for _, id := range regexp.MustCompile("row-[0-9]+-").FindAllString(string(one.data), -1) {
				out[format+" "+id]++
			}
		}
		return out
	}
	all := messages * rows * len(formats)
	answered, dead := counts("REDUCED"), counts("DEAD")
	if len(answered)+len(dead) != all || total(answered)+total(dead) != all || len(dead) != len(formats)*messages/5 {
		t.Errorf("of %d rows, %d are in outputs and %d in dead letters, %d and %d of them different", all,
			total(answered), total(dead), len(answered), len(dead))
	}

	// With another setting the rejected rows are answered.
	d.stop()
	config = configFile(t, s.ClientURL(), pipelines("impute"))
	d = startDaemon(t, config)
	if text := succeed(t, "dlq", "replay", "--server", s.ClientURL()); !strings.Contains(text, "36 dead letters were") {
		t.Errorf("dlq replay prints\n%s", text)
	}
	for _, f := range formats {
		c.settled("FEATURES", f)
	}
	if answered = counts("REDUCED"); len(answered) != all || total(answered) != all || c.count("DEAD") != 0 {
		t.Errorf("after the replay %d of %d rows are in outputs, %d of them different", total(answered), all, len(answered))
	}
	d.stop()
}

func total(counts map[string]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}
