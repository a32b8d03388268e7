package replica

import (
	"fmt"
	"strings"
)

// ForeignEntries explains which keys of the pipeline were overwritten in the last minutes by a message that no replica
// wrote; "" if none was. What was overwritten is written again, or was not needed.
func ForeignEntries(r *Replica) string {
	var subjects []string
	if r.State != nil {
		subjects = r.State.Refused(r.Name)
	}
	if r.Leases != nil {
		subjects = append(subjects, r.Leases.Refused(r.Name)...)
	}
	if r.Models != nil {
		subjects = append(subjects, r.Models.Refused()...)
	}
	if len(subjects) == 0 {
		return ""
	}
	return fmt.Sprintf("a message that no replica wrote was stored under %s and is not used: any user who may send a "+
		"request can have the answer stored there; find it by the message ('nats stream get') and give such users a "+
		"separate account, see SECURITY.md", strings.Join(subjects, ", "))
}
