package natsx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/wildcard"
)

var (
	// ErrPermissionDenied is in errors whose cause is a permission that the user lacks. The text names it.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrNoJetStream is in errors whose cause is a server without JetStream.
	ErrNoJetStream = errors.New("the server has no JetStream")
)

// ExplainAPIError adds the fix to an error of the JetStream API on a server without JetStream.
func ExplainAPIError(err error) error {
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w (%w); start it with 'nats-server -js', or leave input.stream out for core NATS",
			ErrNoJetStream, err)
	}
	return err
}

// ExplainPublishError adds the fix to the error of a publish on a subject that no stream takes, or for which JetStream
// has no storage left.
func ExplainPublishError(err error, subject string) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("no stream takes subject %s (%w); create it with 'embedd setup --apply'", subject, err)
	}
	switch {
	case HasErrorCode(err, ErrCodeNoServers):
		return fmt.Errorf("%w: the storage of JetStream in the server is full; raise max_file_store of the server (for "+
			"streams in memory max_memory_store), or purge streams", err)
	case HasErrorCode(err, errCodeAccountFull):
		return fmt.Errorf("%w; raise max_file of the account (for streams in memory max_mem), or purge streams", err)
	}
	return err
}

// ExplainRequestError adds what a request was about (as in "about stream x"), and what to check if it was not answered.
func ExplainRequestError(err error, about string) error {
	if errors.Is(err, ErrPermissionDenied) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("the server does not answer %s: check whether it hangs, or its JetStream has no leader (%w)",
			about, err)
	}
	return fmt.Errorf("asking the server %s: %w", about, err)
}

// Error codes of a cluster whose JetStream has no leader or too few servers, and of a full account; nats.go has no
// names for them. A server whose storage is full refuses a publish with ErrCodeNoServers.
const (
	ErrCodeNoCluster   jetstream.ErrorCode = 10008
	ErrCodeNoLeader    jetstream.ErrorCode = 10009
	ErrCodeNoServers   jetstream.ErrorCode = 10023
	errCodeAccountFull jetstream.ErrorCode = 10002
)

// Action is what a permission allows on a subject.
type Action string

const (
	Publish   Action = "publish"
	Subscribe Action = "subscribe"
)

// Permission allows an action on a subject.
type Permission struct {
	Action  Action
	Subject string
}

// DeniedError is an ErrPermissionDenied that names the permission and the fix.
func (p Permission) DeniedError() error { return deniedError(p) }

type deniedError Permission

func (e deniedError) Error() string {
	action := "publish on"
	if e.Action == Subscribe {
		action = "subscribe to"
	}
	return fmt.Sprintf("this user has no permission to %s %q: grant it; `embedd setup --permissions` prints the "+
		"permissions that are needed", action, e.Subject)
}

func (e deniedError) Unwrap() error { return ErrPermissionDenied }

// UserInfoSubject is where a server answers with the permissions of the requesting user.
const UserInfoSubject = "$SYS.REQ.USER.INFO"

const (
	// denialAge is how long a denial is assumed to hold. A needed permission is tried again sooner.
	denialAge = time.Minute
	// maxDenials bounds the denials that are remembered: reply subjects differ each time.
	maxDenials = 256
)

// PermissionMonitor knows what the server denies to the user of a connection. A denied request gets no answer: the
// server reports it as an asynchronous error of the connection, which names no request. A user that may publish on
// UserInfoSubject knows its permissions before anything is denied.
type PermissionMonitor struct {
	nc        *nats.Conn
	handler   *errorHandler
	anyDenied atomic.Bool // so that MarkAllowed takes no lock on the hot path

	mu         sync.Mutex
	denied     map[Permission]time.Time
	guards     map[*context.CancelCauseFunc]func(Permission) bool
	granted    userPermissions
	known      bool                    // granted is the server's answer
	mayNotAsk  bool                    // the user may not publish on UserInfoSubject, on this connection
	reconnects uint64                  // number of reconnects at which this was read
	requests   *Cache[userPermissions] // since then; the pipelines of a process ask together
}

// userPermissions are the lists of a user as the server reports them; nil lists allow everything and deny nothing.
type userPermissions struct {
	Publish   subjectLists `json:"publish"`
	Subscribe subjectLists `json:"subscribe"`
	Responses *struct{}    `json:"responses"` // it may publish on reply subjects
}

type subjectLists struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

func (l subjectLists) allows(subject string) bool {
	matches := func(pattern string) bool {
		pattern, _, _ = strings.Cut(pattern, " ") // a queue group may follow
		return wildcard.Covers(pattern, subject)
	}
	return (l.Allow == nil || slices.ContainsFunc(l.Allow, matches)) && !slices.ContainsFunc(l.Deny, matches)
}

func (u userPermissions) allows(p Permission) bool {
	if p.Action == Subscribe {
		return u.Subscribe.allows(p.Subject)
	}
	return u.Publish.allows(p.Subject)
}

// MonitorPermissions listens to the asynchronous errors of a connection until Stop. The handler that was set before
// still gets them.
func MonitorPermissions(nc *nats.Conn) *PermissionMonitor {
	m := &PermissionMonitor{nc: nc, denied: map[Permission]time.Time{},
		guards: map[*context.CancelCauseFunc]func(Permission) bool{}, requests: NewCache[userPermissions](time.Second)}
	m.handler = addMonitor(nc, m)
	return m
}

// Stop ends the monitoring.
func (m *PermissionMonitor) Stop() { m.handler.remove(m.nc, m) }

// errorHandler hands the errors of a connection to its monitors, then to the handler of before.
type errorHandler struct {
	next     nats.ErrHandler
	mu       sync.Mutex
	monitors []*PermissionMonitor
}

// errorHandlers has one handler for each monitored connection, so that handlers do not pile up with engines that run
// one after another on the same connection.
var errorHandlers = struct {
	sync.Mutex
	byConn map[*nats.Conn]*errorHandler
}{byConn: map[*nats.Conn]*errorHandler{}}

func addMonitor(nc *nats.Conn, m *PermissionMonitor) *errorHandler {
	errorHandlers.Lock()
	defer errorHandlers.Unlock()
	h := errorHandlers.byConn[nc]
	if h == nil || !isErrorHandler(nc.ErrorHandler()) { // the host may have set another
		h = &errorHandler{next: nc.ErrorHandler()}
		errorHandlers.byConn[nc] = h
		nc.SetErrorHandler(h.handle)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.monitors = append(h.monitors, m)
	return h
}

func (h *errorHandler) remove(nc *nats.Conn, m *PermissionMonitor) {
	errorHandlers.Lock()
	defer errorHandlers.Unlock()
	h.mu.Lock()
	h.monitors = slices.DeleteFunc(h.monitors, func(o *PermissionMonitor) bool { return o == m })
	left := len(h.monitors)
	h.mu.Unlock()
	if left > 0 || errorHandlers.byConn[nc] != h {
		return
	}
	delete(errorHandlers.byConn, nc)
	if isErrorHandler(nc.ErrorHandler()) {
		nc.SetErrorHandler(h.next)
	}
}

// isErrorHandler reports whether a handler is the method of an errorHandler.
func isErrorHandler(f nats.ErrHandler) bool {
	return f != nil && reflect.ValueOf(f).Pointer() == reflect.ValueOf((&errorHandler{}).handle).Pointer()
}

func (h *errorHandler) handle(nc *nats.Conn, sub *nats.Subscription, err error) {
	h.mu.Lock()
	monitors := slices.Clone(h.monitors)
	h.mu.Unlock()
	report := true
	for _, m := range monitors {
		report = m.observe(err) && report
	}
	if report && h.next != nil {
		h.next(nc, sub, err)
	}
}

var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]*)"`)

// DeniedPermission returns the permission that an error of the server reports as missing.
func DeniedPermission(err error) (Permission, bool) {
	match := violation.FindStringSubmatch(err.Error())
	if match == nil {
		return Permission{}, false
	}
	if strings.EqualFold(match[1], "publish") {
		return Permission{Publish, match[2]}, true
	}
	return Permission{Subscribe, match[2]}, true
}

// observe records a denial, and reports whether the host's handler should see the error. It should not see that the
// user may not read its own permissions, and a repeated denial only once a minute.
func (m *PermissionMonitor) observe(err error) bool {
	p, isDenial := DeniedPermission(err)
	if !isDenial {
		return true
	}
	if p.Subject == UserInfoSubject {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.mayNotAsk = true
		return false
	}
	p.Subject = generalSubject(p.Subject)
	m.mu.Lock()
	last, known := m.denied[p]
	if known || len(m.denied) < maxDenials {
		m.denied[p] = time.Now()
	}
	m.anyDenied.Store(true)
	guards := maps.Clone(m.guards)
	m.mu.Unlock()
	for cancel, isRelevant := range guards {
		if isRelevant(p) {
			(*cancel)(p.DeniedError())
		}
	}
	return time.Since(last) > denialAge
}

// generalSubject is the subject by which a missing permission is granted: subjects with a position in a stream or a
// random consumer name differ each time.
func generalSubject(subject string) string {
	if strings.HasPrefix(subject, AckPrefix) {
		return AckSubjects
	}
	_, request, found := strings.Cut(subject, ".CONSUMER.")
	tokens := strings.Split(request, ".")
	name := 2 // behind the verb and the stream
	if tokens[0] == "MSG" {
		name = 3
	}
	if found && strings.HasPrefix(subject, "$JS.") && name < len(tokens) && !strings.HasPrefix(tokens[name], "embedd") {
		tokens[name] = "*"
		return strings.TrimSuffix(subject, request) + strings.Join(tokens, ".")
	}
	return subject
}

// Guard calls do, and cancels its context as soon as the server denies a permission that is relevant to it. The error
// is then the denial. A nil monitor only calls do.
func (m *PermissionMonitor) Guard(ctx context.Context, isRelevant func(Permission) bool,
	do func(context.Context) error) error {
	if m == nil {
		return do(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	m.mu.Lock()
	m.guards[&cancel] = isRelevant
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.guards, &cancel)
		m.mu.Unlock()
		cancel(nil)
	}()
	err := do(ctx)
	if err != nil && !errors.Is(err, ErrPermissionDenied) && errors.Is(context.Cause(ctx), ErrPermissionDenied) {
		return context.Cause(ctx)
	}
	return err
}

// Guarded sends requests to the server, and ends them as soon as it denies one, as Guard does.
func Guarded[T any](ctx context.Context, m *PermissionMonitor, requests func(context.Context) (T, error)) (answer T,
	err error) {
	err = m.Guard(ctx, m.IsServerRequest, func(ctx context.Context) (err error) {
		answer, err = requests(ctx)
		return err
	})
	return answer, err
}

// IsServerRequest reports whether a permission is for requests to the server or their replies, not for the host's own
// subjects.
func (m *PermissionMonitor) IsServerRequest(p Permission) bool {
	return strings.HasPrefix(p.Subject, "$") || strings.HasPrefix(p.Subject, m.InboxPrefix())
}

// InboxPrefix begins the reply subjects of the connection, with its final dot.
func (m *PermissionMonitor) InboxPrefix() string {
	inbox := m.nc.NewInbox()
	return inbox[:strings.LastIndexByte(inbox, '.')+1]
}

// IsDenied reports whether a permission is known to be missing.
func (m *PermissionMonitor) IsDenied(p Permission) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.denied[p]) < denialAge || !m.granted.allows(p)
}

// PublishDenied returns the error of a publish that the user is known to lack the permission for, nil if it may be
// allowed.
func (m *PermissionMonitor) PublishDenied(subject string) error {
	if one := (Permission{Publish, subject}); m.IsDenied(one) {
		return one.DeniedError()
	}
	return nil
}

// WasDenied reports whether a permission was denied within the last minute, and not allowed since.
func (m *PermissionMonitor) WasDenied(p Permission) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.denied[p]) < denialAge
}

// IsKnown reports whether the server has answered which permissions the user has.
func (m *PermissionMonitor) IsKnown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known
}

// MayReply reports whether the user may publish on the reply subjects of messages it gets, which acknowledgements need.
func (m *PermissionMonitor) MayReply() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.granted.Responses != nil
}

// MarkAllowed forgets the denial of a permission that was used with success. It takes no lock while nothing is denied.
func (m *PermissionMonitor) MarkAllowed(p Permission) {
	if !m.anyDenied.Load() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.denied, p)
	m.anyDenied.Store(len(m.denied) > 0)
}

// Refresh requests the user's permissions from the server, at most once a second for all pipelines of the process. No
// answer is not an error: a denied permission is then detected when it is first used.
func (m *PermissionMonitor) Refresh(ctx context.Context) {
	m.mu.Lock()
	if n := m.nc.Stats().Reconnects; n != m.reconnects {
		clear(m.denied) // the permissions may be different
		m.anyDenied.Store(false)
		m.reconnects, m.granted, m.mayNotAsk, m.known = n, userPermissions{}, false, false
		m.requests = NewCache[userPermissions](time.Second)
	}
	mayNotAsk, requests := m.mayNotAsk, m.requests
	m.mu.Unlock()
	if mayNotAsk {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	granted, err := requests.Get(ctx, UserInfoSubject, m.requestPermissions)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.granted, m.known = granted, true
	for p := range m.denied {
		if p.Subject != AckSubjects && m.granted.allows(p) {
			delete(m.denied, p)
		}
	}
	m.anyDenied.Store(len(m.denied) > 0)
}

// requestPermissions asks for the user's permissions at the connected server. A leaf node forwards the request, and its
// hub answers too, with the permissions of the leaf connection.
func (m *PermissionMonitor) requestPermissions(ctx context.Context) (userPermissions, error) {
	msg, err := m.nc.RequestWithContext(ctx, UserInfoSubject, nil)
	if err != nil {
		return userPermissions{}, err
	}
	if u, ok := m.fromConnectedServer(msg); ok {
		return u, nil
	}
	sub, err := m.nc.SubscribeSync(m.nc.NewInbox())
	if err != nil {
		return userPermissions{}, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := m.nc.PublishRequest(UserInfoSubject, sub.Subject, nil); err != nil {
		return userPermissions{}, err
	}
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return userPermissions{}, err
		}
		if u, ok := m.fromConnectedServer(msg); ok {
			return u, nil
		}
	}
}

// fromConnectedServer reads an answer of the connected server; false for that of another.
func (m *PermissionMonitor) fromConnectedServer(msg *nats.Msg) (userPermissions, bool) {
	var answer struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
		Data struct {
			Permissions userPermissions `json:"permissions"`
		} `json:"data"`
	}
	if json.Unmarshal(msg.Data, &answer) != nil || answer.Server.ID != m.nc.ConnectedServerId() {
		return userPermissions{}, false
	}
	return answer.Data.Permissions, true
}
