package stream

import (
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/lease"
	"github.com/embedd/embedd/stream/registry"
	"github.com/embedd/embedd/stream/summaries"
)

// Rights are the least that a user needs: subjects that it may publish to and subscribe to.
type Rights struct {
	Verb      string   `json:"verb"`
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	// Answers is how many may be published to the subject that one request names, AnswerWait how long after it. A request
	// to all services is answered by every pipeline.
	Answers    int           `json:"allow_responses"`
	AnswerWait time.Duration `json:"-"`
}

// Account is how the rights name what is the account's: the begin of JetStream's requests and that of its answers.
// Empty fields are the usual ones.
type Account struct{ APIPrefix, InboxPrefix string }

// RightsOf lists the least rights for the verbs run, publish, tail, setup, status, dlq, model and doctor over pipelines,
// whose streams the plans of Setup name. For run the streams and the model store have to be there: it may not make them.
// The rights of doctor are those of run and a few more, since it looks whether its own user could run the pipelines.
func RightsOf(pipelines []Pipeline, plans []Plan, a Account) []Rights {
	if a.APIPrefix == "" {
		a.APIPrefix = jetstream.DefaultAPIPrefix
	}
	if a.InboxPrefix == "" {
		a.InboxPrefix = strings.TrimSuffix(nats.InboxPrefix, ".")
	}
	g := &granter{api: strings.TrimSuffix(a.APIPrefix, ".") + ".", inbox: a.InboxPrefix + ".>", plans: plans}
	return []Rights{g.run(pipelines), g.publish(pipelines), g.tail(pipelines), g.setup(), g.status(pipelines),
		g.letters(pipelines), g.models(pipelines), g.doctor(pipelines)}
}

type granter struct {
	api, inbox string
	plans      []Plan
}

// begin is what every verb needs.
func (g *granter) begin(verb string) Rights {
	return Rights{Verb: verb, Publish: []string{}, Subscribe: []string{g.inbox}}
}

// sorted also grants what a domain's requests become: a server of the domain itself maps them before it looks at
// rights, and one beyond it sees them as they are.
func (g *granter) sorted(r Rights) Rights {
	if strings.HasPrefix(g.api, "$JS.") && g.api != jetstream.DefaultAPIPrefix {
		for _, subject := range r.Publish {
			if rest, ok := strings.CutPrefix(subject, g.api); ok && strings.HasPrefix(rest, "$") {
				r.Publish = append(r.Publish, rest)
			} else if ok {
				r.Publish = append(r.Publish, jetstream.DefaultAPIPrefix+rest)
			}
		}
	}
	for _, list := range []*[]string{&r.Publish, &r.Subscribe} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return r
}

// streamOf is the stream that takes a subject.
func (g *granter) streamOf(subject string) string {
	for _, p := range g.plans {
		if !p.Bucket && wildcard.CoveredBy(subject, p.Subjects) {
			return p.Name
		}
	}
	return streamName(subject)
}

// request is the right to ask JetStream something.
func (g *granter) request(tokens ...string) string { return g.api + strings.Join(tokens, ".") }

// reads are the rights of a reader of its own, whose consumer has a name drawn at random, of one subject. They allow to
// delete any consumer of the stream, since a right cannot say whose a name is.
func (g *granter) reads(stream, subject string) []string {
	return []string{g.request("STREAM", "INFO", stream), g.request("CONSUMER", "CREATE", stream, "*", subject),
		g.request("CONSUMER", "MSG", "NEXT", stream, "*"), g.request("CONSUMER", "DELETE", stream, "*")}
}

func (g *granter) run(pipelines []Pipeline) Rights {
	r := g.begin("run")
	// A server counts each further delivery of the same request to the connection too.
	r.Answers, r.AnswerWait = 2*len(pipelines), 2*requestWait
	grant := func(rights ...string) { r.Publish = append(r.Publish, rights...) }
	kept := 0 // pipelines with models in the server
	for _, p := range pipelines {
		r.Subscribe = append(r.Subscribe, ServiceSubject(p.Name, ">"), "$SRV.*", "$SRV.*."+ServiceName(p.Name),
			"$SRV.*."+ServiceName(p.Name)+".*")
		grant(natsx.UserInfoSubject)
		if p.LearnsFromEdges() {
			grant(g.gathers(p.Name)...)
			kept++
			continue
		}
		grant(p.Output, p.Dead)
		if p.Stream == "" {
			r.Subscribe = append(r.Subscribe, p.Subject)
			if p.Labels != "" {
				r.Subscribe = append(r.Subscribe, p.Labels)
			}
			continue
		}
		d := consumerOf(p, needs.Partition{})
		grant(g.request("STREAM", "NAMES"), g.request("STREAM", "INFO", p.Stream),
			g.request("CONSUMER", "CREATE", p.Stream, d, p.Subject), g.request("CONSUMER", "INFO", p.Stream, d),
			g.request("CONSUMER", "MSG", "NEXT", p.Stream, d), "$JS.ACK."+p.Stream+"."+d+".>")
		if p.Partitions > 0 {
			grant(g.partitions(p)...)
		}
		for _, subject := range []string{p.Output, p.Dead} { // what was answered before is looked up in them
			grant(g.reads(g.streamOf(subject), subject)...)
		}
		grant(g.request("STREAM", "MSG", "GET", p.Stream), g.request("DIRECT", "GET", p.Stream)) // how old what waits is
		if p.Stage.Fixed != nil {
			continue
		}
		grant(g.reads(p.Stream, p.Subject)...)
		if p.Partitions > 0 { // more than one subject is not in that of the request
			grant(g.request("CONSUMER", "CREATE", p.Stream, "*"))
		}
		grant(g.request("STREAM", "MSG", "GET", p.Stream), g.request("DIRECT", "GET", p.Stream),
			g.request("DIRECT", "GET", p.Stream, ">"))
		if p.Labels != "" {
			grant(g.reads(g.streamOf(p.Labels), p.Labels)...)
		}
		if p.ModelsFromHub() {
			grant(g.mirror(p.Name, p.Models.Hub)...)
			grant(g.request("INFO"))
			if p.SendsSummaries() {
				grant(g.sends(p.Name)...)
			}
			kept++
		} else if !p.Models.None && p.Models.Directory == "" {
			grant(g.store(p.Name)...)
			grant(g.lease(p.Name)...)
			grant(needs.StagedSubject(p.Name))
			if p.Stage.Training.Block > 0 {
				grant(g.summaries(p.Name)...)
			}
			kept++
		}
	}
	if kept > 1 { // one watch for all, whose keys are not in its subject
		grant(g.request("CONSUMER", "CREATE", "KV_"+registry.Bucket, "*"))
	}
	return g.sorted(r)
}

// consumerOf stands for a pipeline's consumer. At a leaf node its name has the domain in it, which the server says.
func consumerOf(p Pipeline, q needs.Partition) string {
	if p.ModelsFromHub() {
		return "*"
	}
	return q.ConsumerName(needs.ConsumerName(p.Name, ""))
}

// partitions are the rights to hold partitions while no other replica does, and to make their consumers anew.
func (g *granter) partitions(p Pipeline) (rights []string) {
	for _, q := range needs.Partitions(&p) {
		d := consumerOf(p, q)
		rights = append(rights, g.request("CONSUMER", "CREATE", p.Stream, d, q.Filter(p.Subject)),
			g.request("CONSUMER", "INFO", p.Stream, d), g.request("CONSUMER", "DELETE", p.Stream, d),
			g.request("CONSUMER", "MSG", "NEXT", p.Stream, d), "$JS.ACK."+p.Stream+"."+d+".>")
	}
	rights = append(rights, g.request("CONSUMER", "NAMES", p.Stream))
	for _, key := range []string{".partition.*", ".partition.*.at", ".member.*"} {
		key = "$KV." + lease.Name + "." + p.Name + key
		rights = append(rights, g.put(key), g.request("CONSUMER", "CREATE", lease.Stream, "*", key))
	}
	return append(rights, g.leases()...)
}

// put is where a key of a bucket is written.
func (g *granter) put(key string) string {
	if g.api != jetstream.DefaultAPIPrefix {
		return g.api + key // the client's way into a domain
	}
	return key
}

// leases are the rights to read the leases, and to hear of them.
func (g *granter) leases() []string {
	// One watch for all keys does not have them in its subject.
	return []string{g.request("STREAM", "INFO", lease.Stream), g.request("STREAM", "MSG", "GET", lease.Stream),
		g.request("CONSUMER", "CREATE", lease.Stream, "*"), g.request("CONSUMER", "DELETE", lease.Stream, "*"),
		"$JS.FC." + lease.Stream + ".>"}
}

// The streams of the model store.
const objects, pointers = "OBJ_" + registry.Bucket, "KV_" + registry.Bucket

// pointer is the subject of the pointer to the models of a pipeline, and the one on which it is written.
func (g *granter) pointer(pipeline string) (key, put string) {
	key = "$KV." + registry.Bucket + "." + pipeline
	return key, g.put(key)
}

// readsModels are the rights to list what the model store has, and to read models.
func (g *granter) readsModels() []string {
	return []string{g.request("STREAM", "INFO", pointers), g.request("STREAM", "INFO", objects),
		g.request("CONSUMER", "CREATE", pointers, "*", "$KV."+registry.Bucket+".>"), g.request("CONSUMER", "DELETE", pointers, "*"),
		"$JS.FC." + pointers + ".>", g.request("DIRECT", "GET", objects), g.request("DIRECT", "GET", objects, ">")}
}

// lease are the rights to learn while no other replica does.
func (g *granter) lease(pipeline string) []string {
	key := "$KV." + lease.Name + "." + pipeline
	second := "$KV." + lease.Name + "." + needs.StandbyKey(pipeline)
	return append(g.leases(), g.put(key), g.put(second), g.request("CONSUMER", "CREATE", lease.Stream, "*", key))
}

// summaries are the rights to share what is learned from. Those to remove old ones are of the whole bucket.
func (g *granter) summaries(pipeline string) []string {
	keys := "$KV." + summaries.Name + "." + pipeline + ".>"
	put := keys
	if g.api != jetstream.DefaultAPIPrefix {
		put = g.api + keys
	}
	return []string{put, g.request("STREAM", "INFO", summaries.Stream), g.request("STREAM", "PURGE", summaries.Stream),
		g.request("DIRECT", "GET", summaries.Stream, keys)}
}

// sends are the rights to sum up at an edge, and to send that to the hub.
func (g *granter) sends(pipeline string) []string {
	rights := append(g.summaries(pipeline), g.request("STREAM", "INFO", summaries.EdgeStream),
		g.request("STREAM", "MSG", "GET", summaries.EdgeStream))
	for _, subject := range summaries.EdgeSubjects(pipeline) {
		rights = append(rights, g.put(subject))
	}
	return rights
}

// gathers are the rights to learn from the summaries of edges.
func (g *granter) gathers(pipeline string) []string {
	return slices.Concat(g.store(pipeline), g.lease(pipeline), []string{needs.StagedSubject(pipeline)}, g.summaries(pipeline),
		[]string{g.request("STREAM", "NAMES"), g.request("STREAM", "INFO", summaries.HubStream),
			g.request("STREAM", "MSG", "GET", summaries.HubStream)})
}

// store are the rights to keep the models of a pipeline.
func (g *granter) store(pipeline string) []string {
	_, put := g.pointer(pipeline)
	marks, chunks := "$O."+registry.Bucket+".M.", "$O."+registry.Bucket+".C."
	return append(g.follows(pipeline), put, marks+"*", chunks+"*", g.request("STREAM", "PURGE", objects))
}

// mirror are the rights to have the models of a hub, and to choose among them.
func (g *granter) mirror(pipeline, hub string) []string {
	there := &granter{api: "$JS." + hub + ".API."}
	_, put := there.pointer(pipeline)
	return append(slices.Concat(g.follows(pipeline), there.follows(pipeline)), put, g.request("STREAM", "MSG", "GET", objects),
		g.request("STREAM", "PURGE", objects))
}

// follows are the rights to have the models that others store of a pipeline.
func (g *granter) follows(pipeline string) []string {
	key, _ := g.pointer(pipeline)
	rights := []string{g.request("STREAM", "INFO", pointers), g.request("STREAM", "MSG", "GET", pointers),
		g.request("STREAM", "INFO", objects), g.request("DIRECT", "GET", objects), g.request("DIRECT", "GET", objects, ">")}
	for _, one := range [][2]string{{pointers, key}, {objects, "$O." + registry.Bucket + ".M.>"}} { // watched
		rights = append(rights, g.request("CONSUMER", "CREATE", one[0], "*", one[1]),
			g.request("CONSUMER", "DELETE", one[0], "*"), "$JS.FC."+one[0]+".>")
	}
	return rights
}

func (g *granter) publish(pipelines []Pipeline) Rights {
	r := g.begin("publish")
	for _, p := range pipelines {
		r.Publish = append(r.Publish, p.Subject)
		if p.Labels != "" {
			r.Publish = append(r.Publish, p.Labels)
		}
	}
	r.Publish = append(r.Publish, g.request("STREAM", "NAMES"))
	return g.sorted(r)
}

func (g *granter) tail(pipelines []Pipeline) Rights {
	r := g.begin("tail")
	for _, p := range pipelines {
		subjects := []string{p.Subject, p.Output, p.Dead}
		if p.Labels != "" {
			subjects = append(subjects, p.Labels)
		}
		r.Subscribe = append(r.Subscribe, subjects...)
		if p.Stream == "" {
			continue
		}
		for _, s := range subjects {
			r.Publish = append(r.Publish, g.reads(g.streamOf(s), s)...)
		}
		r.Publish = append(r.Publish, g.request("STREAM", "NAMES"))
	}
	return g.sorted(r)
}

// status finds running daemons and asks them.
func (g *granter) status(pipelines []Pipeline) Rights {
	r := g.begin("status")
	r.Publish = append(r.Publish, "$SRV.PING")
	for _, p := range pipelines {
		r.Publish = append(r.Publish, ServiceSubject(p.Name, "status"))
	}
	return g.sorted(r)
}

// letters read dead letters, publish their messages again where those came from, and delete them.
func (g *granter) letters(pipelines []Pipeline) Rights {
	r := g.begin("dlq")
	for _, p := range pipelines {
		if p.Stream == "" {
			continue
		}
		dead := g.streamOf(p.Dead)
		r.Publish = append(r.Publish, g.request("STREAM", "NAMES"), g.request("STREAM", "MSG", "DELETE", dead), p.Subject)
		r.Publish = append(r.Publish, g.reads(dead, p.Dead)...)
		if p.Labels != "" {
			r.Publish = append(r.Publish, p.Labels)
		}
	}
	return g.sorted(r)
}

// models read the store, and choose among its versions.
func (g *granter) models(pipelines []Pipeline) Rights {
	r := g.begin("model")
	for _, p := range pipelines {
		if p.Stream == "" || p.Stage.Fixed != nil || p.Models.None || p.Models.Directory != "" {
			continue
		}
		_, put := g.pointer(p.Name)
		r.Publish = append(append(r.Publish, g.readsModels()...), put, g.request("STREAM", "MSG", "GET", pointers))
	}
	return g.sorted(r)
}

func (g *granter) doctor(pipelines []Pipeline) Rights {
	r := g.run(pipelines)
	r.Verb = "doctor"
	r.Publish = slices.Concat(r.Publish, g.status(pipelines).Publish, []string{g.request("INFO")})
	return g.sorted(r)
}

func (g *granter) setup() Rights {
	r := g.begin("setup")
	for _, p := range g.plans {
		for _, name := range p.names() {
			r.Publish = append(r.Publish, g.request("STREAM", "INFO", name), g.request("STREAM", "CREATE", name),
				g.request("STREAM", "UPDATE", name))
		}
		if !p.Bucket {
			r.Publish = append(r.Publish, g.request("INFO"), g.request("CONSUMER", "LIST", p.Name))
		}
		r.Publish = append(r.Publish, g.request("STREAM", "NAMES"))
		if p.Bucket {
			r.Publish = append(r.Publish, g.request("INFO")) // the client asks which version the server is of
		}
	}
	return g.sorted(r)
}
