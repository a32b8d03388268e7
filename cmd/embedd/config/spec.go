package config

import (
	"errors"
	"slices"
	"strings"
)

// field is one key of the configuration. Where its value goes decides its type: *string, *[]string, *map[string]string,
// *bool, *int (a count), *int64 (bytes), *uint64, *float64, *time.Duration.
type field struct {
	path     string                           // under "pipelines.*." for what each pipeline has
	to       func(c *Config, p *Pipeline) any // nil for a key that is not available yet
	later    string                           // what to do instead of such a key; only words are accepted
	value    string                           // default, as it would be written; NAME stands for the pipeline's name
	words    []string                         // the only values allowed
	or       string                           // a word that means "not set", as auto
	check    func(string) error               // refines strings
	low      float64                          // range of numbers, bytes, and seconds of durations
	high     float64
	required bool
	content  func(path string) error // the value is the path of a file that must hold this; beside the configuration
	secret   bool                    // the value never stands in a message
	start    string                  // what the starter file sets; empty: it shows the default in a comment
	doc      string                  // ends with a full stop
}

// section is a mapping that holds keys or more sections.
type section struct{ path, doc string }

const each = "pipelines.*."

var sections = []section{
	{"daemon", "What this process does."},
	{"nats", "The server. With neither url nor context, `embedd run` embeds one on 127.0.0.1:4222 that stores in ./embedd-data."},
	{"nats.tls", "Files in PEM form, read again at each connect. Needed only for a private authority or for client certificates."},
	{"nats.streams", "The streams that `embedd setup --apply` makes, and those of the embedded server. One that is there is left as it is."},
	{"http", "The listener of /metrics, /healthz and /readyz. Beyond loopback it wants TLS and a token."},
	{"http.tls", "Files in PEM form, read again when they change."},
	{"limits", "What the process may take."},
	{"pipelines", "Each pipeline has a name of letters, digits, - and _ (64 at most). Its consumer is embedd_NAME."},
	{each + "input", "Where the rows come from: Arrow IPC streams, one a message."},
	{each + "schema", "Which columns are what."},
	{each + "output", "Where the reduced rows go."},
	{each + "model", "What is learned. With file, a fixed model is served and nothing is learned."},
	{each + "model.keep", "The versions that stay in the store, for `embedd model rollback` and `embedd model diff`."},
	{each + "training", "What it is learned from, and when a model goes live."},
	{each + "training.window", "The labelled rows that are kept."},
	{each + "training.quota", "What one source may have of the window."},
	{each + "training.every", "When to fit: after so many new labelled rows or so much time, whichever is first."},
	{each + "training.gate", "The gate between a candidate and the stream."},
	{each + "limits", "What a message and the pipeline may hold."},
}

const (
	second = 1
	day    = 24 * 60 * 60
	year   = 365 * day
	kib    = 1 << 10
	mib    = 1 << 20
	gib    = 1 << 30
)

// spec is the one table. The order is that of the reference page.
var spec = []field{
	{path: "daemon.role", to: func(c *Config, _ *Pipeline) any { return &c.Role }, value: "all",
		words: []string{"all", "transform", "train"},
		doc:   "What this daemon does of its pipelines, where several run them; see scale.md. transform answers with models that others learn, train learns and answers nothing, all does both. Of those that learn one does at a time. `run --role` is over it."},
	{path: "daemon.standby", to: func(c *Config, _ *Pipeline) any { return &c.Standby }, value: "warm",
		words: []string{"warm", "cold"},
		doc:   "Whether one of the daemons that wait to learn reads the stream meanwhile, so that its window is full when its turn comes (warm), or reads the window again first (cold)."},
	{path: "nats.url", to: func(c *Config, _ *Pipeline) any { return &c.NATS.URL }, check: CheckURL, secret: true,
		doc: "Server URL, or several separated by commas. nats://, tls://, ws:// or wss://."},
	{path: "nats.context", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Context }, check: checkContext,
		doc: "Name of a context of the `nats` command line tool, instead of url."},
	{path: "nats.creds", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Login.Creds }, content: holdsCreds,
		doc: "Credentials file: a JWT and its seed. This and every file below it is read again at each connect."},
	{path: "nats.nkey", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Login.NKey }, content: holdsSeed,
		doc: "File of a user's NKey seed."},
	{path: "nats.jwt", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Login.JWT }, content: holdsJWT,
		doc: "File of a user's JWT; its seed is in the file of nats.nkey."},
	{path: "nats.user", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Login.User }, check: checkNotEmpty,
		doc: "User, with password or password_file."},
	{path: "nats.password", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Login.Password }, secret: true,
		doc: "Password. Better from the environment, or in password_file."},
	{path: "nats.password_file", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Login.PasswordFile },
		content: holdsSecret,
		doc:     "File with the password alone."},
	{path: "nats.token", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Login.Token }, secret: true,
		doc: "Token. Better from the environment, or in token_file."},
	{path: "nats.token_file", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Login.TokenFile },
		content: holdsSecret,
		doc:     "File with the token alone."},
	{path: "nats.inbox_prefix", to: func(c *Config, _ *Pipeline) any { return &c.NATS.InboxPrefix },
		check: checkInbox,
		doc:   "Begin of the subjects on which answers come, instead of _INBOX: with one of its own a user can be kept from the answers to others."},
	{path: "nats.domain", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Domain }, check: checkDomain,
		doc: "JetStream domain."},
	{path: "nats.hub", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Hub }, check: checkDomain,
		doc: "JetStream domain of the hub, where this server is a leaf node with a domain of its own: models are learned there and mirrored here, and answers go on while the hub is away. For daemons of role transform."},
	{path: "nats.edges", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Edges }, check: checkDomain,
		doc: "JetStream domains of the edges whose summaries the hub learns from, for pipelines with training.block: at the hub, with role train, all of them; at an edge, beside nats.hub, its own. See scale.md. None: what is learned at a hub comes as rows."},
	{path: "nats.edge_bytes", to: func(c *Config, _ *Pipeline) any { return &c.NATS.EdgeBytes }, value: "1GiB",
		low: 16 * mib, high: 1024 * gib,
		doc: "Most bytes of summaries that are kept for nats.edges, at an edge until the hub has them, at the hub for a restart. Over them the oldest go."},
	{path: "nats.tls.ca", to: func(c *Config, _ *Pipeline) any { return &c.NATS.TLS.CA }, content: holdsCertificates,
		doc: "Certificate authorities to trust instead of the system's."},
	{path: "nats.tls.cert", to: func(c *Config, _ *Pipeline) any { return &c.NATS.TLS.Cert },
		content: holdsCertificates,
		doc:     "Client certificate."},
	{path: "nats.tls.key", to: func(c *Config, _ *Pipeline) any { return &c.NATS.TLS.Key }, content: holdsKey,
		doc: "Key of the client certificate."},
	{path: "nats.tls.first", to: func(c *Config, _ *Pipeline) any { return &c.NATS.TLS.First }, value: "false",
		doc: "Do the TLS handshake before anything else, as the server's `handshake_first`."},
	{path: "nats.wait", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Wait }, value: "30s", low: 0, high: day,
		doc: "How long to wait for the first connection. After it, reconnects go on for ever."},
	{path: "nats.ack_wait", to: func(c *Config, _ *Pipeline) any { return &c.NATS.AckWait }, value: "10s", low: second,
		high: 3600,
		doc:  "When the server delivers a message again that was not acknowledged. A message that is held is kept alive."},
	{path: "nats.ack_pending", to: func(c *Config, _ *Pipeline) any { return &c.NATS.AckPending }, value: "16384", low: 1024,
		high: 131072,
		doc:  "How many messages of a pipeline may be delivered and not acknowledged, of all its daemons together: those of one that is gone count until ack_wait is over. One holds 1,024 at most, and no more than it answers in two seconds; above 16 daemons give each 1,024."},

	{path: "nats.replicas", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Replicas }, value: "auto",
		words: []string{"auto", "1", "3", "5"},
		doc:   "Replicas of the streams and of the model store where embedd makes them. auto is three in a cluster that has as many servers, else one."},
	{path: "nats.lease", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Lease }, value: "10s", low: 2, high: 3600,
		doc: "Life of the lease of learning: so long after the daemon that learns is gone without a word another takes its place. It is renewed every third of it."},
	{path: "nats.adopt_within", to: func(c *Config, _ *Pipeline) any { return &c.NATS.AdoptWithin }, value: "10s", or: "never", low: 3, high: 3600,
		doc: "How long a replica answers without knowing that its model is the live one: then it takes no inputs until it knows. never: it goes on with the model that it has."},
	{path: "nats.streams.max_bytes", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Streams.MaxBytes },
		or: "none", low: mib, high: 1024 * 1024 * gib,
		doc: "Most bytes of one stream. Over them its oldest messages go, answered or not."},
	{path: "nats.streams.max_age", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Streams.MaxAge },
		or: "none", low: second, high: 10 * year,
		doc: "Oldest message of a stream. Older ones go, answered or not."},
	{path: "nats.streams.duplicates", to: func(c *Config, _ *Pipeline) any { return &c.NATS.Streams.Duplicates },
		value: "2m", low: second, high: day,
		doc: "Window in which the server knows a message again: for so long an outage it keeps outputs from being stored twice. At least three times ack_wait."},

	{path: "http.listen", to: func(c *Config, _ *Pipeline) any { return &c.HTTP.Listen }, value: "127.0.0.1:8474",
		check: checkListen,
		doc:   "Address and port. Port 0 takes a free one and logs it."},
	{path: "http.token_file", to: func(c *Config, _ *Pipeline) any { return &c.HTTP.TokenFile }, content: holdsSecret,
		doc: "File with the token that /metrics wants, as `Authorization: Bearer TOKEN`; read at each request. /healthz and /readyz answer without it, and then say yes or no alone."},
	{path: "http.open", to: func(c *Config, _ *Pipeline) any { return &c.HTTP.Open }, value: "false",
		doc: "Serve beyond loopback without TLS or without a token: only where a network or a proxy keeps strangers away."},
	{path: "http.tls.cert", to: func(c *Config, _ *Pipeline) any { return &c.HTTP.Cert }, content: holdsCertificates,
		doc: "Certificate of the listener."},
	{path: "http.tls.key", to: func(c *Config, _ *Pipeline) any { return &c.HTTP.Key }, content: holdsKey,
		doc: "Its key."},

	{path: "limits.memory", to: func(c *Config, _ *Pipeline) any { return &c.Memory }, or: "auto", low: 64 * mib,
		high: 1024 * 1024 * gib,
		doc:  "Memory that the process stays within as far as its pipelines' limits allow: garbage is collected the more often, the nearer it is. auto is what those limits come to, or nine tenths of what a container allows where that is less. GOMEMLIMIT and GOGC in the environment go before."},

	{path: each + "input.stream", to: func(_ *Config, p *Pipeline) any { return &p.Input.Stream }, check: checkStream,
		start: "FEATURES",
		doc:   "JetStream stream to read. Without it the subject is read with core NATS, at most once."},
	{path: each + "input.subject", to: func(_ *Config, p *Pipeline) any { return &p.Input.Subject },
		value: "features.NAME", check: checkPattern, start: "features.NAME",
		doc: "Subject to read; the wildcards * and > are allowed."},
	{path: each + "input.labels", to: func(_ *Config, p *Pipeline) any { return &p.Input.Labels }, check: checkPattern,
		doc: "Subject of labels that come apart from their rows, with the columns schema.key and schema.label; see late-labels.md. Its stream is found by the subject. Without it labels come with the rows."},

	{path: each + "input.partitions", to: func(_ *Config, p *Pipeline) any { return &p.Input.Partitions }, or: "none", low: 2,
		high: 256,
		doc:  "Into how many partitions the stream puts the keys of input.subject, which are what stands for its *: outputs of one key leave in the order of their inputs, whichever daemons answer; see scale.md. `embedd setup --apply` lets the stream do it. Each partition is a consumer, which one daemon holds at a time."},

	{path: each + "input.attempts", to: func(_ *Config, p *Pipeline) any { return &p.Input.Attempts }, value: "5", low: 3,
		high: 1000,
		doc:  "With how many attempts a message is a dead letter of which the process died each time. From the second on it is tried alone."},

	{path: each + "input.double_ack", to: func(_ *Config, p *Pipeline) any { return &p.Input.DoubleAck }, value: "false",
		doc: "See acknowledgements confirmed by the server, one after the other. Without it a lost one costs a redelivery, which is looked up and not answered again; with it throughput falls, by more the smaller the messages are."},

	{path: each + "schema.features", to: func(_ *Config, p *Pipeline) any { return &p.Schema }, required: true,
		check: checkGlob, start: "[pixels]",
		doc: "Feature columns: names, globs, or {column: NAME, size: N} to fix the number of elements; see wire.md. One fixed-size list of floats is the fastest form."},
	{path: each + "schema.label", to: func(_ *Config, p *Pipeline) any { return &p.Schema.Label }, value: "label",
		start: "label",
		doc:   "Label column. A string, dictionary, integer or boolean; a row without one is transformed and not learned from. \"\" for none."},
	{path: each + "schema.key", to: func(_ *Config, p *Pipeline) any { return &p.Schema.Key },
		doc: "Key column that identifies a row: text or integers. With input.labels a label finds its row by it."},
	{path: each + "schema.nulls", to: func(_ *Config, p *Pipeline) any { return &p.Schema.Nulls }, value: "reject",
		words: []string{"reject", "impute", "skip"},
		doc:   "Rows with a null, NaN or infinite feature, or one beyond float32. reject makes them dead letters, impute fills in the model's mean, skip leaves them out and counts them."},

	{path: each + "output.subject", to: func(_ *Config, p *Pipeline) any { return &p.Output.Subject },
		value: "reduced.NAME", check: checkSubject, start: "reduced.NAME",
		doc: "Subject of the reduced rows."},
	{path: each + "output.column", to: func(_ *Config, p *Pipeline) any { return &p.Output.Column }, value: "embedding",
		check: checkNotEmpty,
		doc:   "Name of the column that is added. Its type is fixed_size_list<float32>[dim]."},
	{path: each + "output.columns", to: func(_ *Config, p *Pipeline) any { return &p.Output.Columns }, value: "false",
		doc: "Write float32 columns NAME_0, NAME_1, ... instead of one list column."},
	{path: each + "output.keep", to: func(_ *Config, p *Pipeline) any { return &p.Output.Keep }, value: "all",
		check: checkGlob,
		doc:   "Input columns that are passed on. all is every column but the features; none; or a list of names and globs."},
	{path: each + "output.dead", to: func(_ *Config, p *Pipeline) any { return &p.Output.Dead }, value: "dead.NAME",
		check: checkSubject,
		doc:   "Subject of the dead letters."},
	{path: each + "output.compression", to: func(_ *Config, p *Pipeline) any { return &p.Output.Compression },
		value: "none", words: []string{"none", "lz4", "zstd"},
		doc: "Compression of the output's Arrow bodies. Not every client reads compressed ones."},

	{path: each + "model.file", to: func(_ *Config, p *Pipeline) any { return &p.Model.File }, content: readable,
		doc: "A model file to serve as it is. No other key of model or training goes with it."},
	{path: each + "model.method", to: func(_ *Config, p *Pipeline) any { return &p.Model.Method }, value: "auto",
		start: "auto",
		doc:   "Method, as `embedd methods` lists them. auto chooses one by cross-validation, again with four times the rows or after a change, and keeps it while no other is better by more than the noise; without a label column it is pca. blend makes one model of the methods that params: {members: ...} names; from moments where all of these learn from moments."},
	{path: each + "model.blend", to: func(_ *Config, p *Pipeline) any { return &p.Model.Blend }, value: "1", low: 1,
		high: 40,
		doc:  "With method auto: of so many of the best candidates it makes one model. 1 is the best alone, which costs the least at each refit."},
	{path: each + "model.dim", to: func(_ *Config, p *Pipeline) any { return &p.Model.Dim }, or: "auto", low: 1,
		high: 4096, start: "8",
		doc: "Dimensions of the output. auto chooses at the first fit, by cross-validation on the labelled rows; for methods that learn from moments it is the method's default. Outputs stay as many as the first model has."},
	{path: each + "model.scale", to: func(_ *Config, p *Pipeline) any { return &p.Model.Scale }, value: "standard",
		words: []string{"standard", "minmax", "unit", "none"},
		doc:   "Scaling before the projection. standard is zero mean and unit variance, minmax is to [0, 1], unit is each row to unit length."},
	{path: each + "model.features", to: func(_ *Config, p *Pipeline) any { return &p.Model.Features }, value: "linear",
		words: []string{"linear", "nystroem"},
		doc:   "What methods see of a row. linear is its columns; nystroem what its distances from model.landmarks say, so that linear methods draw curved lines: for many classes in few dimensions. Landmarks are drawn at the first fit and stay; see methods.md."},
	{path: each + "model.landmarks", to: func(_ *Config, p *Pipeline) any { return &p.Model.Landmarks }, value: "300",
		low: 2, high: 2000,
		doc: "With model.features nystroem: rows that are drawn. A first model comes after four times as many labelled rows, or every.rows where that is fewer; refits and their memory are those of so many features, and answers compare each row with each landmark."},
	{path: each + "model.width", to: func(_ *Config, p *Pipeline) any { return &p.Model.Width }, value: "1", low: 0.01,
		high: 100,
		doc:  "With model.features nystroem: w of the kernels exp(-w |x - l|^2 / median); 0.25 to 4 as a rule."},
	{path: each + "model.ridge", to: ridgeOf,
		doc: "Shrinkage of the covariance. A number, or a word that the method knows, as auto. Short for params: {ridge: ...}."},
	{path: each + "model.params", to: func(_ *Config, p *Pipeline) any { return &p.Model.Params },
		doc: "Parameters of the method, as `embedd methods` lists them."},
	{path: each + "model.seed", to: func(_ *Config, p *Pipeline) any { return &p.Model.Seed }, value: "1",
		doc: "Seed of every random choice. Same rows, order, configuration and seed give the same model."},
	{path: each + "model.store", to: func(_ *Config, p *Pipeline) any { return &p.Model.Store }, value: "auto",
		check: checkNotEmpty,
		doc:   "Where models are kept, so that a restart goes on with model and epoch. auto is the server's JetStream where input.stream is given, else the directory ./embedd-data/models; or a directory; or none."},
	{path: each + "model.keep.versions", to: func(_ *Config, p *Pipeline) any { return &p.Model.Keep.Versions },
		value: "20", low: 3, high: 200,
		doc: "Most versions that are kept. The oldest leave first; the live, the previous and a pinned one stay."},
	{path: each + "model.keep.age", to: func(_ *Config, p *Pipeline) any { return &p.Model.Keep.Age },
		value: "90d", or: "none", low: second, high: 10 * year,
		doc: "Oldest version that is kept, but for the live, the previous and a pinned one."},
	{path: each + "model.damaged", to: func(_ *Config, p *Pipeline) any { return &p.Model.Damaged },
		value: "previous", words: []string{"previous", "stop"},
		doc: "What a start does where the live model or the pointer to it cannot be read. previous goes on with the version before that can be read, and without one learns a first model; stop ends with the reason."},

	{path: each + "training.window.rows", to: func(_ *Config, p *Pipeline) any { return &p.Training.Window.Rows },
		value: "20000", low: 4, high: 1e8, start: "20000",
		doc: "Most labelled rows that are kept. Models are fitted from the newest of them, as many as serve best."},
	{path: each + "training.window.bytes", to: func(_ *Config, p *Pipeline) any { return &p.Training.Window.Bytes },
		value: "1GiB", low: mib, high: 1024 * gib,
		doc: "Most memory of the window: rows, the statistics and copies that fits are made from, rows that wait. Fewer than window.rows are kept where it binds. Beside it a fit takes at most as much again: where its matrices of features x features would take more, it has fewer rows than features, and where the graphs, matrices and copies of a method that needs the rows would, the window has fewer rows than window.rows; the log says how many."},
	{path: each + "training.window.age", to: func(_ *Config, p *Pipeline) any { return &p.Training.Window.Age },
		or: "none", low: second, high: 10 * year,
		doc: "Oldest row that is kept, by the server's time of its message."},
	{path: each + "training.window.balance", to: func(_ *Config, p *Pipeline) any { return &p.Training.Window.Balance },
		value: "class", words: []string{"class", "none"},
		doc: "What leaves a full window. class: the oldest rows of each class that has more than its share, so that a rare class stays; none: the oldest row."},
	{path: each + "training.quota.by", to: func(_ *Config, p *Pipeline) any { return &p.Training.Quota.By },
		value: "none", words: []string{"none", "subject", "key"},
		doc: "What one source of rows is, where none may decide alone what is learned: one subject of input.subject, or one text in the column schema.key."},
	{path: each + "training.quota.share", to: func(_ *Config, p *Pipeline) any { return &p.Training.Quota.Share },
		value: "0.5", low: 0.01, high: 1,
		doc: "With training.quota.by: most of the rows that a class may have in the window, and of limits.classes, that are of one source. Of more the oldest leave, and further labels of it are not learned."},
	{path: each + "training.every.rows", to: func(_ *Config, p *Pipeline) any { return &p.Training.Every.Rows },
		value: "5000", low: 2, high: 1e8, start: "1000",
		doc: "Look at all candidates again after so many new labelled rows at least; a first model comes after 250 rows or five a feature, or after so many where that is fewer."},
	{path: each + "training.every.period", to: func(_ *Config, p *Pipeline) any { return &p.Training.Every.Period },
		value: "10m", or: "none", low: second, high: year,
		doc: "Look again after so much time in which rows came, and fit a first model when there are at least two classes of two rows."},
	{path: each + "training.every.drift", to: func(_ *Config, p *Pipeline) any { return &p.Training.Every.Drift },
		value: "true", words: []string{"true", "false"},
		doc: "Whether a change of the rows cuts the window, so that candidates are fitted from what came after it. It promotes nothing."},
	{path: each + "training.holdout", to: func(_ *Config, p *Pipeline) any { return &p.Training.Holdout }, value: "0.2",
		low: 0.01, high: 0.5,
		doc: "Part of the labelled rows that no fit sees. All models are judged by how well the newest of them tell the class of new rows."},
	{path: each + "training.block", to: func(_ *Config, p *Pipeline) any { return &p.Training.Block }, or: "none",
		low: 1, high: 1e6,
		doc: "Learn from summaries of so many messages of input.stream each, which all daemons of the pipeline make, in the place of rows; see summaries.md. A block should have some rows for each entry of a matrix of features x features, as 64 messages of 256 rows for 256 features. none: who learns reads every row."},
	{path: each + "training.gate.evidence", to: func(_ *Config, p *Pipeline) any { return &p.Training.Gate.Evidence },
		value: "1000", low: 2, high: 1e12,
		doc: "Odds that must speak for a candidate before it goes live, gathered row by row on rows that neither it nor the live model has seen."},
	{path: each + "training.gate.margin", to: func(_ *Config, p *Pipeline) any { return &p.Training.Gate.Margin },
		value: "0", low: 0, high: 0.99,
		doc: "By how much a candidate's 1-NN accuracy must exceed the live model's."},
	{path: each + "training.align", to: func(_ *Config, p *Pipeline) any { return &p.Training.Align }, value: "rigid",
		words: []string{"none", "sign", "block", "rigid"},
		doc:   "How a new model is turned towards the live one. sign flips and orders columns, block also turns columns of tied eigenvalues, rigid turns and shifts all together (orthogonal Procrustes)."},
	{path: each + "training.until_ready", to: func(_ *Config, p *Pipeline) any { return &p.Training.UntilReady },
		value: "hold", words: []string{"hold", "pca", "skip"},
		doc: "What happens before the first model. hold: nothing leaves, nothing is lost; pca: a PCA of the first rows serves, as many as a first model takes, labelled or not; skip: acknowledged without output, counted."},
	{path: each + "training.max_age", to: func(_ *Config, p *Pipeline) any { return &p.Training.MaxAge },
		or: "none", low: second, high: year,
		doc: "Oldest model that serves as fresh: the time since it was made, or since the newest labelled row on which it was judged and kept. Over it /readyz is 503."},
	{path: each + "training.when_stale", to: func(_ *Config, p *Pipeline) any { return &p.Training.WhenStale },
		value: "serve", words: []string{"serve", "hold", "pass"},
		doc: "What happens over max_age. serve: outputs go on, marked by a header with the age; hold: nothing leaves, nothing is lost; pass: messages leave as they came, without an embedding, marked."},

	{path: each + "limits.message", to: func(_ *Config, p *Pipeline) any { return &p.Limits.Message }, value: "8MiB",
		low: kib, high: 64 * mib,
		doc: "Largest message that is decoded. A larger one is a dead letter."},
	{path: each + "limits.expanded", to: func(_ *Config, p *Pipeline) any { return &p.Limits.Expanded }, value: "64MiB",
		low: 64 * kib, high: 2 * gib,
		doc: "Most bytes that the buffers of one message come to once they are unpacked, dictionaries and the copies of integer features included. What a message comes to is told from its frames, before anything is unpacked; one above it is a dead letter."},
	{path: each + "limits.features", to: func(_ *Config, p *Pipeline) any { return &p.Limits.Features }, value: "10k",
		low: 1, high: 65536,
		doc: "Most features of a row. The message that would fix more is a dead letter. Learning from m features may take some matrices of m x m; where those are more than training.window.bytes, models are fitted from fewer rows, and the status says so."},
	{path: each + "limits.rows", to: func(_ *Config, p *Pipeline) any { return &p.Limits.Rows }, value: "100k", low: 1,
		high: 1e8,
		doc:  "Most rows in a message."},
	{path: each + "limits.in_flight", to: func(_ *Config, p *Pipeline) any { return &p.Limits.InFlight },
		value: "256MiB", low: kib, high: 1024 * gib,
		doc: "Bytes of messages that are held at a time: those that wait as they came, those that are worked on as what they come to, unpacked and answered."},
	{path: each + "limits.bad", to: badOf, or: "none",
		doc: "Halt when so many of the newest so many messages were bad, as 50 of 100: nothing is answered until `embedd resume` or a restart, and /readyz is 503. A message is bad where none of its rows could be answered."},
	{path: each + "limits.classes", to: func(_ *Config, p *Pipeline) any { return &p.Limits.Classes }, value: "1000",
		low: 2, high: 1e6,
		doc: "Most classes. Rows of further classes are transformed and not learned from."},
	{path: each + "limits.model", to: func(_ *Config, p *Pipeline) any { return &p.Limits.Model }, value: "256MiB",
		low: 64 * kib, high: 16 * gib,
		doc: "Largest model that is stored and read back. One above it does not go live, and the log says so."},
	{path: each + "limits.labels", to: func(_ *Config, p *Pipeline) any { return &p.Limits.Labels }, value: "256MiB",
		low: 64 * kib, high: 1024 * gib,
		doc: "Bytes of the rows and labels that wait for one another, and of what is remembered to correct them. The oldest go first. Needs input.labels."},
	{path: each + "limits.label_wait", to: func(_ *Config, p *Pipeline) any { return &p.Limits.LabelWait },
		value: "24h",
		low:   second, high: year,
		doc: "Most time between a row and its label, by the server's times of their messages. Needs input.labels."},
}

// ridgeOf puts the ridge among the method's parameters, where methods look for it.
func ridgeOf(_ *Config, p *Pipeline) any {
	return func(value string) error {
		if value == "" {
			return nil // the method's default
		}
		if _, twice := p.Model.Params["ridge"]; twice {
			return errors.New("given under model.params too; keep one")
		}
		if p.Model.Params == nil {
			p.Model.Params = map[string]string{}
		}
		p.Model.Params["ridge"] = value
		return nil
	}
}

// mostBad bounds the newest messages of which the bad ones are counted.
const mostBad = 1_000_000

// badOf reads "50 of 100".
func badOf(_ *Config, p *Pipeline) any {
	return func(value string) error {
		p.Limits.Bad, p.Limits.BadOf = 0, 0
		if value == "" {
			return nil
		}
		bad, of, _ := strings.Cut(value, " of ")
		n, err := parseCount(strings.TrimSpace(bad))
		m, errOf := parseCount(strings.TrimSpace(of))
		if err != nil || errOf != nil || n < 1 || n > m || m > mostBad {
			return errors.New("want two counts from 1 to 1M, the first not above the second, as 50 of 100, or none")
		}
		p.Limits.Bad, p.Limits.BadOf = int(n), int(m)
		return nil
	}
}

func isSection(path string) bool {
	return slices.ContainsFunc(sections, func(s section) bool { return s.path == path })
}

func lookup(path string) (field, bool) {
	i := slices.IndexFunc(spec, func(f field) bool { return f.path == path })
	if i < 0 {
		return field{}, false
	}
	return spec[i], true
}
