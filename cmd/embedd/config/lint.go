package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/model/fit"
)

// lint checks rules that concern more than one key.
func (d *document) lint(c *Config) {
	d.lintNATS(c.NATS)
	d.lintHTTP(c.HTTP)
	for i := range c.Pipelines {
		p := &c.Pipelines[i]
		d.lintModel(p)
		d.lintLimits(p)
		d.lintSchema(p)
		d.lintReserved(p)
		d.lintOutput(p, c.Pipelines[:i])
		d.lintLabels(p, c.Pipelines)
		d.lintPartitions(p, c.Pipelines)
		if p.Input.Stream == "" {
			d.note(actual(each+"input", p.Name),
				"no stream: core NATS, at most once; rows published while embedd is down are lost")
			d.lintUnstoredSchema(p)
		}
	}
	d.lintLoops(c.Pipelines)
	d.lintEdges(c)
}

// lintEdges checks a hub that trains on summaries, and its edges. It ignores the role, which `run --role` can override.
func (d *document) lintEdges(c *Config) {
	if len(c.NATS.Edges) == 0 {
		return
	}
	sums := slices.ContainsFunc(c.Pipelines, func(p Pipeline) bool { return p.Training.Block > 0 && p.Model.File == "" })
	for i, edge := range c.NATS.Edges {
		switch {
		case slices.Contains(c.NATS.Edges[:i], edge):
			d.problem("nats.edges", "%s is listed twice; keep one", edge)
		case edge == c.NATS.Hub:
			d.problem("nats.edges", "%s is the hub (nats.hub); name the domains of its leaf nodes", edge)
		}
	}
	for _, p := range c.Pipelines {
		d.noteIf(p.Training.Block > 0 && p.Model.File == "" && c.NATS.EdgeBytes < p.Training.Window.Bytes,
			"nats.edge_bytes", "less than training.window.bytes of pipeline %s (%s), the maximum size of a summary: a "+
				"summary larger than half of edge_bytes is not sent, and the status says so", p.Name,
			sizeText(float64(p.Training.Window.Bytes)))
	}
	d.problemIf(!sums, "nats.edges", "no pipeline trains on summaries: set training.block, here and at the hub, or "+
		"delete this line")
}

func (d *document) lintNATS(n NATS) {
	d.problemIf(n.URL != "" && n.Context != "", "nats.context", "url and context exclude each other: the context has "+
		"its own URL; delete one")
	d.problemIf(n.Hub != "" && n.Hub == n.Domain, "nats.hub", "hub and domain are the same JetStream domain, and "+
		"models are not mirrored within a domain: name another, or delete this line")
	d.lintLogins(n)
	if s := n.Streams; s.MaxAge > 0 && s.Duplicates > s.MaxAge {
		d.problem("nats.streams.duplicates", "it is more than max_age (%v): the server does not recognise duplicates of "+
			"deleted messages; lower it", s.MaxAge)
	}
	d.noteIf(n.Streams.Duplicates < 3*n.AckWait, "nats.streams.duplicates", "less than three times nats.ack_wait (%v): "+
		"a redelivery may come after it, and is then searched in the newest outputs", n.AckWait)
	d.problemIf((n.TLS.Cert == "") != (n.TLS.Key == ""), "nats.tls", "cert and key belong together: set both or none")
	if !d.files {
		return
	}
	if n.TLS.Cert != "" && n.TLS.Key != "" {
		if err := holdsPair(n.TLS.Cert, n.TLS.Key); err != nil {
			d.problem("nats.tls.key", "it does not match nats.tls.cert: %v", err)
		}
	}
	if n.Context != "" {
		c, err := ReadContext(n.Context)
		if err == nil {
			n.Login = c.Login
			err = c.check()
		}
		if err != nil {
			d.problem("nats.context", "%v", err)
			return
		}
	}
	// Expired credentials are a note: the file may be replaced before the next connect.
	if id, err := n.Login.Read(); err == nil {
		if at := id.Expires(); !at.IsZero() && at.Before(time.Now()) {
			d.note("nats", "the credentials expired at %s: create new ones", at.UTC().Format(time.RFC3339))
		}
	}
}

// lintLogins refuses more than one login for a connection.
func (d *document) lintLogins(n NATS) {
	given := d.lintLogin("nats", n.Login)
	for _, key := range given {
		d.problemIf(n.Context != "", "nats."+key, "%s and context exclude each other: the context has its own "+
			"credentials; delete one", key)
	}
	d.problemIf(n.Context != "" && len(n.Users) > 0, users, "users and context exclude each other: the context has its "+
		"own credentials; delete one")
	login, err := LoginOf(n.URL)
	switch {
	case err != nil:
		d.problem("nats.url", "%v", err)
	case login != (Login{}) && len(given) > 0:
		d.problem("nats."+given[0], "nats.url contains a user or token too: a connection has one login; delete one")
	}
	for role, login := range n.Users {
		at := join(users, role)
		d.lintLogin(at, login)
		d.problemIf(login == (Login{}), at, "no login: set one of %s", strings.Join(loginKeys, ", "))
	}
}

// lintLogin refuses a login with more or less than a connection can present, and returns the keys that it has.
func (d *document) lintLogin(at string, l Login) (given []string) {
	for _, key := range []struct{ name, value string }{{"user", l.User}, {"token", l.Token},
		{"token_file", l.TokenFile}, {"creds", l.Creds}, {"nkey", l.NKey}} {
		if key.value != "" {
			given = append(given, key.name)
		}
	}
	for _, key := range given {
		d.problemIf(key != given[0], join(at, key), "%s and %s exclude each other: a connection has one login; delete one",
			given[0], key)
	}
	switch {
	case l.Password != "" && l.PasswordFile != "":
		d.problem(join(at, "password_file"), "password and password_file exclude each other; delete one")
	case l.User == "" && (l.Password != "" || l.PasswordFile != ""):
		d.problem(join(at, "user"), "a password needs a user: set %s.user, or %s.token instead of the password", at, at)
	case l.User != "" && l.Password == "" && l.PasswordFile == "":
		d.problem(join(at, "user"), "a user needs %s.password or %s.password_file; for a token use %s.token", at, at, at)
	}
	d.problemIf(l.JWT != "" && l.NKey == "", join(at, "jwt"), "a JWT needs its seed: set %s.nkey to its file, or "+
		"%s.creds to a file with both", at, at)
	return given
}

func (d *document) lintHTTP(h HTTP) {
	if (h.Cert == "") != (h.Key == "") {
		d.problem("http.tls", "cert and key belong together: set both or none")
	} else if h.Cert != "" && d.files {
		if err := holdsPair(h.Cert, h.Key); err != nil {
			d.problem("http.tls.key", "it does not match http.tls.cert: %v", err)
		}
	}
	if h.Loopback() || h.AllowInsecure || h.Cert != "" && (h.TokenFile != "" || h.UsersFile != "") {
		return
	}
	d.problem("http.listen", "the address is reachable from other machines, so it needs TLS and a token or users: "+
		"set http.tls.cert, http.tls.key and http.token_file or http.users_file, or listen on 127.0.0.1; "+
		"http.allow_insecure: true is for networks and proxies that restrict access")
}

func (d *document) lintModel(p *Pipeline) {
	if p.Model.File == "" {
		d.lintMethod(p)
		return
	}
	for _, f := range spec {
		path := actual(f.path, p.Name)
		d.problemIf(isLearning(f) && d.has(path), path, "has no effect with a fixed model: delete it, or delete model.file")
	}
}

// lintMethod checks the method and each of its parameters.
func (d *document) lintMethod(p *Pipeline) {
	at := "pipelines." + p.Name + "."
	method, err := fit.Lookup(p.Model.Method)
	if err != nil {
		d.problem(at+"model.method", "%v", err)
		return
	}
	d.noteIf(p.Model.Blend > 1 && method.Name != fit.Auto, at+"model.blend", "has no effect without model.method auto: "+
		"the method is %s", method.Name)
	fit, right := p.Model.Fit(), true
	for _, name := range slices.Sorted(maps.Keys(p.Model.Params)) {
		path := at + "model.params." + name
		if name == "ridge" && d.has(at+"model.ridge") {
			path = at + "model.ridge"
		}
		fit.Params = map[string]string{name: p.Model.Params[name]}
		if err := fit.Validate(); err != nil {
			d.problem(path, "%v", err)
			right = false
		}
	}
	d.lintFeatures(p, method)
	fit.Params = p.Model.Params
	if err := fit.Validate(); right && err != nil {
		d.problem(at+"model", "%v", err)
	}
	d.problemIf(method.Supervised && p.Schema.Label == "", at+"schema.label", "method %s needs labels: set the label "+
		"column, or use method pca", method.Name)
}

// lintFeatures checks model.features.
func (d *document) lintFeatures(p *Pipeline, method fit.Method) {
	at := "pipelines." + p.Name + ".model."
	switch m := p.Model; {
	case m.Features == "linear":
		d.noteIf(m.Landmarks != 300, at+"landmarks", "has no effect without model.features nystroem")
		d.noteIf(m.Width != 1, at+"width", "has no effect without model.features nystroem")
	case p.Schema.Label == "":
		d.problem(at+"features", "nystroem needs labels: name the label column in schema.label, or use linear")
	case method.Map != "linear":
		d.problem(at+"features", "the map of %s is %s already: nystroem is for linear methods, such as lda, pairacc or tnca",
			method.Name, method.Map)
	}
}

func (d *document) lintLimits(p *Pipeline) {
	at := "pipelines." + p.Name + "."
	if l := p.Limits; l.InFlight < l.Message {
		d.problem(at+"limits.in_flight", "%s is less than one message (limits.message is %s)",
			sizeText(float64(l.InFlight)), sizeText(float64(l.Message)))
	}
	t := p.Training
	d.noteIf(t.MaxAge == 0 && t.WhenStale != "serve", at+"training.when_stale", "has no effect without "+
		"training.max_age: no model becomes stale")
	d.problemIf(t.Quota.By == "key" && p.Schema.Key == "", at+"training.quota.by", "a quota by key needs the key "+
		"column: set schema.key, or use subject")
	d.noteIf(t.Quota.By == "none" && t.Quota.Share != 0.5, at+"training.quota.share", "has no effect without "+
		"training.quota.by")
	d.lintBlock(p)
	d.noteIf(t.Every.Rows > t.Window.Rows, at+"training.every.rows", "%d is more than window.rows (%d): rows leave the "+
		"window before a fit sees them", t.Every.Rows, t.Window.Rows)
	d.noteIf(t.Window.Age > 0 && t.Every.Period > t.Window.Age, at+"training.every.period", "%v is more than "+
		"window.age (%v): rows leave the window before a fit sees them", t.Every.Period, t.Window.Age)
}

// lintBlock refuses what cannot be combined with training on summaries.
func (d *document) lintBlock(p *Pipeline) {
	if p.Training.Block == 0 || p.Model.File != "" {
		return
	}
	for _, one := range []struct {
		is   bool
		what string
	}{
		{p.Input.Stream == "", "needs input.stream: a block is a range of its messages"},
		{p.Model.Store != "auto", "needs model.store auto: summaries are stored with the models, in JetStream"},
		{p.Input.Labels != "", "excludes input.labels: a block may be summarised before its labels arrive"},
		{p.Training.Quota.By != "none", "excludes training.quota.by: a quota applies to the whole window"},
		{p.Model.Features != "linear", "excludes model.features nystroem: summaries are of the columns"},
		{p.Model.Scale != "standard" && p.Model.Scale != "none", "needs model.scale standard or none: the others need rows"},
		{p.Training.UntilReady == "pca", "excludes training.until_ready pca: the trainer has no rows for it; use hold or " +
			"skip"},
	} {
		d.problemIf(one.is, "pipelines."+p.Name+".training.block", "%s", one.what)
	}
}

// lintUnstoredSchema recommends sizes for a pipeline whose schema is not stored.
func (d *document) lintUnstoredSchema(p *Pipeline) {
	isFixed := len(p.Schema.Features) > 0
	for _, name := range p.Schema.Features {
		isFixed = isFixed && p.Schema.Sizes[name] > 0
	}
	if p.Model.Store != "none" || p.Model.File != "" || isFixed {
		return
	}
	example := "pixels"
	if len(p.Schema.Features) > 0 {
		example = p.Schema.Features[0]
	}
	d.note("pipelines."+p.Name+".schema.features", "without input.stream and model.store each start counts messages to "+
		"find the schema; fix it with a size for each feature, as {column: %s, size: 64}", example)
}

func (d *document) lintSchema(p *Pipeline) {
	at := "pipelines." + p.Name + ".schema."
	s := p.Schema
	for _, column := range [][2]string{{"label", s.Label}, {"key", s.Key}} {
		what, name := column[0], column[1]
		d.problemIf(name != "" && slices.Contains(s.Features, name), at+"features", "column %q is the %s too: remove the "+
			"%s from the list", name, what, what)
	}
	elements := 0
	for i, name := range s.Features {
		d.problemIf(s.Sizes[name] > 0 && slices.Contains(s.Features[:i], name), at+"features", "column %q is given "+
			"twice; keep the one with the size", name)
		elements += s.Sizes[name]
	}
	d.problemIf(elements > p.Schema.Limits.Features, at+"features", "the sizes add up to %d elements, and "+
		"limits.features is %d; raise it", elements, p.Schema.Limits.Features)
	d.problemIf(s.Label != "" && s.Label == s.Key, at+"key", "column %q is the label too: a key identifies a row, a "+
		"label its class", s.Key)
}

// lintReserved refuses the subjects on which pipelines answer requests.
func (d *document) lintReserved(p *Pipeline) {
	for _, s := range []struct{ key, subject string }{{"input.subject", p.Input.Subject}, {"input.labels", p.Input.Labels},
		{"output.subject", p.OutputPattern()}, {"output.dead", p.Output.Dead}} {
		d.problemIf(strings.HasPrefix(s.subject, "embedd."), "pipelines."+p.Name+"."+s.key, "%s: pipelines answer "+
			"requests on subjects that begin with embedd.; choose another", s.subject)
	}
}

func (d *document) lintOutput(p *Pipeline, earlier []Pipeline) {
	at := "pipelines." + p.Name + ".output."
	d.problemIf(len(p.Output.Keep) > 1 && (slices.Contains(p.Output.Keep, "all") || slices.Contains(p.Output.Keep,
		"none")), at+"keep", "all and none exclude other entries")
	if _, err := wildcard.ParseMapping(p.Input.Subject, p.Output.Subject); err != nil {
		d.problem(at+"subject", "%v", err)
	}
	d.problemIf(p.Output.Format != "arrow" && p.Output.Compression != "none", at+"compression", "it is of Arrow "+
		"buffers, and output.format is %s: delete one", p.Output.Format)
	d.problemIf(wildcard.Overlap(p.OutputPattern(), p.Output.Dead), at+"dead", "the same subject as output.subject: "+
		"readers could not distinguish outputs and dead letters")
	for _, q := range earlier {
		d.problemIf(wildcard.Overlap(p.OutputPattern(), q.OutputPattern()), at+"subject", "pipeline %s writes to %s too: "+
			"their coordinates differ, so give each a separate subject", q.Name, p.Output.Subject)
		if wildcard.Overlap(p.OutputPattern(), q.Output.Dead) || wildcard.Overlap(p.Output.Dead, q.OutputPattern()) {
			d.problem(at+"subject", "pipelines %s and %s mix outputs and dead letters on one subject", q.Name, p.Name)
		}
	}
}

// lintLabels checks late labels.
func (d *document) lintLabels(p *Pipeline, all []Pipeline) {
	at := "pipelines." + p.Name + "."
	labels := p.Input.Labels
	if labels == "" {
		return
	}
	switch {
	case p.Model.File != "":
		d.problem(at+"input.labels", "has no effect with a fixed model: delete it, or delete model.file")
	case p.Schema.Key == "":
		d.problem(at+"input.labels", "labels are joined with rows by key: set schema.key to the key column, which rows "+
			"and labels have")
	case p.Schema.Label == "":
		d.problem(at+"input.labels", "set schema.label to the label column")
	case wildcard.Overlap(p.Input.Subject, labels):
		d.problem(at+"input.labels", "input.subject %s matches it too: labels would be read as rows; give them a subject "+
			"outside of it", p.Input.Subject)
	}
	for _, q := range all {
		for _, s := range []struct{ key, subject string }{{"output.subject", q.OutputPattern()},
			{"output.dead", q.Output.Dead}} {
			d.problemIf(wildcard.Overlap(labels, s.subject), at+"input.labels", "pipeline %s writes to %s (%s), which "+
				"would be read as labels; give labels a separate subject", q.Name, s.subject, s.key)
		}
	}
}

// lintPartitions checks a pipeline with partitions, whose stream has other subjects.
func (d *document) lintPartitions(p *Pipeline, all []Pipeline) {
	at := "pipelines." + p.Name + ".input.partitions"
	if p.Input.Partitions == 0 {
		return
	}
	d.problemIf(p.Input.Stream == "", at, "partitions need a stream: set input.stream, or delete this line")
	if _, err := wildcard.Keys(p.Input.Subject); err != nil {
		d.problem(at, "%v", err)
	}
	for _, q := range all {
		if q.Name == p.Name || q.Input.Stream != p.Input.Stream || q.Input.Partitions == p.Input.Partitions &&
			q.Input.Subject == p.Input.Subject {
			continue
		}
		switch tokens := strings.Split(q.Input.Subject, "."); {
		case q.Input.Partitions > 0:
			d.problem(at, "pipeline %s has other partitions of stream %s, and a stream has partitions of one subject: use "+
				"separate streams, or the same subject and number", q.Name, p.Input.Stream)
		case tokens[len(tokens)-1] != ">" && wildcard.Overlap(q.Input.Subject, p.Input.Subject):
			d.problem(at, "pipeline %s reads %s of the same stream, which is empty there because partitions make subjects "+
				"longer: use the same subject and number of partitions, or separate streams", q.Name, q.Input.Subject)
		}
	}
}

// lintLoops refuses loops from the output of a pipeline back to its input.
func (d *document) lintLoops(ps []Pipeline) {
	feeds := func(p, q *Pipeline) bool {
		return wildcard.Overlap(q.Input.Subject, p.OutputPattern()) || wildcard.Covers(q.Input.Subject, p.Output.Dead)
	}
	reported := map[*Pipeline]bool{} // one problem a loop
	for i := range ps {
		start := &ps[i]
		if reported[start] {
			continue
		}
		reached, via := []*Pipeline{start}, map[*Pipeline]*Pipeline{}
		for k := 0; k < len(reached); k++ {
			p := reached[k]
			if feeds(p, start) {
				d.problem("pipelines."+start.Name+".output.subject", "%s", loopText(start, p, via))
				for q := p; q != nil; q = via[q] {
					reported[q] = true
				}
				break
			}
			for j := range ps {
				if q := &ps[j]; feeds(p, q) && !slices.Contains(reached, q) {
					via[q] = p
					reached = append(reached, q)
				}
			}
		}
	}
}

func loopText(start, last *Pipeline, via map[*Pipeline]*Pipeline) string {
	if last == start {
		subject := start.Output.Subject
		if !wildcard.Overlap(start.Input.Subject, start.OutputPattern()) {
			subject = start.Output.Dead
		}
		return fmt.Sprintf("%s matches input.subject %s: a loop; choose a subject outside of it",
			subject, start.Input.Subject)
	}
	names := []string{start.Name}
	for p := last; p != start; p = via[p] {
		names = slices.Insert(names, 1, p.Name)
	}
	return fmt.Sprintf("the pipelines %s -> %s are a loop: change a subject", strings.Join(names, " -> "), start.Name)
}
