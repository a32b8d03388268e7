package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// Finding is the result of one check of Diagnose.
type Finding struct {
	Check    string `json:"check"` // what was checked: server, clock, input, output, ...
	Pipeline string `json:"pipeline,omitempty"`
	Level    Level  `json:"level"`
	Text     string `json:"text"`              // what was found, and the consequence of a fault
	Fix      string `json:"fix,omitempty"`     // what to do
	Command  string `json:"command,omitempty"` // the fix as a shell command
	Key      string `json:"key,omitempty"`     // the fix as a key of the configuration
	Value    string `json:"value,omitempty"`   // and its value
}

// Level is the severity of a finding.
type Level string

// The levels.
const (
	LevelOK    Level = "ok"
	LevelNote  Level = "note"  // not as recommended, and nothing is lost
	LevelFault Level = "fault" // inputs are not answered, or lost, or would be
)

// Options are what Diagnose examines.
type Options struct {
	Conn      *nats.Conn
	APIPrefix string // of requests to JetStream; default $JS.API
	Pipelines []spec.Pipeline
	Clock     func() time.Time // default time.Now
}

const (
	// modelChunk is the size of the messages in which the object store keeps models.
	modelChunk = 128 << 10
	// maxClockSkew is how far the clocks of server and daemon may differ before the ages of rows and models are
	// misleading.
	maxClockSkew = 5 * time.Second
	// requestTimeout bounds one question to the server.
	requestTimeout = 5 * time.Second
)

// The fixes that are verbs.
const (
	permissionsCommand = "embedd setup --permissions"
	setupCommand       = "embedd setup --apply"
)

// Diagnose examines everything outside the process that the pipelines need: the server, the permissions of its user,
// streams, consumers and the model store. It changes nothing.
func Diagnose(ctx context.Context, o Options) ([]Finding, error) {
	pipelines, err := spec.CheckAll(o.Pipelines)
	if err != nil {
		return nil, err
	}
	o.APIPrefix = cmp.Or(o.APIPrefix, strings.TrimSuffix(jetstream.DefaultAPIPrefix, "."))
	if o.Clock == nil {
		o.Clock = time.Now
	}
	js, err := jetstream.NewWithAPIPrefix(o.Conn, o.APIPrefix)
	if err != nil {
		return nil, err
	}
	o.Pipelines = pipelines
	d := &diagnosis{Options: o, js: js, permissions: natsx.MonitorPermissions(o.Conn), reported: map[Finding]bool{},
		needs: needs.For(needs.Config{Pipelines: pipelines, APIPrefix: o.APIPrefix})}
	defer d.permissions.Stop()
	d.permissions.Refresh(ctx)
	d.checkServer(ctx)
	for i := range pipelines {
		p := &pipelines[i]
		if d.hasJetStream {
			d.checkStreams(ctx, p)
		}
		d.checkPermissions(p)
		d.checkStore(ctx, p)
		d.checkConfiguration(ctx, p)
	}
	if d.hasJetStream {
		d.checkPlans(ctx)
	}
	return d.findings, nil
}

type diagnosis struct {
	Options
	js           jetstream.JetStream
	permissions  *natsx.PermissionMonitor
	needs        []needs.Need
	hasJetStream bool
	domain       string   // of the account
	maxConsumers int      // of a stream, by the account; 0: any number
	plans        []Plan   // of the streams that were found
	full         []string // streams without room for a consumer, which is reported
	clockChecked bool
	findings     []Finding
	reported     map[Finding]bool // pipelines share streams
}

func (d *diagnosis) add(f Finding) {
	f.Level = cmp.Or(f.Level, LevelFault)
	if !d.reported[f] {
		d.findings, d.reported[f] = append(d.findings, f), true
	}
}

// addIf adds a finding if its condition holds.
func (d *diagnosis) addIf(holds bool, f Finding) {
	if holds {
		d.add(f)
	}
}

func (d *diagnosis) addOK(check, pipeline, format string, args ...any) {
	d.add(Finding{Check: check, Pipeline: pipeline, Level: LevelOK, Text: fmt.Sprintf(format, args...)})
}

// addError reports why the server did not answer a question.
func (d *diagnosis) addError(check, pipeline string, err error) {
	f := Finding{Check: check, Pipeline: pipeline, Text: err.Error()}
	if errors.Is(err, natsx.ErrPermissionDenied) {
		if d.permissions.IsKnown() {
			return // checkPermissions reports all that are missing
		}
		f.Check, f.Command = "permissions", permissionsCommand
	}
	d.add(f)
}

// addFault reports what is wrong with a stream.
func (d *diagnosis) addFault(check, pipeline string, f *needs.Fault) {
	d.add(Finding{Check: check, Pipeline: pipeline, Text: f.Text, Fix: f.Fix, Command: f.Command})
}

// ask sends requests to the server, and ends them as soon as the server denies one.
func ask[T any](ctx context.Context, p *natsx.PermissionMonitor, requests func(context.Context) (T, error)) (answer T,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err = p.Guard(ctx, p.IsServerRequest, func(ctx context.Context) (err error) {
		answer, err = requests(ctx)
		return err
	})
	return answer, err
}

// checkServer checks version, JetStream and its limits, and the largest message.
func (d *diagnosis) checkServer(ctx context.Context) {
	nc := d.Conn
	payload := needs.ByteText(nc.MaxPayload())
	var versions []string
	for _, one := range natsx.KnownServers(nc) {
		if one.Err != nil {
			d.add(Finding{Check: "server", Level: LevelNote, Text: fmt.Sprintf("the server at %s cannot be reached: %v", one.URL,
				one.Err), Fix: "start it, or remove it from nats.url"})
			continue
		}
		if fault := needs.ServerFault(one.Name, one.Version); fault != "" {
			d.add(Finding{Check: "server", Text: fault})
			continue
		}
		versions = append(versions, one.Version)
	}
	if len(versions) > 0 {
		d.addOK("server", "", "version %s, messages of up to %s", strings.Join(versions, ", "), payload)
	}
	usesJetStream, keeps := false, ""
	for _, p := range d.Pipelines {
		usesJetStream = usesJetStream || p.Stream != ""
		if p.ModelsInServer() {
			keeps = p.Name
		}
	}
	if !usesJetStream {
		return
	}
	if keeps != "" && nc.MaxPayload() < modelChunk+natsx.MaxHeaderBytes {
		d.add(Finding{Check: "payload", Pipeline: keeps, Text: fmt.Sprintf("the server takes messages of up to %s, and "+
			"models are stored in chunks of %s: none could be stored", payload, needs.ByteText(modelChunk)),
			Fix: "set max_payload in the server to 1MB or more, or store models in a directory",
			Key: "pipelines." + keeps + ".model.store", Value: "./embedd-models"})
	}
	info, err := ask(ctx, d.permissions, d.js.AccountInfo)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		d.add(Finding{Check: "jetstream", Text: "the server, or the user's account, has no JetStream",
			Fix: "start the server with 'nats-server -js', enable JetStream for the account, or delete input.stream for " +
				"core NATS, at most once"})
		return
	case errors.Is(err, natsx.ErrPermissionDenied): // reported by the checks that need it
	case err != nil:
		d.addError("jetstream", "", natsx.ExplainRequestError(err, "about JetStream"))
		return
	default:
		d.domain, d.maxConsumers = info.Domain, max(info.Limits.MaxConsumers, 0)
		d.checkDisk(info)
	}
	d.hasJetStream = true
	d.checkOwnStreams(ctx)
}

func (d *diagnosis) checkDisk(info *jetstream.AccountInfo) {
	used, limit := info.Store, info.Limits.MaxStore
	if limit > 0 && used > uint64(limit)/10*9 {
		d.add(Finding{Check: "disk", Text: fmt.Sprintf("the account has used %s of the %s that JetStream may store for it: "+
			"soon nothing more is stored", needs.ByteText(int64(used)), needs.ByteText(limit)),
			Fix: "raise the account's max_file (or the server's), or give streams a smaller limit"})
		return
	}
	d.addOK("jetstream", "", "%s stored, %d streams, %d consumers", needs.ByteText(int64(used)), info.Streams,
		info.Consumers)
}

// checkPlans reports the warnings of Setup.
func (d *diagnosis) checkPlans(ctx context.Context) {
	plans, err := ask(ctx, d.permissions, func(ctx context.Context) ([]Plan, error) {
		return Setup(ctx, d.js, d.Pipelines, false)
	})
	if err != nil {
		return // the same requests were sent before, and their errors reported
	}
	for _, p := range plans {
		level := LevelNote
		if p.NoConsumers {
			level = LevelFault
		}
		d.addIf(p.Limit, Finding{Check: "limits", Text: p.Problem})
		d.addIf(p.Warning != "", Finding{Check: "replicas", Level: LevelNote, Text: p.Warning})
		d.addIf(p.SubjectWarning != "", Finding{Check: "subjects", Level: LevelNote, Text: p.SubjectWarning})
		d.addIf(p.ConsumerWarning != "" && !slices.Contains(d.full, p.Name), Finding{Check: "consumer", Level: level,
			Text: p.ConsumerWarning})
	}
}
