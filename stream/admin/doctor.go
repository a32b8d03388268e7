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
	// maxClockSkew is how far the clocks of server and daemon may differ before ages of rows and models mislead.
	maxClockSkew = 5 * time.Second
)

// The fixes that are verbs.
const (
	permissionsCommand = "embedd setup --permissions"
	setupCommand       = "embedd setup --apply"
)

// Diagnose examines everything outside the process that the pipelines need: the server, the permissions of its user,
// streams, consumers and the model store. It changes nothing.
func Diagnose(ctx context.Context, o Options) ([]Finding, error) {
	if o.Conn == nil {
		return nil, errors.New("a diagnosis needs a connection")
	}
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

// diagnosis collects the findings of one call of Diagnose.
type diagnosis struct {
	Options
	js           jetstream.JetStream
	permissions  *natsx.PermissionMonitor
	needs        []needs.Need
	hasJetStream bool
	domain       string   // of the account
	maxConsumers int      // of a stream, by the account; 0: unlimited
	plans        []Plan   // of the streams that were found
	full         []string // streams without room for a consumer, which is reported
	clockChecked bool
	findings     []Finding
	reported     map[Finding]bool // pipelines share streams
}

// add adds a finding, once. Without a level it is a fault.
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

// checkServer checks the versions of the servers and, where the pipelines use it, JetStream.
func (d *diagnosis) checkServer(ctx context.Context) {
	var versions []string
	for _, one := range natsx.KnownServers(d.Conn) {
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
		d.addOK("server", "", "version %s, messages of up to %s", strings.Join(versions, ", "),
			needs.ByteText(d.Conn.MaxPayload()))
	}
	if slices.ContainsFunc(d.Pipelines, func(p spec.Pipeline) bool { return p.Stream != "" }) {
		d.checkPayload()
		d.checkJetStream(ctx)
	}
}

// checkPayload checks that the messages of a model are not too large for the server.
func (d *diagnosis) checkPayload() {
	limit := d.Conn.MaxPayload()
	for _, p := range slices.Backward(d.Pipelines) {
		if p.ModelsInServer() && limit < modelChunk+natsx.MaxHeaderBytes {
			d.add(Finding{Check: "payload", Pipeline: p.Name, Text: fmt.Sprintf("the server takes messages of up to %s, and "+
				"models are stored in chunks of %s: none could be stored", needs.ByteText(limit), needs.ByteText(modelChunk)),
				Fix: "set max_payload in the server to 1MB or more, or store models in a directory",
				Key: "pipelines." + p.Name + ".model.store", Value: "./embedd-models"})
			return
		}
	}
}

// checkJetStream checks that the account has JetStream, its limits, and the streams of buckets. It sets hasJetStream.
func (d *diagnosis) checkJetStream(ctx context.Context) {
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

// checkDisk checks how much of the account's storage is used.
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

// checkPermissions compares the user's permissions with those that a daemon needs, unless the user is a viewer.
func (d *diagnosis) checkPermissions(p *spec.Pipeline) {
	if !d.permissions.IsKnown() {
		d.add(Finding{Check: "permissions", Level: LevelNote,
			Text: "the user may not ask for its permissions: one that is missing shows when it is needed",
			Fix:  "allow it to publish on " + natsx.UserInfoSubject})
		return
	}
	// The prefix of reply subjects ends with the role, if it is that of a viewer; the daemon's begins as that does.
	own := strings.TrimSuffix(d.permissions.InboxPrefix(), ".")
	common, isViewers := strings.CutSuffix(own, "."+string(needs.RoleViewer))
	account := Account{APIPrefix: d.APIPrefix, InboxPrefix: common}
	need := permissionsOf(needs.RoleDaemon, []spec.Pipeline{*p}, d.plans, account)
	isInbox := func(subject string) bool { return strings.HasPrefix(subject, common+".") }
	var missing, useful []string
	for _, subject := range need.Publish {
		switch {
		case !d.permissions.IsDenied(natsx.Permission{Action: natsx.Publish, Subject: subject}):
		case strings.HasPrefix(subject, natsx.AckPrefix) && d.permissions.MayReply():
		case strings.Contains(subject, ".GET."): // one of two ways to read a single message
			useful = append(useful, fmt.Sprintf("publish on %q", subject))
		default:
			missing = append(missing, fmt.Sprintf("publish on %q", subject))
		}
	}
	for _, subject := range need.Subscribe {
		switch {
		case isInbox(subject) && !isViewers: // the answer to the question for permissions has arrived
		case !d.permissions.IsDenied(natsx.Permission{Action: natsx.Subscribe, Subject: subject}):
		case isInbox(subject), subject == p.Subject, subject == p.Labels:
			missing = append(missing, fmt.Sprintf("subscribe to %q", subject))
		default: // requests about the pipeline
			useful = append(useful, fmt.Sprintf("subscribe to %q", subject))
		}
	}
	if len(missing) > 0 && d.isViewer(p, account) {
		d.addOK("permissions", p.Name, "the user has those of the role viewer; not those of the daemon, which reports "+
			"itself what its user lacks")
		return
	}
	for _, list := range []struct {
		level    Level
		effect   string
		subjects []string
	}{{LevelFault, "", missing}, {LevelNote, ", which the pipeline can do without", useful}} {
		if len(list.subjects) > 0 {
			d.add(Finding{Check: "permissions", Pipeline: p.Name, Level: list.level, Text: "the user may not " +
				strings.Join(list.subjects, ", ") + list.effect,
				Fix: "grant it; the permissions that are needed are printed by", Command: permissionsCommand})
		}
	}
	if len(missing) == 0 {
		d.addOK("permissions", p.Name, "the user may do what the pipeline needs")
	}
}

// isViewer reports whether the user may do what a viewer does, and write nothing that a daemon writes.
func (d *diagnosis) isViewer(p *spec.Pipeline, a Account) bool {
	denied := func(subject string) bool {
		return d.permissions.IsDenied(natsx.Permission{Action: natsx.Publish, Subject: subject})
	}
	return !slices.ContainsFunc(permissionsOf(needs.RoleViewer, []spec.Pipeline{*p}, d.plans, a).Publish, denied) &&
		denied(p.OutputPattern()) && denied(p.Dead)
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
		// An old server has a finding of its own.
		isReported := slices.ContainsFunc(d.findings, func(f Finding) bool { return f.Text == p.Problem })
		d.addIf(p.Limit && !isReported, Finding{Check: "limits", Text: p.Problem})
		d.addIf(p.Warning != "", Finding{Check: "replicas", Level: LevelNote, Text: p.Warning})
		d.addIf(p.SubjectWarning != "", Finding{Check: "subjects", Level: LevelNote, Text: p.SubjectWarning})
		d.addIf(p.ConsumerWarning != "" && !slices.Contains(d.full, p.Name), Finding{Check: "consumer", Level: level,
			Text: p.ConsumerWarning})
	}
}
