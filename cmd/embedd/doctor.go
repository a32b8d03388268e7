package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/cmd/embedd/embedded"
	"github.com/embedd/embedd/cmd/embedd/engine"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

// doctorCommand checks everything that the daemon needs.
func doctorCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "doctor", Short: "check everything that the daemon needs, and name the fixes",
		Long: "Check everything that the daemon needs, and name the fixes: configuration, models, disk, HTTP port,\n" +
			"server, JetStream, clock, streams, consumers, permissions, model store, running daemons. It changes nothing. " +
			"Each\n" +
			"line is ok, a note, or a fault with its fix. The exit code is 3 if there is a fault."}
	f := cli.FlagsOf(cmd)
	flags := deploymentFlagsOf(f)
	out := report.Flag(f, e)
	f.BoolVar(&out.JSON, "json", false, "short for --format json")
	bundleTo := f.String("bundle", "",
		"also write `FILE`, a ZIP archive with what a report of a fault needs, without secrets")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := os.Stat(*flags.path); errors.Is(err, fs.ErrNotExist) {
			return cli.Usagef("no configuration %s: write one with `embedd init`, or name one with -c", *flags.path)
		}
		d := &doctor{out: out, path: *flags.path, clock: e.Clock, port: embedded.Port, count: map[admin.Level]int{}}
		if *bundleTo != "" {
			var err error
			if d.bundle, err = newBundle(*bundleTo); err != nil {
				return err
			}
		}
		err := d.look(cmd.Context(), e, flags.where)
		if d.bundle != nil {
			err = errors.Join(err, d.bundle.write(d.path))
		}
		if err != nil {
			return err
		}
		d.out.Printf("ok: %d, notes: %d, faults: %d\n", d.count[admin.LevelOK], d.count[admin.LevelNote],
			d.count[admin.LevelFault])
		if d.bundle != nil {
			e.Infof("wrote %s", *bundleTo)
		}
		if n := d.count[admin.LevelFault]; n > 0 {
			return cli.Checkf("faults: %d", n)
		}
		return nil
	}
	return cmd
}

// doctor prints each finding as soon as it has it.
type doctor struct {
	out    *report.Output
	path   string
	clock  func() time.Time // nil: time.Now
	port   int              // of an embedded server
	count  map[admin.Level]int
	err    error   // of the output
	bundle *bundle // nil: none
}

// indent is where the text of a finding begins.
const indent = 7

func (d *doctor) printFinding(f admin.Finding) {
	if d.bundle != nil {
		d.bundle.findings = append(d.bundle.findings, f)
	}
	d.count[f.Level]++
	if strings.HasPrefix(f.Command, "embedd ") {
		f.Command += " -c " + d.path
	}
	if d.out.JSON {
		d.err = errors.Join(d.err, d.out.Object(f))
		return
	}
	about := f.Check
	if f.Pipeline != "" {
		about += " (" + f.Pipeline + ")"
	}
	d.out.Paragraph(fmt.Sprintf("%-*s", indent, f.Level), about+": "+f.Text, indent)
	lead := "Fix: "
	if f.Fix != "" {
		d.out.Paragraph(strings.Repeat(" ", indent), lead+f.Fix, indent)
		lead = ""
	}
	setting := f.Key
	if f.Value != "" {
		setting += ": " + f.Value
	}
	for _, line := range []string{f.Command, setting} { // whole, to be copied
		if line != "" {
			d.out.Printf("%*s%s%s\n", indent, "", lead, line)
		}
	}
}

func (d *doctor) fault(check, text, fix string) {
	d.printFinding(admin.Finding{Check: check, Level: admin.LevelFault, Text: text, Fix: fix})
}

// note prints a note about the daemons of a pipeline.
func (d *doctor) note(pipeline, text, fix, command string) {
	d.printFinding(admin.Finding{Check: "daemon", Pipeline: pipeline, Level: admin.LevelNote, Text: text, Fix: fix,
		Command: command})
}

func (d *doctor) ok(check, format string, args ...any) {
	d.printFinding(admin.Finding{Check: check, Level: admin.LevelOK, Text: fmt.Sprintf(format, args...)})
}

// look checks this machine first, then the server; it ends at a fault that hides what follows.
func (d *doctor) look(ctx context.Context, e *cli.Env, where *client.Address) error {
	c, err := config.Load(d.path)
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		for _, p := range problems {
			d.fault("configuration", p.String(), "")
		}
		return d.err
	case err != nil:
		d.fault("configuration", err.Error(), "")
		return d.err
	}
	for _, n := range c.Notes {
		d.printFinding(admin.Finding{Check: "configuration", Level: admin.LevelNote, Text: n.String()})
	}
	d.ok("configuration", "%s, pipelines: %d", d.path, len(c.Pipelines))
	d.listener(c.HTTP)
	d.disks(c)
	if d.bundle != nil {
		d.bundle.addMetrics(ctx, c.HTTP)
	}
	pipelines, err := engine.Pipelines(c)
	if errors.As(err, &problems) {
		for _, p := range problems {
			fix := "" // the text has it
			if strings.HasSuffix(p.Key, "model.file") {
				fix = "write the model file again with `embedd fit`, or name another one"
			}
			d.fault("model", p.String(), fix)
		}
		return d.err
	}
	nc, err := d.connect(ctx, e, c.NATS, where)
	if err != nil {
		return err
	}
	if nc == nil {
		return d.err
	}
	defer nc.Close()
	if err := d.daemons(ctx, nc.Conn, pipelines, isEmbedd(c.HTTP)); err != nil {
		return err
	}
	found, err := admin.Diagnose(ctx, admin.Options{Conn: nc.Conn, APIPrefix: nc.APIPrefix(), Pipelines: pipelines,
		Clock: d.clock})
	if err != nil {
		d.fault("configuration", err.Error(), "")
	}
	for _, f := range found {
		d.printFinding(f)
	}
	return d.err
}

// connect checks the server. Without a connection and an error it has printed why.
func (d *doctor) connect(ctx context.Context, e *cli.Env, n config.NATS, where *client.Address) (*connection.Conn,
	error) {
	n, err := where.Apply(n)
	if err != nil {
		return nil, err
	}
	isEmbedded := n.Embedded() && os.Getenv("NATS_URL") == ""
	if isEmbedded {
		if d.isFree() {
			return nil, nil
		}
		n.URL = fmt.Sprintf("nats://127.0.0.1:%d", d.port) // perhaps that of a running daemon
	}
	n = client.WithDefaultURL(n)
	if err := client.CheckAddress(n); err != nil {
		return nil, err
	}
	nc, err := connection.Dial(ctx, n, connection.Options{Wait: client.ConnectTimeout, Inbox: client.Inbox(e.Verb)})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if isEmbedded && (err != nil || nc.ConnectedServerName() != embedded.Name) {
		d.portInUse(err == nil)
		if err == nil {
			nc.Close()
		}
		return nil, nil
	}
	if err != nil {
		d.fault("connection", err.Error(), "")
		return nil, nil
	}
	if isEmbedded {
		d.ok("server", "a running daemon embeds it, on port %d", d.port)
	}
	d.ok("connection", "%s", nc.Address())
	return nc, nil
}

// isFree reports whether run can start its embedded server on its port.
func (d *doctor) isFree() bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", d.port))
	if err != nil {
		return false
	}
	l.Close()
	d.ok("server", "run embeds one on port %d, which is free", d.port)
	return true
}

// portInUse reports that the port of the embedded server is in use, by a NATS server or another program.
func (d *doctor) portInUse(byServer bool) {
	f := admin.Finding{Check: "server", Level: admin.LevelFault, Fix: "stop that program, or name a NATS server in " +
		"nats.url"}
	what := "program"
	if byServer {
		what, f.Fix, f.Key, f.Value = "NATS server", "use that server", "nats.url", fmt.Sprintf("nats://127.0.0.1:%d", d.port)
	}
	f.Text = fmt.Sprintf("run embeds a server, and another %s uses its port %d", what, d.port)
	d.printFinding(f)
}

// listener tries the address of the probes. It may be in use by a running daemon.
func (d *doctor) listener(h config.HTTP) {
	listen := h.Listen
	l, err := net.Listen("tcp", listen)
	switch {
	case err == nil:
		l.Close()
		d.ok("port", "http.listen %s is free", listen)
	case errors.Is(err, syscall.EADDRINUSE) && isEmbedd(h):
		d.ok("port", "http.listen %s: a daemon is running there", listen)
	case errors.Is(err, syscall.EADDRINUSE):
		d.printFinding(admin.Finding{Check: "port", Level: admin.LevelFault, Text: "http.listen " + listen +
			" is in use by another program", Fix: "stop it, or choose another port (port 0 is any free one)",
			Key: "http.listen", Value: "127.0.0.1:0"})
	default:
		d.printFinding(admin.Finding{Check: "port", Level: admin.LevelFault, Text: "http.listen " + err.Error(),
			Fix: "choose an address of this machine", Key: "http.listen", Value: "127.0.0.1:8474"})
	}
}

// isEmbedd reports whether the listener is a daemon.
func isEmbedd(h config.HTTP) bool {
	client, url := daemonClient(h)
	answer, err := client.Get(url + "/readyz")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var said struct{ Ready *bool }
	return json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&said) == nil && said.Ready != nil
}

// daemonClient returns a client for the listener of this machine's daemon, and its URL. It accepts any certificate: no
// secret may be sent.
func daemonClient(h config.HTTP) (client http.Client, url string) {
	scheme := "http"
	if h.Cert != "" {
		scheme = "https"
	}
	return http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, scheme + "://" + h.Listen
}

// minFree is the least free space of a disk.
const minFree = 256 << 20

// disks checks the free space where this machine stores models.
func (d *doctor) disks(c *config.Config) {
	dirs := map[string]bool{}
	if c.NATS.Embedded() {
		dirs[embedded.Store] = true
	}
	for _, p := range c.Pipelines {
		if dir := p.StoreDirectory(); dir != "" {
			dirs[dir] = true
		}
	}
	for dir := range dirs {
		free, ok := freeBytes(dir)
		switch err := embedded.CheckStore(dir); {
		case err != nil && dir == embedded.Store: // the model store has a check
			d.fault("disk", fmt.Sprintf("%s cannot be written: %v", dir, err), "start in a directory that can be written")
		case !ok:
		case free < minFree:
			d.fault("disk", fmt.Sprintf("%s is on a disk with %d MiB free", dir, free>>20), "free some space, or use another "+
				"disk")
		default:
			d.ok("disk", "%s has %d MiB free", dir, free>>20)
		}
	}
}

// freeBytes is the free space of the disk on which a directory is, or will be.
func freeBytes(dir string) (free uint64, ok bool) {
	full, err := filepath.Abs(dir)
	for err == nil {
		if free, err = diskFree(full); err == nil {
			return free, true
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(full) == full {
			return 0, false
		}
		full, err = filepath.Dir(full), nil
	}
	return 0, false
}

// statusWait is how long doctor waits for answers if it does not know how many daemons there are.
const statusWait = time.Second

// daemons asks running daemons for the status of their pipelines. answersHTTP: one answers on http.listen.
func (d *doctor) daemons(ctx context.Context, nc *nats.Conn, pipelines []stream.Pipeline, answersHTTP bool) error {
	permissions := natsx.MonitorPermissions(nc)
	defer permissions.Stop()
	permissions.Refresh(ctx)
	isDenied := func(subject string) bool {
		return permissions.IsDenied(natsx.Permission{Action: natsx.Publish, Subject: subject})
	}
	var found map[string][]string
	mayCount := !isDenied(pingSubject)
	if mayCount {
		var err error
		if found, err = client.Discover(ctx, nc); err != nil {
			return err
		}
	}
	for _, p := range pipelines {
		if err := d.daemon(ctx, nc, p.Name, len(found[p.Name]), mayCount, isDenied, answersHTTP); err != nil {
			return err
		}
	}
	return nil
}

// pingSubject is where all services answer.
const pingSubject = "$SRV.PING"

// daemon asks the daemons of one pipeline, of which running are known.
func (d *doctor) daemon(ctx context.Context, nc *nats.Conn, name string, running int, mayCount bool,
	isDenied func(string) bool, answersHTTP bool) error {
	subject, n, wait := stream.ServiceSubject(name, "status"), 0, client.Timeout
	if isDenied(subject) {
		what := "this user may not ask whether one is running"
		if answersHTTP {
			what = "one answers on http.listen, and this user may not ask for its status"
		}
		d.note(name, fmt.Sprintf("%s (publish on %q)", what, subject), "run doctor with the user of the role viewer", "")
		return nil
	}
	if !mayCount {
		wait = statusWait
	}
	if running > 0 || !mayCount {
		err := client.Gather(ctx, nc, subject, nil, wait, func(msg *nats.Msg) bool {
			if n++; d.bundle != nil {
				d.bundle.addStatus(name, msg.Data)
			}
			for _, f := range reportFindings(name, msg) {
				d.printFinding(f)
			}
			return !mayCount || n < running
		})
		if err != nil || n > 0 {
			return err
		}
	}
	switch {
	case running > 0:
		d.fault("daemon", fmt.Sprintf("pipeline %s runs, and does not answer within %v", name, wait),
			"look at its log, and restart it if it hangs")
	case answersHTTP:
		d.note(name, "one answers on http.listen, and does not run this pipeline on this server: it may have another "+
			"configuration, or be starting", "compare its configuration and its server with these", "")
	default:
		d.note(name, "none is running", "", "embedd run")
	}
	return nil
}

// reportFindings are the findings in the status of a running pipeline: its state, and each condition as a fault.
func reportFindings(pipeline string, msg *nats.Msg) (all []admin.Finding) {
	f := admin.Finding{Check: "daemon", Pipeline: pipeline, Level: admin.LevelOK}
	r, err := client.ReadReport(msg)
	switch {
	case err != nil:
		f.Level, f.Text = admin.LevelFault, err.Error()
	case r.State == stream.StateHalted:
		f.Level, f.Text = admin.LevelFault, "halted, nothing is answered: "+r.Reason
		f.Fix, f.Command = "correct the cause, see `embedd dlq ls`, and resume it", "embedd resume "+pipeline
	case len(r.Conditions) > 0: // each is a fault, with its reason
		f.Level, f.Text = admin.LevelNote, string(r.State)
	case r.State == stream.StateBlocked:
		f.Level, f.Text = admin.LevelFault, "blocked: "+r.Reason
	case !r.Ready:
		f.Level, f.Text = admin.LevelNote, fmt.Sprintf("%s: %s", r.State, r.Reason)
	case r.Lag == nil:
		f.Text = fmt.Sprintf("%s, another replica is the trainer", r.State)
	default:
		f.Text = fmt.Sprintf("%s, %d messages are not answered", r.State, r.Lag.Messages)
	}
	all = append(all, f)
	for _, c := range r.Conditions {
		all = append(all, admin.Finding{Check: "daemon", Pipeline: pipeline, Level: admin.LevelFault,
			Text: fmt.Sprintf("condition %s (blocks %s): %s", c.Name, c.Blocks, c.Reason),
			Fix:  "see the conditions in docs/operations.md"})
	}
	if err != nil || !r.IsTrainer {
		return all
	}
	if r.Learning.Rows > 0 {
		text := windowText(&r.Learning)
		if age := r.Learning.BehindSeconds; age != nil {
			text += fmt.Sprintf(", the newest learned is %v old", time.Duration(max(*age, 0))*time.Second)
		}
		all = append(all, admin.Finding{Check: "window", Pipeline: pipeline, Level: admin.LevelOK, Text: text})
	}
	for _, u := range r.Learning.Unusual {
		all = append(all, admin.Finding{Check: "stream", Pipeline: pipeline, Level: admin.LevelNote,
			Text: fmt.Sprintf("%s: %s", u.Kind, u.Text)})
	}
	return all
}
