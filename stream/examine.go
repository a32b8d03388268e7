package stream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/embedd/embedd/stream/internal/scope"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/registry"
)

// Finding is what an examination says of one thing that it looked at.
type Finding struct {
	Check    string `json:"check"` // what was looked at: server, clock, input, output, ...
	Pipeline string `json:"pipeline,omitempty"`
	Level    Level  `json:"level"`
	Text     string `json:"text"`              // what is so, and where it is a fault what follows from it
	Cure     string `json:"cure,omitempty"`    // what to do
	Command  string `json:"command,omitempty"` // the same as a line for a shell, where it is one
	Key      string `json:"key,omitempty"`     // the same as a key of the configuration, where it is one
	Value    string `json:"value,omitempty"`   // and what to set it to
}

// Level is how bad a finding is.
type Level string

// The levels.
const (
	LevelOK    Level = "ok"
	LevelNote  Level = "note"  // not as advised, and nothing is lost by it
	LevelFault Level = "fault" // inputs are not answered, or get lost, or would
)

// minVersion is the oldest server that has what embedd asks for: metadata of consumers, and their creation by name and
// subject.
var minVersion = [3]int{2, 10, 0}

// modelPiece is the size of the pieces in which the object store keeps models.
const modelPiece = 128 << 10

// maxSkew is how far the clocks of server and daemon may be apart before the ages of rows and models mean something
// else.
const maxSkew = 5 * time.Second

// Examine looks at everything outside that the pipelines need: the server, what the user may do there, streams,
// consumers, the store of models. It changes nothing. What it needs of the options are connection, pipelines and
// clock.
func Examine(ctx context.Context, o Options) ([]Finding, error) {
	e, err := New(o)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.NewWithAPIPrefix(o.Conn, e.options.APIPrefix)
	if err != nil {
		return nil, err
	}
	x := &examination{Options: e.options, js: js, access: natsx.MonitorPermissions(o.Conn), said: map[Finding]bool{}}
	defer x.access.Stop()
	if x.Clock == nil {
		x.Clock = time.Now
	}
	x.access.Refresh(ctx)
	x.server(ctx)
	for _, p := range e.options.Pipelines {
		one := &pipeline{Scope: &scope.Scope{Pipeline: p, Conn: o.Conn, JS: js, Permissions: x.access}}
		if p.LearnsFromEdges() && x.jetStream {
			x.gathered(ctx, one)
		} else if p.Stream != "" && x.jetStream {
			x.input(ctx, one)
			x.sink(ctx, one, "output", p.Output)
			x.sink(ctx, one, "dead letters", p.Dead)
			if p.Labels != "" {
				x.labels(ctx, one)
			}
			if p.SendsSummaries() {
				x.sends(ctx, one)
			}
		}
		x.mayDo(one)
		x.store(ctx, one)
	}
	if x.jetStream {
		x.replicas(ctx)
	}
	return x.found, nil
}

// replicas looks for a store that one server's death takes away while the streams stay.
func (x *examination) replicas(ctx context.Context) {
	var plans []Plan
	err := x.ask(ctx, func(ctx context.Context) (err error) {
		plans, err = Setup(ctx, x.js, x.Pipelines, false)
		return err
	})
	if err != nil {
		return // what it asks for was asked before, and told of
	}
	for _, p := range plans {
		if p.Warning != "" {
			x.add(Finding{Check: "replicas", Level: LevelNote, Text: p.Warning})
		}
		if p.Short != "" && !slices.Contains(x.crowded, p.Name) {
			f := Finding{Check: "consumer", Level: LevelNote, Text: p.Short}
			if p.Starved {
				f.Level = LevelFault
			}
			x.add(f)
		}
	}
}

type examination struct {
	Options
	js        jetstream.JetStream
	access    *natsx.PermissionMonitor
	jetStream bool // the server has it
	plans     []Plan
	crowded   []string // streams that have no place for a consumer, which is told
	clocked   bool     // the clocks were compared
	found     []Finding
	said      map[Finding]bool // pipelines share streams
}

func (x *examination) add(f Finding) {
	if f.Level == "" {
		f.Level = LevelFault
	}
	if !x.said[f] {
		x.found, x.said[f] = append(x.found, f), true
	}
}

func (x *examination) ok(check, pipeline, format string, args ...any) {
	x.add(Finding{Check: check, Pipeline: pipeline, Level: LevelOK, Text: fmt.Sprintf(format, args...)})
}

// failed says why the server did not answer a question.
func (x *examination) failed(check, pipeline string, err error) {
	f := Finding{Check: check, Pipeline: pipeline, Text: err.Error()}
	if errors.Is(err, ErrDenied) {
		if x.access.IsKnown() {
			return // mayDo tells of all that are missing
		}
		f.Check, f.Command = "rights", permissionsCommand
	}
	x.add(f)
}

// The cures that are verbs.
const (
	permissionsCommand = "embedd setup --permissions"
	setupCommand       = "embedd setup --apply"
)

// ask does something that asks the server.
func (x *examination) ask(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, sightWait)
	defer cancel()
	return x.access.Guard(ctx, x.access.IsServerRequest, do)
}

// server looks at version, JetStream, its limits, and the largest message.
func (x *examination) server(ctx context.Context) {
	nc := x.Conn
	version := nc.ConnectedServerVersion()
	if needs.OlderServer(version, minVersion) {
		x.add(Finding{Check: "server", Text: "the server has version " + version + ", and embedd asks for what 2.10 brought",
			Cure: "upgrade the server"})
	} else {
		x.ok("server", "", "version %s, messages of up to %s", version, needs.ByteText(nc.MaxPayload()))
	}
	streams, keeps := false, ""
	for _, p := range x.Pipelines {
		streams = streams || p.Stream != ""
		if p.Stream != "" && !p.Models.None && p.Models.Directory == "" && p.Stage.Fixed == nil {
			keeps = p.Name
		}
	}
	if !streams {
		return
	}
	if keeps != "" && nc.MaxPayload() < modelPiece+natsx.MaxHeaderBytes {
		x.add(Finding{Check: "payload", Pipeline: keeps, Text: fmt.Sprintf(
			"the server takes messages of up to %s, and models are kept in pieces of %s: none could be kept",
			needs.ByteText(nc.MaxPayload()), needs.ByteText(modelPiece)),
			Cure: "set max_payload in the server to 1MB or more, or keep models in a directory",
			Key:  "pipelines." + keeps + ".model.store", Value: "./embedd-models"})
	}
	var info *jetstream.AccountInfo
	err := x.ask(ctx, func(ctx context.Context) (err error) {
		info, err = x.js.AccountInfo(ctx)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		x.add(Finding{Check: "jetstream", Text: "the server, or the user's account, has no JetStream",
			Cure: "start the server with 'nats-server -js', give the account JetStream, or delete input.stream for core NATS, at most once"})
		return
	case errors.Is(err, ErrDenied):
		// What is needed of JetStream is asked for below.
	case err != nil:
		x.failed("jetstream", "", natsx.ExplainRequestError(err, "about JetStream"))
		return
	default:
		used, most := info.Store, info.Limits.MaxStore
		if most > 0 && used > uint64(most)/10*9 {
			x.add(Finding{Check: "disk", Text: fmt.Sprintf(
				"the account has used %s of the %s that JetStream may store for it: soon nothing is stored any more",
				needs.ByteText(int64(used)), needs.ByteText(most)),
				Cure: "raise the account's max_file (or the server's), or give streams a smaller limit"})
		} else {
			x.ok("jetstream", "", "%s stored, %d streams, %d consumers", needs.ByteText(int64(used)), info.Streams, info.Consumers)
		}
	}
	x.jetStream = true
}

// clock compares ours with the server's, once.
func (x *examination) clock(before time.Time, info *jetstream.StreamInfo) {
	if x.clocked || info.TimeStamp.IsZero() {
		return
	}
	x.clocked = true
	after := x.Clock()
	skew := info.TimeStamp.Sub(before.Add(after.Sub(before) / 2))
	if skew.Abs() > maxSkew+after.Sub(before) {
		how := "ahead of"
		if skew < 0 {
			how = "behind"
		}
		x.add(Finding{Check: "clock", Text: fmt.Sprintf(
			"the server's clock is %v %s this machine's: ages of models and rows are wrong by that",
			skew.Abs().Round(time.Second), how), Cure: "set both clocks, as with chrony or ntpd"})
		return
	}
	x.ok("clock", "", "within %v of the server's", maxSkew)
}

// input looks at the input stream and the pipeline's consumer there.
func (x *examination) input(ctx context.Context, p *pipeline) {
	var s jetstream.Stream
	before := x.Clock()
	err := x.ask(ctx, func(ctx context.Context) (err error) {
		s, err = x.js.Stream(ctx, p.Stream)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		f := Finding{Check: "input", Pipeline: p.Name, Text: "stream " + p.Stream + " does not exist", Cure: "make it",
			Command: setupCommand}
		// No two streams take one subject.
		if other, err := streamOf(ctx, x.js, p.Subject); err == nil {
			f.Text += ", and stream " + other.Config.Name + " takes " + p.Subject
			f.Cure, f.Command = "read that one", ""
			f.Key, f.Value = "pipelines."+p.Name+".input.stream", other.Config.Name
		}
		x.add(f)
		return
	}
	if err != nil {
		x.failed("input", p.Name, natsx.ExplainRequestError(err, "about stream "+p.Stream))
		return
	}
	info := s.CachedInfo()
	x.clock(before, info)
	c := info.Config
	x.plans = append(x.plans, Plan{Name: c.Name, Subjects: c.Subjects})
	switch {
	case len(c.Subjects) > 0 && c.Mirror == nil && len(c.Sources) == 0 && !wildcard.CoveredBy(p.Subject, c.Subjects):
		x.add(Finding{Check: "input", Pipeline: p.Name, Text: fmt.Sprintf(
			"stream %s takes %s and not %s: no input ever comes", c.Name, strings.Join(c.Subjects, ", "), p.Subject),
			Cure: "let it take the subject, or name another input.stream", Command: fmt.Sprintf(
				"nats stream edit %s --subjects=%s,%s --force", c.Name, strings.Join(c.Subjects, ","), p.Subject)})
	case c.MaxMsgsPerSubject > 0 && c.Discard == jetstream.DiscardOld:
		x.add(Finding{Check: "input", Pipeline: p.Name, Text: fmt.Sprintf(
			"stream %s keeps only the newest %d messages of a subject: inputs are gone before they are answered", c.Name,
			c.MaxMsgsPerSubject), Cure: "lift the limit", Command: "nats stream edit " + c.Name +
			" --max-msgs-per-subject=-1 --force"})
	case c.MaxAge > 0 && c.MaxAge < time.Minute:
		x.add(Finding{Check: "input", Pipeline: p.Name, Text: fmt.Sprintf(
			"stream %s keeps messages for %v: inputs are gone before they are answered when the daemon is away for longer",
			c.Name, c.MaxAge), Cure: "keep them longer", Command: "nats stream edit " + c.Name + " --max-age=24h --force"})
	default:
		x.ok("input", p.Name, "stream %s has %d messages", c.Name, info.State.Msgs)
	}
	if p.Partitions > 0 {
		if err := needs.PartitionServer(x.Conn.ConnectedServerVersion()); err != nil {
			x.add(Finding{Check: "partitions", Pipeline: p.Name, Text: err.Error(), Cure: "upgrade the server"})
		} else if f := needs.PartitionFault(&p.Pipeline, &c); f != nil {
			x.add(Finding{Check: "partitions", Pipeline: p.Name, Text: f.Text, Cure: f.Fix, Command: f.Command})
		} else {
			x.ok("partitions", p.Name, "stream %s has %d, by key", c.Name, p.Partitions)
		}
	}
	x.consumer(ctx, p, s)
}

// consumer looks at the pipeline's durable consumer.
func (x *examination) consumer(ctx context.Context, p *pipeline, s jetstream.Stream) {
	var c jetstream.Consumer
	err := x.ask(ctx, func(ctx context.Context) (err error) {
		if err = p.locate(ctx); err == nil {
			c, err = s.Consumer(ctx, p.ConsumerName())
		}
		return err
	})
	most := s.CachedInfo().Config.MaxConsumers
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound) && most > 0 && s.CachedInfo().State.Consumers >= most:
		x.crowded = append(x.crowded, p.Stream)
		x.add(Finding{Check: "consumer", Pipeline: p.Name, Text: fmt.Sprintf(
			"stream %s allows %d consumers and has them: the pipeline gets none", p.Stream, most),
			Cure: "delete one that nobody needs ('nats consumer ls " + p.Stream + "'); the limit of a stream cannot be changed"})
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		x.ok("consumer", p.Name, "%s is made when the daemon starts", p.ConsumerName())
	case err != nil:
		x.failed("consumer", p.Name, natsx.ExplainRequestError(err, "about consumer "+p.ConsumerName()))
	default:
		info := c.CachedInfo()
		n := info.NumPending + uint64(info.NumAckPending)
		for _, q := range needs.Partitions(&p.Pipeline)[1:] {
			if more, err := p.unanswered(ctx, q); err == nil {
				n += more
			}
		}
		if err := p.owns(info.Config, s.CachedInfo().Config.Subjects, p.Subject); err != nil {
			x.add(Finding{Check: "consumer", Pipeline: p.Name, Text: err.Error(),
				Command: fmt.Sprintf("nats consumer rm %s %s --force", p.Stream, p.ConsumerName())})
			return
		}
		x.ok("consumer", p.Name, "%d messages are not answered", n)
	}
}

// sink looks at a stream that takes what the pipeline writes.
func (x *examination) sink(ctx context.Context, p *pipeline, check, subject string) {
	var info *jetstream.StreamInfo
	before := x.Clock()
	err := x.ask(ctx, func(ctx context.Context) (err error) {
		info, err = streamOf(ctx, x.js, subject)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		x.add(Finding{Check: check, Pipeline: p.Name, Text: "no stream takes " + subject, Cure: "make one",
			Command: setupCommand})
		return
	}
	if err != nil {
		x.failed(check, p.Name, natsx.ExplainRequestError(err, "which stream takes "+subject))
		return
	}
	x.clock(before, info)
	c := info.Config
	x.plans = append(x.plans, Plan{Name: c.Name, Subjects: c.Subjects})
	edit := func(text, cure, flag string) {
		x.add(Finding{Check: check, Pipeline: p.Name,
			Text: fmt.Sprintf("stream %s, which takes %s, %s", c.Name, subject, text), Cure: cure,
			Command: fmt.Sprintf("nats stream edit %s %s --force", c.Name, flag)})
	}
	known := len(x.found)
	if f := needs.StreamFull(info, subject); f != nil {
		x.add(Finding{Check: check, Pipeline: p.Name, Text: f.Text, Cure: f.Fix, Command: f.Command})
	}
	if c.NoAck {
		edit("confirms nothing, and an input is acknowledged only when its answer is confirmed", "let it confirm", "--ack")
	}
	if c.MaxMsgSize > 0 && int64(c.MaxMsgSize) < 4*ownHeaders {
		edit(fmt.Sprintf("takes messages of up to %d bytes: a row with its headers hardly fits", c.MaxMsgSize),
			"raise or lift its limit", "--max-msg-size=-1")
	}
	if advised := 3 * p.AckWait; c.Duplicates < advised {
		edit(fmt.Sprintf(
			"knows duplicates for %v, and inputs come again after %v (nats.ack_wait): more answers have to be looked up",
			c.Duplicates, p.AckWait), "make it three times as long at least", "--dupe-window="+advised.String())
	}
	if c.Retention != jetstream.LimitsPolicy && info.State.Consumers == 0 {
		kind := "for its consumers"
		if c.Retention == jetstream.WorkQueuePolicy {
			kind = "until a consumer has them, in a work queue"
		}
		level := LevelNote
		if c.Retention == jetstream.InterestPolicy {
			level = LevelFault // nothing is kept
		}
		x.add(Finding{Check: check, Pipeline: p.Name, Level: level, Text: fmt.Sprintf(
			"stream %s, which takes %s, keeps messages %s, and it has none", c.Name, subject, kind),
			Cure: "make the consumer of whoever reads it, or a stream that keeps them by limits"})
	}
	if len(x.found) == known {
		x.ok(check, p.Name, "stream %s has %d messages", c.Name, info.State.Msgs)
	}
}

// labels looks at the stream of labels that come apart from their rows.
func (x *examination) labels(ctx context.Context, p *pipeline) {
	var info *jetstream.StreamInfo
	err := x.ask(ctx, func(ctx context.Context) (err error) {
		info, err = streamOf(ctx, x.js, p.Labels)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		x.add(Finding{Check: "labels", Pipeline: p.Name, Text: "no stream takes " + p.Labels, Cure: "make one",
			Command: setupCommand})
	case err != nil:
		x.failed("labels", p.Name, natsx.ExplainRequestError(err, "which stream takes "+p.Labels))
	default:
		x.ok("labels", p.Name, "stream %s has %d messages", info.Config.Name, info.State.Msgs)
	}
}

// mayDo compares what the user may do with what a daemon needs.
func (x *examination) mayDo(p *pipeline) {
	if !x.access.IsKnown() {
		x.add(Finding{Check: "rights", Level: LevelNote,
			Text: "the user may not ask for its rights: one that is missing shows when it is needed",
			Cure: "let it publish on " + natsx.UserInfoSubject})
		return
	}
	inbox := strings.TrimSuffix(x.access.InboxPrefix(), ".")
	need := RightsOf([]Pipeline{p.Pipeline}, x.plans, Account{APIPrefix: x.APIPrefix, InboxPrefix: inbox})[0]
	var lack, useful []string
	for _, subject := range need.Publish {
		switch {
		case !x.access.IsDenied(natsx.Permission{Action: natsx.Publish, Subject: subject}):
		case strings.HasPrefix(subject, natsx.AckPrefix) && x.access.MayReply():
		case strings.Contains(subject, ".GET."):
			useful = append(useful, fmt.Sprintf("publish on %q", subject)) // one of two ways to read a single message
		default:
			lack = append(lack, fmt.Sprintf("publish on %q", subject))
		}
	}
	for _, subject := range need.Subscribe {
		switch {
		case !x.access.IsDenied(natsx.Permission{Action: natsx.Subscribe, Subject: subject}):
		case strings.HasPrefix(subject, inbox), subject == p.Subject, subject == p.Labels:
			lack = append(lack, fmt.Sprintf("subscribe to %q", subject))
		default:
			useful = append(useful, fmt.Sprintf("subscribe to %q", subject)) // requests about the pipeline
		}
	}
	for _, one := range []struct {
		level Level
		what  string
		list  []string
	}{{LevelFault, "", lack}, {LevelNote, ", which the pipeline can do without", useful}} {
		if len(one.list) > 0 {
			x.add(Finding{Check: "rights", Pipeline: p.Name, Level: one.level, Text: "the user may not " +
				strings.Join(one.list, ", ") + one.what, Cure: "grant it; the rights that are needed are printed by",
				Command: permissionsCommand})
		}
	}
	if len(lack) == 0 {
		x.ok("rights", p.Name, "the user may do what the pipeline needs")
	}
}

// store looks at where models are kept, and reads the live one.
func (x *examination) store(ctx context.Context, p *pipeline) {
	fault := func(text, cure string) {
		x.add(Finding{Check: "store", Pipeline: p.Name, Text: text, Cure: cure})
	}
	if p.Models.None || p.Stage.Fixed != nil || p.Models.Directory == "" && !x.jetStream {
		return
	}
	var store registry.Store
	var err error
	if dir := p.Models.Directory; dir != "" {
		there, err := writable(dir)
		if err != nil {
			x.add(Finding{Check: "store", Pipeline: p.Name, Text: fmt.Sprintf("models cannot be kept in %s: %v", dir, err),
				Cure: "let the daemon's user write there, or name another directory",
				Key:  "pipelines." + p.Name + ".model.store"})
			return
		}
		if !there {
			x.ok("store", p.Name, "directory %s is made when the daemon starts", dir)
			return
		}
		store, err = registry.Directory(dir)
		if err != nil {
			fault(err.Error(), "")
			return
		}
	} else {
		err = x.ask(ctx, func(ctx context.Context) (err error) {
			store, err = registry.JetStream(ctx, x.js)
			return err
		})
		if errors.Is(err, registry.ErrMissing) {
			x.ok("store", p.Name, "the buckets %s are made when the daemon starts", registry.Bucket)
			return
		}
		if err != nil {
			x.failed("store", p.Name, err)
			return
		}
		for _, name := range []string{"OBJ_" + registry.Bucket, "KV_" + registry.Bucket} {
			if s, err := x.js.Stream(ctx, name); err == nil {
				if f := needs.StreamFull(s.CachedInfo(), "models"); f != nil {
					x.add(Finding{Check: "store", Pipeline: p.Name, Text: f.Text, Cure: f.Fix, Command: f.Command})
					return
				}
			}
		}
	}
	// Strict changes nothing: a start would mend what it can.
	live, err := registry.Of(store, p.Name, registry.Options{Limit: p.Models.Limit, Strict: true}).Live(ctx)
	switch {
	case errors.Is(err, registry.ErrDamaged), errors.Is(err, registry.ErrMissing):
		fault(err.Error(),
			"restore the store from a backup; else the daemon goes on with the newest version that can be read, or begins anew")
	case err != nil:
		fault(err.Error(), "look whether the store answers")
	case x.foreign(ctx, p, live.Stream):
	case live.Live == nil:
		x.ok("store", p.Name, "%s, no model yet", store)
	default:
		x.ok("store", p.Name, "%s, live is %s", store, live.Live.Version)
		if p.LearnsFromEdges() {
			x.outlived(ctx, p, live.Live)
		}
	}
}

// foreign tells of a name that belongs to another stream.
func (x *examination) foreign(ctx context.Context, p *pipeline, bound string) bool {
	err := x.ask(ctx, func(ctx context.Context) error { return p.checkName(ctx, bound) })
	if errors.Is(err, ErrConsumerTaken) {
		x.add(Finding{Check: "store", Pipeline: p.Name, Text: err.Error(),
			Command: fmt.Sprintf("nats consumer rm %s %s --force", bound, p.ConsumerName())})
	}
	return errors.Is(err, ErrConsumerTaken)
}

// writable tries to write in a directory, or where it is not there whether it could be made.
func writable(dir string) (there bool, err error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	for there = true; ; there = false {
		info, err := os.Stat(full)
		switch {
		case errors.Is(err, os.ErrNotExist) && filepath.Dir(full) != full:
			full = filepath.Dir(full)
			continue
		case err != nil:
			return false, err
		case !info.IsDir():
			return false, fmt.Errorf("%s is no directory", full)
		}
		file, err := os.CreateTemp(full, ".embedd-doctor-*")
		if err != nil {
			return false, err
		}
		return there, errors.Join(file.Close(), os.Remove(file.Name()))
	}
}
