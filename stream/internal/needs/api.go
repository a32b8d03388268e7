package needs

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/statestore"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/spec"
	"github.com/embedd/embedd/stream/summaries"
)

// api names what requests to JetStream are published to.
type api struct {
	prefix   string // with a dot at its end
	streamOf func(subject string) string

	// More than one pipeline has its models, or other keys, in the server: one consumer watches the keys of all.
	watchAllModels, watchAllKeys bool
}

func newAPI(c Config) *api {
	a := &api{prefix: jetstream.DefaultAPIPrefix, streamOf: c.StreamOf}
	if c.APIPrefix != "" {
		a.prefix = strings.TrimSuffix(c.APIPrefix, ".") + "."
	}
	if a.streamOf == nil {
		a.streamOf = StreamName
	}
	models, keys := 0, 0
	for i := range c.Pipelines {
		if hasModelBucket(&c.Pipelines[i]) {
			models++
		}
		if c.Pipelines[i].Stream != "" {
			keys++
		}
	}
	a.watchAllModels, a.watchAllKeys = models > 1, keys > 1
	return a
}

func (a *api) request(tokens ...string) string { return a.prefix + strings.Join(tokens, ".") }

// put is the subject on which the key of a bucket is written.
func (a *api) put(key string) string {
	if a.prefix != jetstream.DefaultAPIPrefix {
		return a.prefix + key // the subject on which nats.go writes into a domain
	}
	return key
}

// read is what an ordered consumer of one subject needs. Its name is random, so it may delete any consumer of the
// stream: a permission cannot tell them apart.
func (a *api) read(stream, subject string) []string {
	return []string{a.request("STREAM", "INFO", stream), a.request("CONSUMER", "CREATE", stream, "*", subject),
		a.request("CONSUMER", "MSG", "NEXT", stream, "*"), a.request("CONSUMER", "DELETE", stream, "*")}
}

// watch is what a watch on the keys of a bucket needs; "" = all of them, which are not in the subject of its request.
func (a *api) watch(stream, key string) []string {
	create := a.request("CONSUMER", "CREATE", stream, "*")
	if key != "" {
		create += "." + key
	}
	return []string{a.request("STREAM", "INFO", stream), create, a.request("CONSUMER", "DELETE", stream, "*"),
		"$JS.FC." + stream + ".>"}
}

// mapped adds to subjects what the requests of a domain become: a server of the domain itself maps them before it
// checks permissions, and one outside it does not.
func (a *api) mapped(subjects []string) []string {
	if !strings.HasPrefix(a.prefix, "$JS.") || a.prefix == jetstream.DefaultAPIPrefix {
		return subjects
	}
	for _, subject := range subjects {
		if rest, ok := strings.CutPrefix(subject, a.prefix); ok && strings.HasPrefix(rest, "$") {
			subjects = append(subjects, rest)
		} else if ok {
			subjects = append(subjects, jetstream.DefaultAPIPrefix+rest)
		}
	}
	return subjects
}

// The streams of the model store.
const objects, pointers = "OBJ_" + registry.Bucket, "KV_" + registry.Bucket

func pointerKey(pipeline string) string { return "$KV." + registry.Bucket + "." + pipeline }

// followModels is what reading the models of a pipeline and following its pointer needs.
func (a *api) followModels(pipeline string) []string {
	return append(append(a.watch(pointers, pointerKey(pipeline)), a.watch(objects, "$O."+registry.Bucket+".M.>")...),
		a.request("STREAM", "MSG", "GET", pointers), a.request("DIRECT", "GET", objects),
		a.request("DIRECT", "GET", objects, ">"))
}

func modelPermissions(a *api, p *spec.Pipeline) map[Verb][]string {
	list := append(a.watch(pointers, "$KV."+registry.Bucket+".>"), a.request("STREAM", "INFO", objects),
		a.request("DIRECT", "GET", objects), a.request("DIRECT", "GET", objects, ">"), a.put(pointerKey(p.Name)),
		a.request("STREAM", "MSG", "GET", pointers))
	run := append(a.followModels(p.Name), a.request("STREAM", "PURGE", objects))
	if p.ModelsFromHub() {
		hub := &api{prefix: "$JS." + p.Models.Hub + ".API."}
		run = append(append(run, hub.followModels(p.Name)...), hub.put(pointerKey(p.Name)),
			a.request("STREAM", "MSG", "GET", objects))
	} else {
		run = append(run, a.put(pointerKey(p.Name)), "$O."+registry.Bucket+".M.*", "$O."+registry.Bucket+".C.*",
			StagedSubject(p.Name))
	}
	if a.watchAllModels {
		run = append(run, a.request("CONSUMER", "CREATE", pointers, "*"))
	}
	pin := []string{a.request("STREAM", "INFO", pointers), a.request("STREAM", "INFO", objects),
		a.request("STREAM", "MSG", "GET", pointers)}
	return map[Verb][]string{Run: run, Models: list, Schema: pin}
}

func leasePermissions(a *api, p *spec.Pipeline) map[Verb][]string {
	run := append(a.watch(lease.Stream, ""), a.request("STREAM", "MSG", "GET", lease.Stream))
	key := func(name string) string {
		return "$KV." + lease.BucketName + "." + name
	}
	if hasTrainerLease(p) {
		run = append(run, a.put(key(p.Name)), a.put(key(StandbyKey(p.Name))),
			a.request("CONSUMER", "CREATE", lease.Stream, "*", key(p.Name)))
	}
	if hasPartitionLeases(p) {
		for _, name := range []string{".partition.*", ".partition.*.at", ".member.*"} {
			run = append(run, a.put(key(p.Name+name)), a.request("CONSUMER", "CREATE", lease.Stream, "*", key(p.Name+name)))
		}
	}
	return map[Verb][]string{Run: run}
}

// summaryPermissions include the removal of old summaries of all pipelines: a permission cannot tell them apart.
func summaryPermissions(a *api, p *spec.Pipeline) map[Verb][]string {
	keys := "$KV." + summaries.BucketName + "." + p.Name + ".>"
	return map[Verb][]string{Run: {a.put(keys), a.request("STREAM", "INFO", summaries.Stream),
		a.request("STREAM", "PURGE", summaries.Stream), a.request("DIRECT", "GET", summaries.Stream, keys)}}
}

func edgeStreamPermissions(a *api, p *spec.Pipeline) map[Verb][]string {
	run := []string{a.request("STREAM", "INFO", summaries.EdgeStream),
		a.request("STREAM", "MSG", "GET", summaries.EdgeStream)}
	hub := &api{prefix: "$JS." + p.Models.Hub + ".API."} // which decides on the schema
	run = append(run, hub.request("STREAM", "INFO", statestore.Stream), hub.request("STREAM", "MSG", "GET",
		statestore.Stream))
	for _, subject := range summaries.EdgeSubjects(p.Name) {
		run = append(run, a.put(subject))
	}
	return map[Verb][]string{Run: run}
}

func hubStreamPermissions(a *api, _ *spec.Pipeline) map[Verb][]string {
	return map[Verb][]string{Run: {a.request("STREAM", "NAMES"), a.request("STREAM", "INFO", summaries.HubStream),
		a.request("STREAM", "MSG", "GET", summaries.HubStream)}}
}

// keyPermissions let run read, write and watch the keys of its pipeline in a bucket.
func keyPermissions(bucket string) func(a *api, p *spec.Pipeline) map[Verb][]string {
	return func(a *api, p *spec.Pipeline) map[Verb][]string {
		keys, stream := "$KV."+bucket+"."+p.Name+".>", "KV_"+bucket
		run := append(a.watch(stream, keys), a.put(keys), a.request("STREAM", "MSG", "GET", stream))
		if a.watchAllKeys {
			run = append(run, a.request("CONSUMER", "CREATE", stream, "*"))
		}
		return map[Verb][]string{Run: run}
	}
}

// statePermissions also let the verb schema replace the contract.
func statePermissions(a *api, p *spec.Pipeline) map[Verb][]string {
	permissions := keyPermissions(statestore.Bucket)(a, p)
	permissions[Schema] = []string{a.request("STREAM", "INFO", statestore.Stream),
		a.request("STREAM", "MSG", "GET", statestore.Stream),
		a.put("$KV." + statestore.Bucket + "." + statestore.ContractKey(p.Name)), a.request("STREAM", "INFO", p.Stream)}
	return permissions
}

// stream returns a stream of the server, nil where it has none of that name.
func stream(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	s, err := natsx.FindStream(ctx, js, name)
	if s == nil || err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}
