package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/spec"
)

// right is what a user may do on a subject.
type right struct {
	act     string // publish or subscribe
	subject string
}

// denial is the error of a right that is missing.
func (r right) denial() error {
	on := "publish on"
	if r.act == actSubscribe {
		on = "subscribe to"
	}
	return spec.Describe(fmt.Sprintf("the server does not let this user %s %q: grant it; `embedd setup --permissions` prints the rights that are needed",
		on, r.subject), ErrDenied)
}

const (
	actPublish   = "publish"
	actSubscribe = "subscribe"
)

// userInfo is where a server tells who asks what it may do.
const userInfo = "$SYS.REQ.USER.INFO"

// access knows what the server refuses to the user of a connection. A request that is refused gets no answer: the server
// says why in an error of the connection alone, which belongs to no request. Where the user may ask for its rights
// they are known before anything is refused.
type access struct {
	nc   *nats.Conn
	some atomic.Bool // something is denied: granted need not look where nothing is

	mu      sync.Mutex
	denied  map[right]time.Time
	waiting map[*context.CancelCauseFunc]func(right) bool
	ended   bool
	granted permissions
	mute    bool // the user may not ask, as of this connection
	told    bool // granted is what the server said
	// reconnects counts those after which nothing was forgotten yet
	reconnects uint64
}

// permissions are the lists of a user, as the server tells them; nil lists allow everything and deny nothing.
type permissions struct {
	Publish   grants    `json:"publish"`
	Subscribe grants    `json:"subscribe"`
	Responses *struct{} `json:"responses"` // it may answer what it gets
}

type grants struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

func (g grants) allows(subject string) bool {
	takes := func(pattern string) bool {
		pattern, _, _ = strings.Cut(pattern, " ") // a queue group may follow
		return covers(pattern, subject)
	}
	return (g.Allow == nil || slices.ContainsFunc(g.Allow, takes)) && !slices.ContainsFunc(g.Deny, takes)
}

func (p permissions) allow(r right) bool {
	if r.act == actSubscribe {
		return p.Subscribe.allows(r.subject)
	}
	return p.Publish.allows(r.subject)
}

// watchAccess listens to the errors of a connection, and hands them on to who listened before.
func watchAccess(nc *nats.Conn) *access {
	a := &access{nc: nc, denied: map[right]time.Time{}, waiting: map[*context.CancelCauseFunc]func(right) bool{}}
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if a.refused(err) && before != nil {
			before(nc, sub, err)
		}
	})
	return a
}

// end takes no more notice of errors. The handler stays, since another may have been set over it.
func (a *access) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}

var violation = regexp.MustCompile(`Permissions Violation for (Publish|Subscription) to "([^"]+)"`)

// refused notes what the server refuses, and tells whether others should hear of it: that the user may not ask for its
// rights is of no interest to anybody, and of what is refused again and again the first time in a minute is enough.
func (a *access) refused(err error) bool {
	m := violation.FindStringSubmatch(err.Error())
	if !errors.Is(err, nats.ErrPermissionViolation) || m == nil {
		return true
	}
	one := right{actPublish, m[2]}
	if m[1] == "Subscription" {
		one.act = actSubscribe
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return true
	}
	if one.subject == userInfo {
		a.mute = true
		return false
	}
	one.subject = alike(one.subject)
	last, again := a.denied[one]
	if again || len(a.denied) < maxDenied {
		a.denied[one] = time.Now()
	}
	a.some.Store(true)
	for cancel, about := range a.waiting {
		if about(one) {
			(*cancel)(one.denial())
		}
	}
	return time.Since(last) > believed
}

// alike is what a right that is missing is granted by: subjects that hold a place, or a name drawn at random, differ
// each time.
func alike(subject string) string {
	if strings.HasPrefix(subject, natsx.AckPrefix) {
		return natsx.AckSubjects
	}
	_, about, found := strings.Cut(subject, ".CONSUMER.")
	tokens := strings.Split(about, ".")
	at := 2 // after what is done and the stream
	if tokens[0] == "MSG" {
		at = 3
	}
	if found && strings.HasPrefix(subject, "$JS.") && at < len(tokens) && !strings.HasPrefix(tokens[at], "embedd_") {
		tokens[at] = "*"
		return strings.TrimSuffix(subject, about) + strings.Join(tokens, ".")
	}
	return subject
}

// believed is how long a refusal speaks for the next try: what is needed is tried again sooner.
const believed = time.Minute

// maxDenied bounds what is remembered: reply subjects differ each time.
const maxDenied = 256

// during does something that asks the server, and ends it as soon as the server refuses what it needs. about says
// which refusals are meant.
func (a *access) during(ctx context.Context, about func(right) bool, do func(context.Context) error) error {
	if a == nil {
		return do(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	a.waiting[&cancel] = about
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.waiting, &cancel)
		a.mu.Unlock()
		cancel(nil)
	}()
	err := do(ctx)
	if err != nil && errors.Is(context.Cause(ctx), ErrDenied) {
		return context.Cause(ctx)
	}
	return err
}

// ofServer tells whether a right is one to ask the server, not one of the host's own subjects.
func (a *access) ofServer(one right) bool {
	return strings.HasPrefix(one.subject, "$") || strings.HasPrefix(one.subject, a.inbox())
}

func (a *access) inbox() string {
	inbox := a.nc.NewInbox()
	return inbox[:strings.LastIndexByte(inbox, '.')+1]
}

// lacks tells whether a right is known to be missing.
func (a *access) lacks(one right) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.denied[one]) < believed || !a.granted.allow(one)
}

// refusedLately tells whether a right was refused, and nothing since says that it is there.
func (a *access) refusedLately(one right) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.denied[one]) < believed
}

// known tells whether the server has said what the user may do.
func (a *access) known() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.told
}

// answers tells whether the user may publish on the reply subjects of what it gets, as acknowledgements have.
func (a *access) answers() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.granted.Responses != nil
}

// has notes that a right is there: what it is for was done. It costs nothing where nothing is missing.
func (a *access) has(one right) {
	if !a.some.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.denied, one)
	a.some.Store(len(a.denied) > 0)
}

// ask asks the server what the user may do. Servers and users that do not know are no error: what is refused then is
// known once it is refused.
func (a *access) ask(ctx context.Context) {
	a.mu.Lock()
	if n := a.nc.Stats().Reconnects; n != a.reconnects {
		clear(a.denied) // other rights may hold
		a.some.Store(false)
		a.reconnects, a.granted, a.mute, a.told = n, permissions{}, false, false
	}
	mute := a.mute
	a.mu.Unlock()
	if mute {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	granted, err := a.rights(ctx)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.granted, a.told = granted, true
	for one := range a.denied {
		if one.subject != natsx.AckSubjects && a.granted.allow(one) {
			delete(a.denied, one)
		}
	}
	a.some.Store(len(a.denied) > 0)
}

// rights are what the server says that the user may do. A leaf node hands the question on, and its hub answers too: with
// what the way between them may do.
func (a *access) rights(ctx context.Context) (permissions, error) {
	msg, err := a.nc.RequestWithContext(ctx, userInfo, nil)
	if err != nil {
		return permissions{}, err
	}
	if p, ok := a.own(msg); ok {
		return p, nil
	}
	sub, err := a.nc.SubscribeSync(a.nc.NewInbox())
	if err != nil {
		return permissions{}, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := a.nc.PublishRequest(userInfo, sub.Subject, nil); err != nil {
		return permissions{}, err
	}
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return permissions{}, err
		}
		if p, ok := a.own(msg); ok {
			return p, nil
		}
	}
}

// own reads an answer of the server that the connection leads to; false for that of another.
func (a *access) own(msg *nats.Msg) (permissions, bool) {
	var answer struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
		Data struct {
			Permissions permissions `json:"permissions"`
		} `json:"data"`
	}
	if json.Unmarshal(msg.Data, &answer) != nil || answer.Server.ID != a.nc.ConnectedServerId() {
		return permissions{}, false
	}
	return answer.Data.Permissions, true
}
