package replica

import (
	"fmt"
	"strings"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/lease"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/registry"
)

// ForeignEntries explains which keys of the pipeline were overwritten in the last minutes by a message that no replica
// wrote; "" if none was. What was overwritten is written again, or was not needed.
func ForeignEntries(r *Replica) string {
	var keys []string
	add := func(bucket string, refused []natsx.Refusal) {
		for _, one := range refused {
			keys = append(keys, "$KV."+bucket+"."+one.Key)
		}
	}
	if r.State != nil {
		add(statestore.Bucket, r.State.Refused(r.Name))
	}
	if r.Leases != nil {
		add(lease.BucketName, r.Leases.Refused(r.Name))
	}
	if r.Models != nil {
		add(registry.Bucket, r.Models.Refused())
	}
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("a message that no replica wrote was stored under %s and is not used: any user who may send a "+
		"request can have the answer stored there; find it by the message ('nats stream get') and give such users a "+
		"separate account, see SECURITY.md", strings.Join(keys, ", "))
}
