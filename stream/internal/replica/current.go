package replica

import (
	"fmt"
	"time"

	"github.com/embedd/embedd/stream/registry"
)

// A replica that cannot reach the model store must not continue an epoch that is over. So one that has not been able to
// confirm for ModelSyncTimeout which model is live pulls no more inputs and releases those that it has.

// confirmInterval is the longest time between confirmations of the live model: the store is read four times in it. 0
// is the registry's default. On a leaf node it is at most hubSilence.
func (r *Replica) confirmInterval() time.Duration {
	within := max(r.ModelSyncTimeout, 0)
	if r.ModelsFromHub() {
		within = min(within, hubSilence)
	}
	return within
}

// Outdated says why this replica must not answer, "" when it may.
func (r *Replica) Outdated() string {
	if r.Models == nil || r.Leases == nil || r.ModelSyncTimeout < 0 {
		return ""
	}
	reached := r.Models.ConfirmedAt()
	if time.Since(reached) <= r.ModelSyncTimeout {
		return ""
	}
	text := fmt.Sprintf("the model store has not confirmed since %s which model is live (nats.model_sync_timeout is %v): "+
		"no inputs are pulled meanwhile", reached.UTC().Format(time.RFC3339), r.ModelSyncTimeout)
	if trouble := r.Models.Problem(); trouble != "" {
		text += "; " + trouble
	}
	return text
}

// hubSilence is how long a hub may be silent before it is reported as unreachable. Four requests are sent in it.
const hubSilence = registry.DefaultMaxStaleness
