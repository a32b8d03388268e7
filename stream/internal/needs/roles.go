package needs

import (
	"maps"
	"slices"
)

// Role is a kind of user of a server, with the permissions of its verbs and no others.
type Role string

// The roles.
const (
	RoleDaemon   Role = "daemon"   // runs pipelines, and alone reads the identity key
	RoleProducer Role = "producer" // publishes inputs and labels
	RoleReader   Role = "reader"   // reads outputs
	RoleOperator Role = "operator" // what a viewer may, and changes pipelines: chooses models, replays dead letters
	RoleViewer   Role = "viewer"   // reads state, models and dead letters, and changes nothing
	RoleSetup    Role = "setup"    // creates streams and buckets
)

// inspection is the part of the permissions of a viewer that the daemon's user has too, so that doctor and status
// work with it. It is not printed.
const inspection Role = "inspection"

// RoleInfo is a row of the table of roles.
type RoleInfo struct {
	Role     Role
	Verbs    []string // which need this role, or one that includes it
	Aliases  []string // other names by which its permissions are printed: verbs
	includes []Role
	answers  bool // requests
}

// Roles is the table of roles, in the order in which their permissions are printed.
var Roles = []RoleInfo{
	{RoleDaemon, []string{"run"}, []string{"run"}, []Role{inspection}, true},
	{RoleProducer, []string{"publish"}, []string{"publish"}, nil, false},
	{RoleReader, []string{"tail"}, []string{"tail"}, nil, false},
	{RoleOperator, []string{"retrain", "reload", "resume", "dlq replay", "model pin", "model unpin", "model rollback",
		"model reset", "schema reset"}, []string{"dlq", "model", "schema"}, []Role{RoleViewer, inspection}, false},
	{RoleViewer, []string{"status", "doctor", "check", "dlq ls", "dlq show", "model ls", "model show", "model diff",
		"model export", "schema show"}, []string{"status", "doctor"}, []Role{inspection}, false},
	{RoleSetup, []string{"setup"}, []string{"setup"}, []Role{inspection}, false},
}

// RoleOf is the role that a verb needs, such as model pin; "" for a verb that is in no role.
func RoleOf(verb string) Role {
	for _, r := range Roles {
		if slices.Contains(r.Verbs, verb) {
			return r.Role
		}
	}
	return ""
}

// InboxPrefix begins the reply subjects of a role, below a common prefix. Each role has its own, so that the users of
// another role cannot read what is sent to it. Inspection is of a viewer.
func InboxPrefix(common string, r Role) string {
	if r == inspection {
		r = RoleViewer
	}
	return common + "." + string(r)
}

// PermissionsOf lists the subjects that a role must be allowed to publish to and to subscribe to, sorted. inbox is the
// common prefix of reply subjects.
func PermissionsOf(all []Need, r RoleInfo, inbox string) (publish, subscribe []string) {
	publish, subscribe = []string{}, []string{}
	if r.answers {
		publish = replySubjects(inbox)
	}
	roles := append([]Role{r.Role}, r.includes...)
	for _, role := range roles {
		subscribe = append(subscribe, InboxPrefix(inbox, role)+".>")
	}
	for _, n := range all {
		for _, p := range n.Permissions {
			switch {
			case !slices.Contains(roles, p.Role):
			case p.Subscribe:
				subscribe = append(subscribe, p.Subjects...)
			default:
				publish = append(publish, p.Subjects...)
			}
		}
	}
	slices.Sort(publish)
	slices.Sort(subscribe)
	return slices.Compact(publish), slices.Compact(subscribe)
}

// EndpointRoles has the role that may request each endpoint of a pipeline's service.
var EndpointRoles = map[string]Role{
	"status":           inspection,
	"transform":        RoleProducer,
	"retrain":          RoleOperator,
	"reload":           RoleOperator,
	"resume":           RoleOperator,
	"model ls":         RoleViewer,
	"model show":       RoleViewer,
	"model conversion": RoleReader,
	"model pin":        RoleOperator,
	"model unpin":      RoleOperator,
	"model rollback":   RoleOperator,
	"dlq ls":           RoleViewer,
	"dlq replay":       RoleOperator,
	"history":          RoleViewer,
	"points":           RoleViewer,
}

// EndpointStarted is not one of the service: a replica announces on its subject that it starts.
const EndpointStarted = "started"

// endpointPermissions let each role request its endpoints, and find out which daemons run.
func endpointPermissions(pipeline string) []Permission {
	all := []Permission{{inspection, false, []string{"$SRV.PING"}}}
	for _, endpoint := range []string{"retrain", "resume", "history", "points"} { // a daemon asks others for its console
		all = append(all, Permission{RoleDaemon, false, []string{ServiceSubject(pipeline, endpoint)}})
	}
	for _, endpoint := range slices.Sorted(maps.Keys(EndpointRoles)) {
		all = append(all, Permission{EndpointRoles[endpoint], false, []string{ServiceSubject(pipeline, endpoint)}})
	}
	return all
}
