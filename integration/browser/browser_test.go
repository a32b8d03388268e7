// Package browser drives the console in a real browser, against a real daemon and a real server. It is a separate
// module, so that the main one does not depend on a browser.
package browser

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "write pictures of each state, and a page, to this directory")

//go:embed testdata/axe.min.js
var axe string

// ample is far more than any step takes on a busy machine.
const ample = 10 * time.Minute

// configured is a pipeline of digits.
func configured(name string, keys ...string) string {
	return fmt.Sprintf(`
  %[1]s:
    input: {stream: FEATURES, subject: features.%[1]s}
    schema: {features: ["x*"], label: label}
    output: {subject: reduced.%[1]s, dead: dead.%[1]s}
    %[2]s
`, name, strings.Join(keys, "\n    "))
}

const lda, fixed = "model: {method: lda, dim: 4}", "model: {file: model.embedd}"

var learning = configured("digits", lda, "training: {every: {rows: 400}}")

// rig is a server, a daemon and a browser.
type rig struct {
	t       *testing.T
	dir     string
	bin     string
	nats    int
	http    int
	login   string // of raw clients, where the server has the printed permissions
	proxy   string // its address, under which the browser opens the page; "": none
	server  *exec.Cmd
	daemon  *exec.Cmd
	browser context.Context

	mu     sync.Mutex
	seen   []string // by the browser: errors, and requests to other hosts
	isDown bool     // the daemon is, or refuses the browser: requests fail
}

func (r *rig) url() string { return cmp.Or(r.proxy, fmt.Sprintf("http://127.0.0.1:%d/", r.http)) }

// start builds what is missing and starts everything, with the pipelines of a configuration.
func start(t *testing.T, pipelines string) *rig {
	r := &rig{t: t, dir: t.TempDir(), bin: os.Getenv("EMBEDD_BIN"), nats: freePort(t), http: freePort(t)}
	if r.bin == "" {
		r.bin = t.TempDir()
		for name, path := range map[string]string{"embedd": "./cmd/embedd",
			"nats-server": "github.com/nats-io/nats-server/v2"} {
			build := exec.Command("go", "build", "-o", filepath.Join(r.bin, name), path)
			build.Dir = "../.."
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("building %s: %v\n%s", name, err, out)
			}
		}
	}
	logins, setup := "", []string{"setup", "--apply"}
	if strings.Contains(pipelines, restricted) {
		logins = ", user: embedd_daemon, password: p, users: {setup: {user: embedd_setup, password: p}}"
		r.login, setup = `,"user":"embedd_producer","pass":"p"`, append(setup, "--user", "setup")
	}
	access := ""
	if strings.Contains(pipelines, closed) {
		access = ", token_file: token, operate: false"
		r.write("token", "secret")
	}
	r.write("embedd.yaml", fmt.Sprintf("nats: {url: \"nats://127.0.0.1:%d\"%s}\nhttp: {listen: \"127.0.0.1:%d\"%s}\n"+
		"pipelines:%s", r.nats, logins, r.http, access, pipelines))
	if strings.Contains(pipelines, "model.embedd") {
		r.rows(0, 400, false)
		r.must("fit", "--data", "rows.csv", "--label", "label", "--method", "lda", "--dim", "4", "-o", "model.embedd")
	}
	if r.login != "" {
		permissions, err := r.verb("setup", "--permissions").Output()
		if err != nil {
			t.Fatal(err)
		}
		r.write("server.conf", string(permissions))
	}
	r.serve()
	r.until("setup", func() bool { return r.try(setup...) == nil })
	r.embedd()
	r.open()
	return r
}

// embedd starts the daemon, and waits until it listens.
func (r *rig) embedd() {
	r.daemon = r.run("embedd", "run")
	r.until("the page answers", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.http))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// freePort reserves a port until the test ends, as FreePort of internal/link does, for all tests that run.
func freePort(t *testing.T) int {
	for range 100_000 {
		port := 20000 + rand.IntN(12000)
		held, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			held.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { held.Close() })
		return port
	}
	t.Fatal("no port of 20000 to 31999 is free")
	return 0
}

func (r *rig) write(name, text string) {
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// serve starts the NATS server, on the same store each time.
func (r *rig) serve() {
	args := []string{"-a", "127.0.0.1", "-p", fmt.Sprint(r.nats), "-js", "-sd", filepath.Join(r.dir, "store")}
	if r.login != "" {
		args = append(args, "-c", "server.conf")
	}
	r.server = r.run("nats-server", args...)
}

// run starts a program that ends with the test.
func (r *rig) run(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(r.bin, name), args...)
	cmd.Dir = r.dir
	cmd.Env = cmd.Environ()
	for _, role := range []string{"DAEMON", "PRODUCER", "READER", "OPERATOR", "VIEWER", "SETUP"} {
		cmd.Env = append(cmd.Env, "EMBEDD_"+role+"_PASSWORD=p")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	r.t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		if r.t.Failed() {
			r.t.Logf("%s: %s", name, out.Bytes()[max(0, out.Len()-4000):])
		}
	})
	return cmd
}

// verb is a command of embedd.
func (r *rig) verb(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(r.bin, "embedd"), args...)
	cmd.Dir = r.dir
	return cmd
}

// try runs a verb of embedd.
func (r *rig) try(args ...string) error {
	out, err := r.verb(args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return nil
}

// must runs a verb of embedd that succeeds.
func (r *rig) must(args ...string) {
	r.t.Helper()
	if err := r.try(args...); err != nil {
		r.t.Fatal(err)
	}
}

// send sends a message to a subject as a raw client.
func (r *rig) send(subject, message string) {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.nats))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT {\"verbose\":false%s}\r\nPUB %s _INBOX.x %d\r\n%s\r\nPING\r\n", r.login, subject,
		len(message), message)
	for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != "PONG"; {
	}
}

// publish sends digits to a pipeline.
func (r *rig) publish(pipeline string, from, to int, drift bool, labels ...string) {
	r.rows(from, to, drift, labels...)
	r.must("publish", "--data", "rows.csv", "--label", "label", "--pipeline", pipeline, "--batch", "50")
}

// rows writes digits from a row on to rows.csv; with drift their pixels are in another order. Labels replace those of
// the rows.
func (r *rig) rows(from, to int, drift bool, labels ...string) {
	file, err := os.Open("../../cmd/embedd/data/digits.csv.gz")
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		r.t.Fatal(err)
	}
	rows, err := csv.NewReader(unpacked).ReadAll()
	if err != nil {
		r.t.Fatal(err)
	}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.Write(rows[0])
	for i := from; i < to; i++ {
		row := slices.Clone(rows[1+i%(len(rows)-1)])
		if drift {
			slices.Reverse(row[:64])
		}
		if n := len(labels); n > 0 { // each digit has its share
			digit := int(row[64][0] - '0')
			row[64] = labels[(digit*n/10+i%max(n/10, 1))%n]
		}
		w.Write(row)
	}
	w.Flush()
	r.write("rows.csv", out.String())
}

// open starts the browser, and notes what it must not log or request.
func (r *rig) open() {
	path := ""
	for _, name := range []string{"chromium-headless-shell", "google-chrome", "chromium"} { // as in .ci/run
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		r.t.Fatal("no browser: apt-get install --no-install-recommends chromium-headless-shell")
	}
	all, end := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox)...)
	r.t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(all)
	r.t.Cleanup(cancel)
	r.browser = ctx
	if err := chromedp.Listen(ctx, r.note); err != nil {
		r.t.Fatal(err)
	}
	if err := chromedp.Do(ctx, command(cdplog.Enable, cdp.Empty{}),
		chromedp.EmulateViewport(1280, 900), chromedp.Navigate("about:blank")); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) note(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *cdplog.EventEntryAdded:
		text = fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, r.url()) && !strings.HasPrefix(e.Request.URL, "about:") {
			text = "request to " + e.Request.URL
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isDown && (strings.Contains(text, "net::ERR_") || strings.Contains(text, "status of 503") ||
		strings.Contains(text, "status of 401")) {
		return
	}
	if text != "" {
		r.seen = append(r.seen, text)
	}
}

// failing says whether requests fail from now on, because the test has them fail.
func (r *rig) failing(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isDown = is
}

func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	for end := time.Now().Add(ample); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not within %v: %s\n%s", ample, what, r.text("document.body.innerText"))
		}
	}
}

// js evaluates an expression in the page.
func js[T any](r *rig, expression string) T {
	r.t.Helper()
	v, err := chromedp.Run(r.browser, chromedp.Evaluate[T](expression))
	if err != nil {
		r.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (r *rig) text(expression string) string { return js[string](r, expression) }

// shows waits until the page contains a text.
func (r *rig) shows(text string) {
	r.t.Helper()
	quoted, _ := json.Marshal(text)
	r.until("the page shows "+text, func() bool {
		return js[bool](r, fmt.Sprintf("document.body.innerText.includes(%s)", quoted))
	})
}

// look opens a view of a pipeline.
func (r *rig) look(pipeline, view string) {
	r.t.Helper()
	if err := chromedp.Do(r.browser, chromedp.Navigate(r.url()+"?pipeline="+pipeline+"&view="+view)); err != nil {
		r.t.Fatal(err)
	}
}

// view is how a picture is taken.
type view struct {
	width int64
	theme string
}

// shoot checks the page with axe. With the flag it takes pictures of all widths and themes, and checks each.
func (r *rig) shoot(name string) {
	r.t.Helper()
	views := []view{{360, "dark"}, {1280, "light"}}
	if *screenshots != "" {
		views = nil
		for _, width := range widths {
			views = append(views, view{width, "light"}, view{width, "dark"})
		}
	}
	for _, v := range views {
		media := emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.theme}}}
		if err := chromedp.Do(r.browser, command(emulation.SetEmulatedMedia, media),
			chromedp.EmulateViewport(v.width, 900), chromedp.Sleep(300*time.Millisecond)); err != nil {
			r.t.Fatal(err)
		}
		if *screenshots != "" {
			take := chromedp.FullScreenshot(100)
			if js[bool](r, "document.querySelector('dialog').open") { // it covers what is visible
				take = chromedp.CaptureScreenshot()
			}
			picture, err := chromedp.Run(r.browser, take)
			if err == nil {
				err = writePicture(filepath.Join(*screenshots, fmt.Sprintf("%s-%s-%d.png", name, v.theme, v.width)), picture)
			}
			if err != nil {
				r.t.Fatal(err)
			}
		}
		r.accessible(fmt.Sprintf("%s, %s, %d pixels", name, v.theme, v.width))
	}
	if err := chromedp.Do(r.browser, chromedp.EmulateViewport(1280, 900)); err != nil {
		r.t.Fatal(err)
	}
}

// command sends a command of the protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, c, params)
		return v, err
	}
}

// accessible checks the page with axe.
func (r *rig) accessible(where string) {
	r.t.Helper()
	if !js[bool](r, "typeof axe === 'object'") {
		js[any](r, axe+"; 0")
	}
	found, err := chromedp.Run(r.browser, chromedp.Evaluate[string](`axe.run().then((r) => r.violations.map((v) =>
		v.id + ': ' + v.help + ': ' + v.nodes.map((n) => n.target + ' ' + n.failureSummary).join('; ')).join('\n'))`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		r.t.Fatal(err)
	}
	if found != "" {
		r.t.Errorf("axe, %s: %s", where, found)
	}
}

// press presses keys.
func (r *rig) press(keys string) {
	r.t.Helper()
	if err := chromedp.Do(r.browser, chromedp.KeyEvent(keys)); err != nil {
		r.t.Fatal(err)
	}
}

// tabTo moves the focus by the keyboard until an element with a text has it.
func (r *rig) tabTo(text string) {
	r.t.Helper()
	for range 60 {
		if r.text("document.activeElement.textContent.trim()") == text {
			return
		}
		r.press("\t")
	}
	r.t.Fatalf("no way to %q by keyboard", text)
}

// confirm presses the button that has the focus, and the one in the dialog that it opens.
func (r *rig) confirm(operation string) {
	r.t.Helper()
	r.press("\r")
	r.until("the dialog has the focus", func() bool {
		return js[bool](r, "document.activeElement.closest('dialog') !== null")
	})
	r.tabTo(operation)
	r.press("\r")
}

// TestOperatorsSession is an operator's day: a first model, a drift, a rollback by keyboard, a server that is gone.
func TestOperatorsSession(t *testing.T) {
	t.Parallel()
	r := start(t, learning)
	r.look("digits", "summary")
	r.shows("waiting for labels")
	r.shows("Replicas that answered")
	t.Logf("the first picture after %.0f ms", js[float64](r, "performance.getEntriesByType('paint').at(-1).startTime"))
	r.shoot("waiting")

	r.publish("digits", 0, 1600, false)
	r.until("a first model", func() bool { return r.live() != "" })
	r.look("digits", "points")
	r.shows("Previous model")
	r.until("ten classes", func() bool {
		return js[int](r, "document.querySelectorAll('.legend button').length") == 10
	})
	r.shoot("points")

	before := r.live()
	r.publish("digits", 0, 1797, true)
	r.publish("digits", 0, 1797, true)
	r.until("another version after the drift", func() bool { return r.live() != before })
	r.settle()
	r.look("digits", "models")
	r.shows("previous")
	for i := range 2 { // a choice draws the table again
		js[any](r, fmt.Sprintf("document.querySelectorAll('td input[type=checkbox]')[%d].click()", i))
	}
	r.shows("Two versions")
	r.shoot("models")
	narrow := func(width int64) {
		if err := chromedp.Do(r.browser, chromedp.EmulateViewport(width, 900)); err != nil {
			t.Fatal(err)
		}
	}
	narrow(360)
	if right := js[float64](r, "Math.max(...[...document.querySelectorAll('td button')].map((b) => "+
		"b.getBoundingClientRect().right))"); right > 360 {
		t.Errorf("on a page of 360 pixels the buttons of versions end at %v", right)
	}
	narrow(1280)
	js[any](r, "[...document.querySelectorAll('td button')].find((b) => b.textContent === 'Pin').focus()")
	r.confirm("Pin")
	r.shows("live, pinned") // the table follows,
	r.until("the overview follows", func() bool {
		return js[bool](r, "document.querySelector('.cards').innerText.includes(', pinned')")
	})
	r.until("the button has the focus again", func() bool { // and the focus stays
		return r.text("document.activeElement.closest('td button')?.textContent ?? ''") == "Unpin"
	})
	r.confirm("Unpin")
	r.until("no version is pinned", func() bool {
		return !js[bool](r, "document.body.innerText.includes('live, pinned')")
	})
	r.look("digits", "charts")
	r.shows("Evidence for the candidate")
	r.until("eight charts", func() bool {
		return js[int](r, "document.querySelectorAll('.chart canvas').length") == 8
	})
	r.shoot("charts")

	// By keyboard alone.
	r.look("digits", "summary")
	r.shows("Replicas that answered")
	r.shoot("summary")
	r.until("an operation", func() bool {
		return js[bool](r, `[...document.querySelectorAll('.bar button')].some((b) =>
			b.textContent === 'Roll back' && !b.disabled)`)
	})
	before = r.live()
	r.tabTo("Roll back")
	r.press("\r")
	r.shows("Goes back from " + before)
	r.shows("pin it to keep it live")
	r.shoot("rollback")
	r.press("\u001b")
	r.tabTo("Roll back")
	r.confirm("Roll back")
	r.shows("previously " + before)
	r.look("digits", "models")
	r.shows("HTTP from 127.0.0.1")
	r.look("digits", "summary")
	r.until("the version that was chosen", func() bool { return r.live() != before })

	// Names of classes are shown as text, and what is invisible in them is marked.
	r.publish("digits", 0, 100, true, "<img src=x onerror=alert(1)>", "\u202egnorw", strings.Repeat("n", 1000))
	r.look("digits", "points")
	r.shows("3 other classes")
	r.until("the table of points", func() bool {
		return js[bool](r, "document.querySelector('.panel > details').open = true")
	})
	r.shows("<img src=x onerror=alert(1)>")
	r.shows("\ufffdgnorw")
	r.shows("(1000 characters)")

	// The server is gone, and comes back.
	r.look("digits", "summary")
	r.shows("Replicas that answered")
	r.server.Process.Kill()
	r.shows("The NATS server")
	r.until("no operation is offered", func() bool {
		return js[bool](r, "[...document.querySelectorAll('.bar button')].every((b) => b.disabled)")
	})
	r.shoot("no-server")
	r.serve()
	isBack := func() bool { return r.text("document.getElementById('alert').textContent") == "" }
	r.until("the server is back", isBack)

	// A view that shows an earlier answer offers none either.
	r.look("digits", "models")
	isOffered := func() bool {
		return js[bool](r, "[...document.querySelectorAll('td button')].some((b) => !b.disabled)")
	}
	r.until("versions can be chosen", isOffered)
	r.failing(true)
	r.daemon.Process.Kill()
	r.until("no version can be chosen", func() bool { return !isOffered() })
	r.embedd()
	r.until("the daemon is back", isBack)
	r.until("versions can be chosen again", isOffered)
	r.failing(false)

	r.quiet()
}

// quiet checks that the browser has logged no error, and requested nothing from another host.
func (r *rig) quiet() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.seen {
		r.t.Errorf("the browser says: %s", text)
	}
}

// states has a pipeline in each state that an operator may find.
var states = configured("halted", fixed, "limits: {bad: 3 of 10}") + configured("paused", fixed) +
	configured("stale", lda, "training: {max_age: 1s}") + configured("waiting", lda) + configured("fixed", fixed) +
	configured("many", "model: {method: lda, dim: 1}")

// TestStates shows each state of a pipeline, a thousand classes in one output, and a daemon that is gone.
func TestStates(t *testing.T) {
	t.Parallel()
	r := start(t, states)
	r.look("fixed", "summary")
	r.shows("The model is a file")
	r.shows("ready fixed since")

	r.publish("waiting", 0, 100, false)
	r.publish("stale", 0, 400, false)
	r.send("$JS.API.CONSUMER.PAUSE.FEATURES.embedd_paused", `{"pause_until":"2100-01-01T00:00:00Z"}`)
	r.publish("paused", 0, 100, false)
	for range 3 {
		r.send("features.halted", "bad")
	}
	var classes []string
	for i := range 1000 {
		classes = append(classes, fmt.Sprint("class ", i))
	}
	r.publish("many", 0, 3000, false, classes...)
	r.publish("many", 0, 150, false, "\u202egnorw", strings.Repeat("n", 1000), "<img src=x onerror=alert(1)>")
	r.shows("halted halted since")
	r.shows("stale stale since")
	r.shows("blocked paused since")
	r.shows("100 of ")
	r.shows("4 of 6 pipelines need attention")
	r.look("many", "points")
	r.shows("One output: a strip by class.")
	r.shows("The ten largest of 9")
	r.shows("Window by class and age")
	r.shows("\ufffdgnorw")
	r.shows("(1000 characters)")
	r.shows("<img src=x onerror=alert(1)>")
	r.shoot("many-classes")

	r.rows(0, 1, false, strings.Repeat("n", 10_000))
	r.must("publish", "--data", "rows.csv", "--label", "label", "--subject", "features.many")
	r.look("many", "letters")
	r.shows("a text of 10000 bytes")

	r.look("fixed", "summary")
	r.shows("idle fixed since") // a minute after the start
	r.shoot("states")

	r.look("halted", "letters")
	r.shows("not_arrow")
	r.shoot("dead-letters")
	r.until("an operation", func() bool {
		return js[bool](r, `[...document.querySelectorAll('.bar button')].some((b) =>
			b.textContent === 'Resume' && !b.disabled)`)
	})
	r.tabTo("Resume")
	r.confirm("Resume")
	r.shows("Resume: done")
	r.shows("3 of 6 pipelines need attention")

	// The daemon is gone: the last picture stays, with its age.
	r.failing(true)
	r.daemon.Process.Kill()
	r.shows("The daemon does not answer. What is shown is ")
	r.until("the view says so too", func() bool {
		return r.text("document.querySelector('.note:not([hidden])')?.textContent ?? ''") == "The daemon does not answer."
	})
	r.shows("3 of 6 pipelines need attention")
	r.shoot("disconnected")
	r.embedd()
	r.shows("● connected")
	r.quiet()
}

// restricted is the name of a pipeline whose server has the printed permissions.
const restricted = "restricted"

// TestReplayIsNotAllowed: with the printed permissions the daemon may not replay. The page says so, and what it lacks.
func TestReplayIsNotAllowed(t *testing.T) {
	t.Parallel()
	r := start(t, configured(restricted, fixed))
	r.send("features.restricted", "bad")
	r.look(restricted, "letters")
	r.shows("not_arrow")
	r.shows(`the daemon has no permission to publish on "features.restricted", which a replay needs`)
	if !js[bool](r, "[...document.querySelectorAll('td input')].every((one) => one.disabled)") ||
		!js[bool](r, "document.querySelector('.panel .bar button').disabled") {
		t.Error("a dead letter can be chosen")
	}
	r.shoot("replay-not-allowed")
	r.quiet()
}

// closed is the name of a pipeline whose daemon requires a token and allows no operations.
const closed = "closed"

// TestLogIn: the page asks for the token, says that a wrong one is refused, shows what it may not do, and logs out.
func TestLogIn(t *testing.T) {
	t.Parallel()
	r := start(t, configured(closed, lda))
	r.look(closed, "summary")
	r.shows("Password or token")
	isUnconnected := func() bool { return r.text("document.getElementById('link').textContent") == "" }
	r.until("no connection is shown", isUnconnected)
	r.shoot("log-in")
	enter := func(secret string) {
		js[any](r, "document.querySelector('input[type=password]').focus()")
		js[any](r, "document.activeElement.value = '"+secret+"'; 0")
		r.press("\r")
	}
	r.failing(true)
	enter("wrong")
	r.shows("the token of http.token_file is required")
	r.failing(false)
	enter("secret")
	r.shows("read-only")
	r.shows("http.operate is false")
	r.shows("Replicas that answered")
	r.shoot("read-only")

	// A daemon that starts again has no sessions.
	r.failing(true)
	r.daemon.Process.Kill()
	r.shows("The daemon does not answer.")
	r.embedd()
	r.shows("Password or token")
	r.until("the daemon is not said to be gone", isUnconnected)
	if title := r.text("document.title"); title != "embedd" {
		t.Errorf("the title of the log-in page is %q", title)
	}
	enter("secret")
	r.shows("Replicas that answered")
	r.failing(false)
	r.tabTo("Log out")
	r.press("\r")
	r.shows("Password or token")
	r.until("no connection is shown", isUnconnected)
	r.quiet()
}

// report is what the API reports of a pipeline, as far as the tests read it.
type report struct {
	Model    struct{ Version string }
	Lag      struct{ Messages int }
	Learning struct {
		Backlog int
		Fitting bool
	}
}

// report is that of the first pipeline.
func (r *rig) report() (first report) {
	r.t.Helper()
	answer, err := http.Get(r.url() + "api/v1/pipelines")
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	var state struct{ Pipelines []report }
	if err := json.NewDecoder(answer.Body).Decode(&state); err != nil {
		r.t.Fatal(err)
	}
	if len(state.Pipelines) > 0 {
		first = state.Pipelines[0]
	}
	return first
}

// live is the live version, "" while there is none.
func (r *rig) live() string { return r.report().Model.Version }

// settle waits until all rows are learned and the live version stays: an operation that was confirmed for one version
// is refused when another one has gone live.
func (r *rig) settle() {
	r.t.Helper()
	version, since := "", time.Now()
	r.until("the rows are learned", func() bool {
		now := r.report()
		if now.Lag.Messages > 0 || now.Learning.Backlog > 0 || now.Learning.Fitting || now.Model.Version != version {
			version, since = now.Model.Version, time.Now()
		}
		return time.Since(since) > time.Second
	})
}
