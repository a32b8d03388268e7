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
	"slices"
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
	path := f.StringP("config", "c", "embedd.yaml", "configuration `FILE`")
	where := client.AddressFlags(f, "NATS `URL`; over NATS_URL and the file's nats.url")
	out := report.Flag(f, e)
	f.BoolVar(&out.JSON, "json", false, "short for --format json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := os.Stat(*path); errors.Is(err, fs.ErrNotExist) {
			return cli.Usagef("no configuration %s: write one with `embedd init`, or name one with -c", *path)
		}
		d := &doctor{out: out, path: *path, clock: e.Clock}
		if err := d.look(cmd.Context(), e, where); err != nil {
			return err
		}
		if d.faults > 0 {
			return cli.Checkf("faults: %d", d.faults)
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
	faults int
	err    error // of the output
}

func (d *doctor) printFinding(f admin.Finding) {
	if f.Level == admin.LevelFault {
		d.faults++
	}
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
	text := f.Text
	setting := strings.TrimSpace(strings.TrimPrefix(f.Key+": "+f.Value, ": "))
	fixes := slices.DeleteFunc([]string{f.Fix, f.Command, setting}, func(s string) bool { return s == "" })
	if len(fixes) > 0 {
		text += ". Fix: " + strings.Join(fixes, ": ")
	}
	d.out.Printf("%-5s  %s: %s\n", f.Level, about, strings.ReplaceAll(text, "\n", " "))
}

func (d *doctor) fault(check, text, fix string) {
	d.printFinding(admin.Finding{Check: check, Level: admin.LevelFault, Text: text, Fix: fix})
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
	d.port(c.HTTP)
	d.disks(c)
	pipelines, err := engine.Pipelines(c)
	if err != nil {
		d.fault("model", err.Error(), "name a model file that `embedd model show` can read")
		return d.err
	}
	n := where.Apply(c.NATS)
	if n.Embedded() && os.Getenv("NATS_URL") == "" {
		d.embedded()
		return d.err
	}
	n = client.WithDefaultURL(n)
	if err := client.CheckAddress(n); err != nil {
		return err
	}
	nc, err := connection.Dial(ctx, n, connection.Options{Wait: client.ConnectTimeout, Inbox: client.Inbox(e.Verb)})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		d.fault("connection", err.Error(), "")
		return d.err
	}
	defer nc.Close()
	d.ok("connection", "%s", nc.Address())
	found, err := admin.Diagnose(ctx, admin.Options{Conn: nc.Conn, APIPrefix: nc.APIPrefix(), Pipelines: pipelines,
		Clock: d.clock})
	if err != nil {
		d.fault("configuration", err.Error(), "")
	}
	for _, f := range found {
		d.printFinding(f)
	}
	return errors.Join(d.daemons(ctx, nc.Conn, pipelines), d.err)
}

// embedded checks that run can start its embedded server.
func (d *doctor) embedded() {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", embedded.Port))
	if err != nil {
		d.fault("server", fmt.Sprintf("run embeds a server, and its port %d is in use: %v", embedded.Port, err),
			"stop its listener, or use that server: set nats.url")
		return
	}
	l.Close()
	d.ok("server", "run embeds one on port %d, which is free", embedded.Port)
}

// port tries the listener of the probes. It may be in use by a running daemon.
func (d *doctor) port(h config.HTTP) {
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
	client, scheme := http.Client{Timeout: 2 * time.Second}, "http"
	if h.Cert != "" {
		scheme = "https" // any certificate will do: nothing secret is sent, and one word is read
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer client.CloseIdleConnections()
	}
	answer, err := client.Get(scheme + "://" + h.Listen + "/readyz")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var said struct{ Ready *bool }
	return json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&said) == nil && said.Ready != nil
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
		switch {
		case p.Model.Store != "auto" && p.Model.Store != "none":
			dirs[p.Model.Store] = true
		case p.Model.Store == "auto" && p.Input.Stream == "":
			dirs[engine.DefaultStore] = true
		}
	}
	for dir := range dirs {
		free, ok := freeBytes(dir)
		switch {
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

// daemons asks running daemons for the status of their pipelines.
func (d *doctor) daemons(ctx context.Context, nc *nats.Conn, pipelines []stream.Pipeline) error {
	found, err := client.Discover(ctx, nc)
	if err != nil {
		return err
	}
	for _, p := range pipelines {
		if found[p.Name] == 0 {
			d.printFinding(admin.Finding{Check: "daemon", Pipeline: p.Name, Level: admin.LevelNote, Text: "none is running",
				Command: "embedd run"})
			continue
		}
		n := 0
		err := client.Gather(ctx, nc, stream.ServiceSubject(p.Name, "status"), client.Timeout, func(msg *nats.Msg) bool {
			n++
			f := admin.Finding{Check: "daemon", Pipeline: p.Name, Level: admin.LevelOK}
			r, err := client.ReadReport(msg)
			switch {
			case err != nil:
				f.Level, f.Text = admin.LevelFault, err.Error()
			case r.State == stream.StateBlocked:
				f.Level, f.Text = admin.LevelFault, "blocked: "+r.Reason
			case !r.Ready:
				f.Level, f.Text = admin.LevelNote, fmt.Sprintf("%s: %s", r.State, r.Reason)
			case r.Lag == nil:
				f.Text = fmt.Sprintf("%s, another replica is the trainer", r.State)
			default:
				f.Text = fmt.Sprintf("%s, %d messages are not answered", r.State, r.Lag.Messages)
			}
			d.printFinding(f)
			return n < found[p.Name]
		})
		if err != nil {
			return err
		}
	}
	return nil
}
