package needs

import (
	"strings"

	"github.com/nats-io/nats.go"
)

// importReplies begins the reply subjects of requests from an account that imports a service.
const importReplies = "_R_."

// IsInbox reports whether the reply subject of a request is one on which a client waits for its reply: an inbox of the
// default prefix or of that of the connection, or of a client of another account. Requests with another reply subject
// are not answered and not done, since the reply would be published with the permissions of the daemon. Answers of the
// server that arrive as requests have none.
func IsInbox(nc *nats.Conn, reply string) bool {
	own := strings.TrimSuffix(nc.Opts.InboxPrefix, "."+string(RoleDaemon))
	isOwn := own != "" && strings.HasPrefix(reply, own+".")
	return isOwn || strings.HasPrefix(reply, strings.TrimSuffix(nats.InboxPrefix, ".")) ||
		strings.HasPrefix(reply, importReplies)
}

// replySubjects are the subjects on which a role that answers requests publishes. inbox is the common prefix of reply
// subjects.
func replySubjects(inbox string) []string {
	return []string{importReplies + ">", nats.InboxPrefix + ">", inbox + ".>"}
}
