package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// checkPermissions compares the user's permissions with those that a daemon needs, unless the user is a viewer.
func (d *diagnosis) checkPermissions(p *spec.Pipeline) {
	if !d.permissions.IsKnown() {
		d.add(Finding{Check: "permissions", Level: LevelNote,
			Text: "the user may not ask for its permissions: one that is missing shows when it is needed",
			Fix:  "allow it to publish on " + natsx.UserInfoSubject})
		return
	}
	// Roles have different prefixes of reply subjects. If this connection has that of a viewer, the part before the
	// role is what the daemon's prefix begins with.
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
