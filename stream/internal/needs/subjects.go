package needs

import (
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/spec"
)

// service is the micro service of a pipeline, and what its clients do: the verbs that publish, read and ask.
func service(a *api, p *spec.Pipeline) Need {
	subjects := []string{p.Subject, p.Output, p.Dead}
	inputs := []string{p.Subject}
	if p.Labels != "" {
		subjects, inputs = append(subjects, p.Labels), append(inputs, p.Labels)
	}
	name := "$SRV.*." + ServiceName(p.Name)
	n := Need{Kind: Subject, Purpose: "service", Pipeline: p.Name, Name: ServiceName(p.Name),
		Why: "Answers requests about the pipeline.",
		Permissions: []Permission{
			{Run, true, []string{ServiceSubject(p.Name, ">"), "$SRV.*", name, name + ".*"}},
			{Run, false, []string{natsx.UserInfoSubject}},
			{Status, false, []string{"$SRV.PING", ServiceSubject(p.Name, "status")}},
			{Schema, false, []string{"$SRV.PING", ServiceSubject(p.Name, "status")}},
			{Doctor, false, []string{a.request("INFO")}},
			{Publish, false, append(inputs, a.request("STREAM", "NAMES"))},
			{Tail, true, subjects},
		}}
	if p.Stream == "" {
		return n
	}
	dead := a.streamOf(p.Dead)
	tail := []string{a.request("STREAM", "NAMES")}
	for _, subject := range subjects {
		tail = append(tail, a.read(a.streamOf(subject), subject)...)
	}
	letters := append(a.read(dead, p.Dead), a.request("STREAM", "NAMES"), a.request("STREAM", "MSG", "DELETE", dead))
	n.Permissions = append(n.Permissions, Permission{Tail, false, tail}, Permission{Letters, false, append(letters,
		inputs...)})
	return n
}

// coreSubjects are the subjects of a pipeline on core NATS.
func coreSubjects(p *spec.Pipeline) Need {
	inputs := []string{p.Subject}
	if p.Labels != "" {
		inputs = append(inputs, p.Labels)
	}
	return Need{Kind: Subject, Purpose: "subjects", Pipeline: p.Name, Subject: p.Subject,
		Why:         "Carry inputs, outputs and dead letters, at most once.",
		Permissions: []Permission{{Run, true, inputs}, {Run, false, []string{p.Output, p.Dead}}}}
}

// streams are the streams of a pipeline's subjects: that of the input has the configured name, the others are found by
// their subjects.
func streams(a *api, p *spec.Pipeline) []Need {
	run := func(subjects ...string) []Permission { return []Permission{{Verb: Run, Subjects: subjects}} }
	all := []Need{{Kind: Stream, Purpose: "input", Pipeline: p.Name, Name: p.Stream, Subject: p.Subject,
		Partitions: p.Partitions, Creator: BySetup, Why: "Keeps inputs until they are answered.",
		Permissions: run(a.request("STREAM", "NAMES"), a.request("STREAM", "INFO", p.Stream), // how old the oldest input is:
			a.request("STREAM", "MSG", "GET", p.Stream), a.request("DIRECT", "GET", p.Stream))}}
	if p.Labels != "" {
		all = append(all, Need{Kind: Stream, Purpose: "labels", Pipeline: p.Name, Subject: p.Labels, Creator: BySetup,
			Why: "Keeps labels that are published apart from their rows."})
	}
	for _, o := range []struct{ purpose, subject, why string }{
		{"output", p.Output, "Confirms outputs, and has them for the lookup of duplicates."},
		{"dead letters", p.Dead, "Confirms dead letters, and keeps them for 'embedd dlq'."},
	} {
		all = append(all, Need{Kind: Stream, Purpose: o.purpose, Pipeline: p.Name, Subject: o.subject, Creator: BySetup,
			Why: o.why, Duplicates: 3 * p.AckWait, Permissions: run(append(a.read(a.streamOf(o.subject), o.subject),
				o.subject)...)})
	}
	return all
}

// consumers are the consumers that the replicas of a pipeline have together.
func consumers(a *api, p *spec.Pipeline) (all []Need) {
	add := func(n Need, subjects ...string) {
		n.Kind, n.Pipeline, n.Creator = Consumer, p.Name, ByRun
		n.Permissions = []Permission{{Verb: Run, Subjects: subjects}}
		all = append(all, n)
	}
	for _, q := range Partitions(p) {
		name := q.ConsumerName(ConsumerName(p.Name, ""))
		allowed := name
		if p.ModelsFromHub() {
			allowed = "*" // the domain is in the name, and only the server knows it
		}
		subjects := []string{a.request("CONSUMER", "CREATE", p.Stream, allowed, q.Filter(p.Subject)),
			a.request("CONSUMER", "INFO", p.Stream, allowed), a.request("CONSUMER", "MSG", "NEXT", p.Stream, allowed),
			"$JS.ACK." + p.Stream + "." + allowed + ".>"}
		if p.Partitions > 0 { // a partition's consumer is recreated where its last holder left it
			subjects = append(subjects, a.request("CONSUMER", "DELETE", p.Stream, allowed),
				a.request("CONSUMER", "NAMES", p.Stream))
		}
		if p.ModelsFromHub() {
			subjects = append(subjects, a.request("INFO"))
		}
		add(Need{Purpose: "inputs", Name: name, Stream: p.Stream, Subject: q.Filter(p.Subject), Durable: true,
			Why: "Pulls inputs and acknowledges them."}, subjects...)
	}
	if p.Stage.Fixed != nil {
		return all
	}
	read := append(a.read(p.Stream, p.Subject), a.request("DIRECT", "GET", p.Stream, ">"))
	if p.Partitions > 0 { // more than one subject is not in that of the request
		read = append(read, a.request("CONSUMER", "CREATE", p.Stream, "*"))
	}
	add(Need{Purpose: "learning", Stream: p.Stream, Subject: p.Subject, Why: "Reads the trainer's rows in " +
		"order."}, read...)
	if p.Standby != spec.StandbyCold && !p.Models.None && p.Models.Directory == "" {
		add(Need{Purpose: "standby", Stream: p.Stream, Subject: p.Subject,
			Why: "Reads the rows for the replica that is next to be the trainer."})
	}
	if p.Labels != "" {
		add(Need{Purpose: "labels", Subject: p.Labels, Why: "Reads late labels in order."},
			a.read(a.streamOf(p.Labels), p.Labels)...)
	}
	return all
}
