package config

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/embedd/embedd/stream"
)

// field is one key of the configuration. The type of its target is the type of the value: *string, *[]string,
// *map[string]string, *bool, *int (a count), *int64 (bytes), *uint64, *float64, *time.Duration.
type field struct {
	path     string             // under "pipelines.*." for keys of a pipeline
	field    string             // of Config or Pipeline that has the value; "": the path names it
	value    string             // default as in a file; NAME is the name of the pipeline
	words    []string           // allowed values; never of a number is +Inf
	unset    string             // a word for "not set", such as auto
	check    func(string) error // validates a string
	low      float64            // range of numbers, bytes, and seconds of durations
	high     float64
	required bool
	content  func(path string) error // the value is the path of a file; validates its content
	secret   bool                    // never print the value
	reload   bool                    // a running daemon applies a change; else it needs a restart
	effect   stream.Effect           // of a changed value of a running pipeline; "": it is applied
	start    string                  // value in the starter file; empty: the default in a comment
	doc      string                  // ends with a full stop
}

// section is a mapping of keys or sections.
type section struct{ path, doc string }

// each begins the paths of the keys of a pipeline.
const each = "pipelines.*."

var sections = []section{
	{"daemon", "The work of this process."},
	{"nats", "The server. Without url and context, `embedd run` embeds a server on 127.0.0.1:4222 with its store in " +
		"./embedd-data."},
	{users, "Other logins, one for each ROLE of letters, digits, - and _: `--user ROLE` of every verb that connects " +
		"picks it instead of the login above, as in `users: {operator: {creds: operator.creds}}`. Each has the keys creds, " +
		"nkey, jwt, user, password, password_file, token and token_file, with the meaning that they have in nats."},
	{"nats.tls", "PEM files, read again at each connect. Needed only for a private authority or for client certificates."},
	{"nats.streams", "Limits of the streams that `embedd setup --apply` or the embedded server creates. Existing " +
		"streams are not changed."},
	{"http", "The listener of the console, its API, /metrics, /healthz and /readyz. " +
		"Beyond loopback it needs TLS and a token or users."},
	{"http.tls", "PEM files, read again when they change."},
	{"limits", "Limits of the process."},
	{"pipelines", "Each pipeline has a name of letters, digits, - and _ (64 at most). Its consumer is embedd_NAME."},
	{each + "input", "The input: one Arrow IPC stream per message."},
	{each + "schema", "The columns of the input."},
	{each + "output", "The output."},
	{each + "model", "The method. With file, a fixed model is served and nothing is trained."},
	{each + "model.keep", "Versions that the store keeps, for `embedd model rollback` and `embedd model diff`."},
	{each + "training", "What models are trained on, and when they go live."},
	{each + "training.window", "The labelled rows that are kept."},
	{each + "training.quota", "The share of the window that a single source may have."},
	{each + "training.every", "When to refit: after a number of new labelled rows or a time, whichever is first."},
	{each + "training.gate", "How much evidence the doors require by which models go live; models.md lists all doors."},
	{each + "limits", "Limits of messages and of the pipeline."},
}

// loginKeys are the keys of nats that are a login.
var loginKeys = []string{"creds", "nkey", "jwt", "user", "password", "password_file", "token", "token_file"}

// never is the value of a key of the gate that closes its door.
var never = []string{"never"}

const (
	second = 1
	day    = 24 * 60 * 60
	year   = 365 * day
	kib    = 1 << 10
	mib    = 1 << 20
	gib    = 1 << 30
)

// spec is the table of all keys, in the order of the reference page.
var spec = []field{
	{path: "daemon.role", field: "role", value: "all", words: []string{"all", "transform", "train"}, doc: "The work of " +
		"this daemon if several run the same pipelines; see replicas.md. transform applies models that other daemons " +
		"train, train only trains, all does both. One daemon at a time trains a pipeline. `run --role` overrides it."},
	{path: "daemon.standby", field: "standby", value: "warm", words: []string{"warm", "cold"}, doc: "Whether a standby " +
		"trainer reads the stream so that its window is full when it becomes the trainer (warm), or reads the window " +
		"only then (cold)."},
	{path: "daemon.log_level", field: "log_level", value: "info", words: []string{"debug", "info", "warn", "error"},
		reload: true, doc: "Minimum level of the messages that are logged. `run --log-level` overrides it."},
	{path: "nats.url", check: CheckURL, secret: true, doc: "Server URL, or several separated by commas. nats://, " +
		"tls://, ws:// or wss://."},
	{path: "nats.context", check: checkContext, doc: "Name of a context of the `nats` CLI, instead of url."},
	{path: "nats.creds", field: "nats.login.creds", content: holds(readCreds), reload: true, doc: "Credentials file: a " +
		"JWT and its seed. This and all files below are read again at each connect."},
	{path: "nats.nkey", field: "nats.login.nkey", content: holds(readSeed), reload: true, doc: "File with the NKey " +
		"seed of a user."},
	{path: "nats.jwt", field: "nats.login.jwt", content: holds(readJWT), reload: true, doc: "File with the JWT of a " +
		"user; its seed is in the file of nats.nkey."},
	{path: "nats.user", field: "nats.login.user", check: checkNotEmpty, reload: true, doc: "User, with password or " +
		"password_file."},
	{path: "nats.password", field: "nats.login.password", secret: true, reload: true, doc: "Password. Prefer an " +
		"environment variable or password_file."},
	{path: "nats.password_file", field: "nats.login.password_file", content: holds(readSecret), reload: true,
		doc: "File that contains only the password."},
	{path: "nats.token", field: "nats.login.token", secret: true, reload: true, doc: "Token. Prefer an environment " +
		"variable or token_file."},
	{path: "nats.token_file", field: "nats.login.token_file", content: holds(readSecret), reload: true, doc: "File " +
		"that contains only the token."},
	{path: "nats.inbox_prefix", check: checkInbox, doc: "Prefix of reply subjects, instead of _INBOX. With a separate " +
		"prefix a user can be denied the replies to other users."},
	{path: "nats.domain", check: checkDomain, doc: "JetStream domain."},
	{path: "nats.hub", check: checkDomain, doc: "JetStream domain of the hub if this server is a leaf node with its " +
		"own domain: models are trained at the hub and mirrored here, and messages are answered while the hub is " +
		"unreachable. For daemons with role transform."},
	{path: "nats.edges", check: checkDomain, doc: "JetStream domains of the edges whose summaries the hub trains on, " +
		"for pipelines with training.block: all of them at the hub, with role train; at an edge its own domain, together " +
		"with nats.hub. See replicas.md. Without it a hub trains on rows."},
	{path: "nats.edge_bytes", value: "1GiB", low: 16 * mib, high: 1024 * gib, doc: "Maximum bytes of summaries kept " +
		"for nats.edges: at an edge until the hub has them, at the hub for a restart. Beyond it the oldest are deleted."},
	{path: "nats.tls.ca", content: holdsCertificates, doc: "Certificate authorities to trust instead of the system's."},
	{path: "nats.tls.cert", content: holdsCertificates, doc: "Client certificate."},
	{path: "nats.tls.key", content: holdsKey, doc: "Key of the client certificate."},
	{path: "nats.tls.first", value: "false", doc: "Do the TLS handshake first, as the server option `handshake_first` " +
		"requires."},
	{path: "nats.wait", value: "30s", low: 0, high: day, doc: "How long to wait for the first connection. After it, " +
		"reconnects are retried indefinitely."},
	{path: "nats.ack_wait", value: "10s", low: second, high: 3600, doc: "Time after which the server redelivers a " +
		"message that is not acknowledged (AckWait). Messages in progress are extended."},
	{path: "nats.max_ack_pending", value: "16384", low: 1, high: 131072, doc: "Maximum number of delivered and " +
		"unacknowledged messages of a pipeline (MaxAckPending), over all its daemons; those of a crashed daemon count " +
		"until ack_wait is over. A daemon holds up to 1,024, and no more than it answers in two seconds; with more than " +
		"16 daemons set 1,024 for each."},

	{path: "nats.replicas", value: "auto", words: []string{"auto", "1", "3", "5"}, doc: "Replicas of the streams and " +
		"buckets that embedd creates. auto is three in a cluster of at least three servers, else one."},
	{path: "nats.lease", value: "10s", low: 2, high: 3600, doc: "Duration of the trainer's lease: another daemon takes " +
		"over within 1.5 times as long after the trainer disappears without releasing it. It is renewed after each third " +
		"of the duration."},
	{path: "nats.model_sync_timeout", value: "10s", unset: "never", low: 3, high: 3600, doc: "How long a replica " +
		"answers while the model store does not confirm that its model is the live one. After it, the replica pulls no " +
		"messages until the store confirms one. never: it continues with the model it has."},
	{path: "nats.streams.max_bytes", unset: "none", low: mib, high: 1024 * 1024 * gib, doc: "Maximum size of a stream. " +
		"Beyond it the oldest messages are deleted, answered or not."},
	{path: "nats.streams.max_age", unset: "none", low: second, high: 10 * year, doc: "Maximum age of a message. Older " +
		"ones are deleted, answered or not."},
	{path: "nats.streams.duplicates", value: "2m", low: second, high: day, doc: "Duplicate window of the server: for " +
		"outages up to this long it prevents an output from being stored twice. At least three times ack_wait."},

	{path: "http.listen", value: "127.0.0.1:8474", check: checkListen, reload: true, doc: "Address and port. Port 0 " +
		"takes a free port, which is logged."},
	{path: "http.hosts", check: checkHost, reload: true, doc: "Names by which clients reach the listener, without " +
		"port. A request for another name is refused (421), unless it has the token: a web page elsewhere cannot read " +
		"the listener through a name that it lets resolve to this machine. Addresses, localhost and the two probes need " +
		"no name."},
	{path: "http.token_file", content: holds(readSecret), reload: true, doc: "File with the token that /metrics " +
		"requires as `Authorization: Bearer TOKEN`; read at each request. Without the token /healthz and /readyz return " +
		"only the status."},
	{path: "http.users_file", content: holds(ReadUsers), reload: true, doc: "File with users and bcrypt hashes of " +
		"their passwords, as `basic_auth_users` of the web configuration file of Prometheus; read at each request. Users " +
		"may do what the token may."},
	{path: "http.operate", value: "auto", words: []string{"auto", "true", "false"}, reload: true, doc: "Whether " +
		"requests over HTTP may operate pipelines: fit, pin, roll back, resume, replay. auto is true on loopback only."},
	{path: "http.clients", value: "32", low: 1, high: 1000, reload: true, doc: "Maximum number of open event streams, " +
		"one for each open page. Further ones are refused (503)."},
	{path: "http.points", value: "5000", low: 100, high: 20000, reload: true, doc: "Maximum number of rows of the " +
		"window that the console's scatter plot shows, an equal share of each class."},
	{path: "http.allow_insecure", value: "false", reload: true, doc: "Listen beyond loopback without TLS, or without a " +
		"token and users. Without them operations are refused. Use it only if the network or a proxy restricts access."},
	{path: "http.tls.cert", field: "http.cert", content: holdsCertificates, reload: true, doc: "Certificate of the " +
		"listener."},
	{path: "http.tls.key", field: "http.key", content: holdsKey, reload: true, doc: "Key of that certificate."},

	{path: "limits.memory", field: "memory", unset: "auto", low: 64 * mib, high: 1024 * 1024 * gib, reload: true,
		doc: "Memory limit of the process (GOMEMLIMIT): garbage collection is more frequent near it. auto follows what " +
			"the windows hold, up to the sum of the pipelines' limits, or nine tenths of the container's limit if that is " +
			"less. The environment variables GOMEMLIMIT and GOGC override it."},

	{path: each + "input.stream", check: checkStream, start: "FEATURES", doc: "JetStream stream to read. Without it " +
		"the subject is read with core NATS, at most once."},
	{path: each + "input.subject", value: "features.NAME", check: checkPattern, start: "features.NAME", doc: "Subject " +
		"to read; the wildcards * and > are allowed."},
	{path: each + "input.format", field: "schema.format", value: "arrow",
		words: []string{"arrow", "json", "ndjson", "csv"}, doc: "Format of the messages, of late labels too. json: one " +
			"object, an array of objects, or columns and data as pandas' split; ndjson: an object a line; csv: a header " +
			"line and rows; see wire.md."},
	{path: each + "input.labels", check: checkPattern, doc: "Subject of late labels, messages with the columns " +
		"schema.key and schema.label; see late-labels.md. Its stream is found by the subject. Without it labels are in " +
		"the messages of their rows."},

	{path: each + "input.partitions", unset: "none", low: 2, high: 256, doc: "Number of partitions for ordered output: " +
		"the stream maps each key, the token of input.subject at its *, to a partition, and the outputs of a key are " +
		"published in the order of its inputs, whichever daemons answer; see replicas.md. `embedd setup --apply` " +
		"configures the stream. Each partition is a consumer that one daemon at a time owns."},

	{path: each + "input.attempts", value: "5", low: 3, high: 1000, doc: "Number of attempts after which a message " +
		"that crashed the process each time becomes a dead letter. From the second attempt on it is processed alone."},

	{path: each + "input.double_ack", value: "false", doc: "Wait for the server to confirm each acknowledgement. " +
		"Without it a lost acknowledgement costs a redelivery, which is detected and not answered again; with it " +
		"throughput falls, most for small messages."},

	{path: each + "schema.features", field: "schema", required: true, effect: stream.EffectSchemaReset, check: checkGlob,
		start: "[pixels]", doc: "Feature columns: names, globs, or {column: NAME, size: N} to fix the number of " +
			"elements; see wire.md. One fixed-size list of floats is the fastest form."},
	{path: each + "schema.label", value: "label", start: "label", doc: "Label column: string, dictionary, integer or " +
		"boolean. A row without a label is transformed and not used for training. \"\" for none."},
	{path: each + "schema.key", doc: "Key column that identifies a row: text or integers. With input.labels it joins " +
		"labels with their rows."},
	{path: each + "schema.nulls", value: "auto", words: []string{"auto", "reject", "impute", "skip"}, doc: "Rows with " +
		"a feature that is null, NaN, infinite or beyond float32. reject makes them dead letters, skip drops and " +
		"counts them, impute replaces the feature by the model's mean. A finite feature beyond float32 is always replaced " +
		"in training, and for an output only if that would exceed float32. Rows whose output does so with the mean too " +
		"are dead letters. auto is what the fit of model.file did, and reject without one."},

	{path: each + "output.subject", value: "reduced.NAME", check: checkDestination, start: "reduced.NAME",
		doc: "Subject of the outputs. A token {{wildcard(1)}} is the token of the message's subject at the first * of " +
			"input.subject, {{wildcard(2)}} that at the second, as in a subject mapping of NATS: input features.* and output " +
			"reduced.{{wildcard(1)}} answer features.eu on reduced.eu. One stream has to take all such subjects."},
	{path: each + "output.format", value: "arrow", words: []string{"arrow", "json", "ndjson", "csv"}, doc: "Format of " +
		"the outputs. Dead letters have that of the input."},
	{path: each + "output.column", value: "embedding", check: checkNotEmpty, doc: "Name of the column that is added. " +
		"Its type is fixed_size_list<float32>[dim]."},
	{path: each + "output.columns", value: "false", doc: "Write float32 columns NAME_0, NAME_1, ... instead of one " +
		"list column."},
	{path: each + "output.keep", value: "all", check: checkGlob, doc: "Input columns to pass on: all (every column but " +
		"the features), none, or a list of names and globs."},
	{path: each + "output.dead", value: "dead.NAME", check: checkSubject, doc: "Subject of the dead letters."},
	{path: each + "output.compression", value: "none", words: []string{"none", "lz4", "zstd"}, doc: "Compression of " +
		"the Arrow buffers of outputs. Not every client reads compressed buffers."},

	{path: each + "model.file", content: readable, doc: "A fixed model file to serve. It excludes the other keys of " +
		"model and training. Its features must be those of schema.features; see schema.md."},
	{path: each + "model.method", value: "auto", start: "auto", doc: "Method, as `embedd methods` lists them. auto " +
		"chooses one by cross-validation, again after four times the rows or a change, and keeps it unless another is " +
		"better by more than the noise; without a label column it is pca. blend combines the methods of params: " +
		"{members: ...} into one model; it is fitted from moments if all of them are."},
	{path: each + "model.blend", value: "1", low: 1, high: 40, effect: stream.EffectModelReset, doc: "With method " +
		"auto: combine this many of the best candidates into one model. 1 is the best candidate alone, which is the " +
		"cheapest to refit."},
	{path: each + "model.dim", unset: "auto", low: 1, high: 4096, effect: stream.EffectModelReset, start: "8",
		doc: "Dimensions of the output. auto has room for classes that may come: 20, or one less than the classes of the " +
			"first model, at most the features; outputs that no class needs are 0. Methods that do not depend on classes, and " +
			"those without a linear or kernel map, choose at the first fit. The number stays that of the first model until " +
			"`embedd model reset`; see models.md."},
	{path: each + "model.scale", value: "standard", words: []string{"standard", "minmax", "unit", "none"},
		doc: "Scaling of the features. standard: zero mean and unit variance; minmax: to [0, 1]; unit: each row to unit " +
			"length."},
	{path: each + "model.features", value: "linear", words: []string{"linear", "nystroem"}, doc: "Features of the " +
		"method. linear: the columns; nystroem: kernels of the row and model.landmarks, so that linear methods give " +
		"curved class boundaries, for many classes in few dimensions. Landmarks are drawn at the first fit and stay; see " +
		"methods.md."},
	{path: each + "model.landmarks", value: "300", low: 2, high: 2000, doc: "With model.features nystroem: number of " +
		"landmarks. The first fit waits for four times as many labelled rows, or every.rows if that is fewer. Time and " +
		"memory of a fit are those of as many features, and each row is compared with each landmark."},
	{path: each + "model.width", value: "1", low: 0.01, high: 100, doc: "With model.features nystroem: w of the " +
		"kernels exp(-w |x - l|^2 / median), usually 0.25 to 4."},
	{path: ridge, doc: "Shrinkage of the covariance. A number, or a word that the method accepts, such as auto. Short " +
		"for params: {ridge: ...}."},
	{path: each + "model.params", doc: "Parameters of the method, as `embedd methods` lists them."},
	{path: each + "model.seed", value: "1", doc: "Seed of all random choices. The same rows, order, configuration and " +
		"seed give the same model."},
	{path: each + "model.store", value: "auto", check: checkNotEmpty, doc: "Where models are stored, so that a restart " +
		"continues with the model and epoch. auto is JetStream if input.stream is set, else the directory " +
		"./embedd-data/models; or a directory; or none."},
	{path: each + "model.keep.versions", value: "20", low: 3, high: 200, doc: "Maximum number of versions. The oldest " +
		"are deleted first; the live, the previous and a pinned version are kept."},
	{path: each + "model.keep.age", value: "90d", unset: "none", low: second, high: 10 * year, doc: "Maximum age of a " +
		"version, except the live, the previous and a pinned version."},
	{path: each + "model.damaged", value: "previous", words: []string{"previous", "stop"}, doc: "What a start does if " +
		"the live model or the pointer to it cannot be read. previous: use the newest older version that can be read, or " +
		"train a first model; stop: exit with the reason."},

	{path: each + "training.window.rows", value: "20000", low: 4, high: 1e8, start: "20000", reload: true,
		doc: "Maximum number of labelled rows. Models are fitted from the newest of them, as many as give the best " +
			"accuracy."},
	{path: each + "training.window.bytes", value: "1GiB", low: mib, high: 1024 * gib, reload: true, doc: "Maximum " +
		"memory of the window: rows, statistics, copies for fits, and rows in the queue. If it binds, fewer than " +
		"window.rows are kept. A fit needs up to as much again: a fit whose matrices of features x features would need " +
		"more runs on fewer rows than features, and a window whose method needs more for graphs, matrices and copies has " +
		"fewer rows; the log has the number."},
	{path: each + "training.window.age", unset: "none", low: second, high: 10 * year, reload: true, doc: "Maximum age " +
		"of a row, by the server time of its message."},
	{path: each + "training.window.balance", value: "class", words: []string{"class", "none"}, reload: true,
		doc: "What is evicted from a full window. class: the oldest rows of each class above its share, so that rare " +
			"classes stay; none: the oldest row."},
	{path: each + "training.quota.by", value: "none", words: []string{"none", "subject", "key"}, reload: true,
		doc: "What counts as a source of rows, to limit the influence of a single source: a subject of input.subject, or " +
			"a value of the column schema.key."},
	{path: each + "training.quota.share", value: "0.5", low: 0.01, high: 1, reload: true, doc: "With " +
		"training.quota.by: maximum share of a class's rows in the window, and of limits.classes, from one source. " +
		"Beyond it the source's oldest rows are evicted and its further labels ignored."},
	{path: each + "training.every.rows", value: "5000", low: 2, high: 1e8, start: "1000", reload: true, doc: "Refit " +
		"all candidates after at least this many new labelled rows. The first model is fitted after 250 rows or five for " +
		"each feature, or after this many if that is fewer."},
	{path: each + "training.every.period", value: "10m", unset: "none", low: second, high: year, reload: true,
		doc: "Refit after this time if rows arrived, and fit a first model if there are at least two classes of two rows."},
	{path: each + "training.every.drift", field: "training.drift", value: "true", words: []string{"true", "false"},
		reload: true, doc: "Whether detected drift cuts the window, so that candidates are fitted from the rows after it. " +
			"It promotes nothing."},
	{path: each + "training.holdout", value: "0.2", low: 0.01, high: 0.5, reload: true, doc: "Share of labelled rows " +
		"that no fit sees. Models are scored by how well the newest held-out rows classify new rows."},
	{path: each + "training.block", unset: "none", low: 1, high: 1e6, doc: "Train on summaries of this many messages of " +
		"input.stream each, which all daemons of the pipeline compute, instead of rows; see summaries.md. A block should " +
		"have some rows for each entry of a matrix of features x features, such as 64 messages of 256 rows for 256 " +
		"features. none: the trainer reads every row."},
	{path: each + "training.gate.first", field: "training.first", value: "always", words: []string{"always", "never"},
		reload: true, doc: "Whether a first model goes live by itself. never: only a stored version that an operator " +
			"chooses does."},
	{path: each + "training.gate.evidence", value: "1000", low: 2, high: 1e12, words: never, reload: true, doc: "Odds " +
		"required that a candidate is better than the live model, accumulated row by row on rows that neither has seen. " +
		"Candidates from more rows, or with a new class, have the next two keys."},
	{path: each + "training.gate.more_rows", unset: "auto", low: 2, high: 1e12, words: never, reload: true, doc: "Odds " +
		"required that a candidate is not worse by a percentage point, if it has half as many more rows as the live " +
		"model, a fifth more below 250 effective ones, or four times as many from 1,000 on. auto is the square root of " +
		"gate.evidence, 31.6 by default, and one to four while the live model is early (models.md); never: it has to be " +
		"better as any other."},
	{path: each + "training.gate.new_class", unset: "auto", low: 2, high: 1e12, words: never, reload: true, doc: "Odds " +
		"required that a candidate is not worse by a percentage point, if it has a class that the live model does not " +
		"know. auto and never are as for gate.more_rows."},
	{path: each + "training.gate.following", unset: "auto", low: 2, high: 1e12, words: never, reload: true, doc: "Odds " +
		"required that refitting the newest n rows is better than a fit of the whole window and than the live model. " +
		"While they hold, each such fit goes live: the stream drifts and does not stop. auto is the square root of " +
		"gate.evidence; never: each model has to pass another door."},
	{path: each + "training.gate.margin", value: "0", low: 0, high: 0.99, reload: true, doc: "Difference in 1-NN " +
		"accuracy that is added to what a candidate is required to have at each door: half a percentage point better, or " +
		"a percentage point worse."},
	{path: each + "training.align", value: "rigid", words: []string{"none", "sign", "block", "rigid"}, reload: true,
		doc: "How a new model is aligned to the live one. sign flips and orders columns, block also rotates columns of " +
			"tied eigenvalues, rigid rotates and shifts all columns (orthogonal Procrustes)."},
	{path: each + "training.until_ready", value: "hold", words: []string{"hold", "pca", "skip"}, reload: true,
		doc: "What happens before the first model. hold: messages wait, none is lost; pca: a PCA of the first rows " +
			"without a label serves, as many as a first model needs rows; skip: messages are acknowledged without output and " +
			"counted."},
	{path: each + "training.max_age", unset: "none", low: second, high: year, reload: true, doc: "Maximum age of a " +
		"fresh model: the time since it was fitted, or since the newest labelled row that confirmed it. Beyond it /readyz " +
		"is 503."},
	{path: each + "training.when_stale", value: "serve", words: []string{"serve", "hold", "pass"}, reload: true,
		doc: "What happens beyond max_age. serve: outputs continue, with a header that has the age; hold: messages wait, " +
			"none is lost; pass: messages are published unchanged, without an embedding, with the header."},

	{path: each + "limits.message", value: "8MiB", low: kib, high: 64 * mib, reload: true, doc: "Largest message that " +
		"is decoded. A larger one is a dead letter."},
	{path: each + "limits.expanded", value: "64MiB", low: 64 * kib, high: 2 * gib, reload: true, doc: "Maximum bytes " +
		"of the decompressed buffers of a message, including dictionaries and copies of integer features. The size is " +
		"computed from the frames before anything is decompressed; a larger message is a dead letter."},
	{path: each + "limits.features", field: "schema.limits.features", value: "10k", low: 1, high: 65536, reload: true,
		doc: "Maximum number of features. A message that would fix more is a dead letter. Training on m features may need " +
			"some matrices of m x m; if these exceed training.window.bytes, models are fitted from fewer rows, and the status " +
			"says so."},
	{path: each + "limits.rows", field: "schema.limits.rows", value: "100k", low: 1, high: 1e8, reload: true,
		doc: "Maximum number of rows of a message."},
	{path: each + "limits.in_flight", value: "256MiB", low: kib, high: 1024 * gib, reload: true, doc: "Maximum bytes " +
		"of messages in flight: encoded size for queued messages, decoded size for messages in progress."},
	{path: each + "limits.bad", unset: "none", reload: true, doc: "Halt if this many of the newest messages were bad, " +
		"such as 50 of 100: nothing is answered until `embedd resume` or a restart, and /readyz is 503. A message is bad " +
		"if none of its rows can be answered."},
	{path: each + "limits.classes", value: "1000", low: 2, high: 1e6, reload: true, doc: "Maximum number of classes. " +
		"Rows of further classes are transformed and not used for training."},
	{path: each + "limits.model", value: "256MiB", low: 64 * kib, high: 16 * gib, reload: true, doc: "Largest model " +
		"that is stored and read. A larger one does not go live, and the log says so."},
	{path: each + "limits.labels", value: "256MiB", low: 64 * kib, high: 1024 * gib, reload: true, doc: "Maximum bytes " +
		"of rows and labels that wait for each other, and of what is kept to correct them. The oldest are evicted first. " +
		"Needs input.labels."},
	{path: each + "limits.label_wait", value: "24h", low: second, high: year, reload: true, doc: "Maximum time between " +
		"a row and its label, by the server times of their messages. Needs input.labels."},
}

// renamedKeys maps keys of earlier versions to the keys that replaced them. An old key is an error that names the new
// one.
var renamedKeys = map[string]string{
	"http.open":         "http.allow_insecure",
	"nats.ack_pending":  "nats.max_ack_pending",
	"nats.adopt_within": "nats.model_sync_timeout",
}

// target is a pointer to the value of a key, or for the ridge, which is stored among the parameters of the method, a
// function that sets it. The field has the name of the key without underscores.
func (f field) target(c *Config, p *Pipeline) any {
	switch f.path {
	case "": // a part of a value
		return nil
	case ridge:
		return p.setRidge
	}
	key, isPipelines := strings.CutPrefix(f.path, each)
	v := reflect.ValueOf(c).Elem()
	if isPipelines {
		v = reflect.ValueOf(p).Elem()
	}
	for name := range strings.SplitSeq(cmp.Or(f.field, key), ".") {
		name = strings.ReplaceAll(name, "_", "")
		v = v.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
	}
	if v.Kind() == reflect.String {
		return v.Addr().Convert(reflect.TypeFor[*string]()).Interface() // it may have a type of its own
	}
	return v.Addr().Interface()
}

const ridge = each + "model.ridge"

func (p *Pipeline) setRidge(value string) error {
	if value == "" {
		return nil // the method's default
	}
	if _, twice := p.Model.Params["ridge"]; twice {
		return errors.New("also set under model.params; keep one")
	}
	if p.Model.Params == nil {
		p.Model.Params = map[string]string{}
	}
	p.Model.Params["ridge"] = value
	return nil
}

// maxBad is the maximum number of messages over which bad messages are counted.
const maxBad = 1_000_000

// setStop reads "50 of 100".
func setStop(s *stream.Stop, text string) error {
	*s = stream.Stop{}
	if text == "" {
		return nil
	}
	bad, of, _ := strings.Cut(text, " of ")
	n, err := parseCount(strings.TrimSpace(bad))
	m, errOf := parseCount(strings.TrimSpace(of))
	if err != nil || errOf != nil || n < 1 || n > m || m > maxBad {
		return errors.New("want two counts from 1 to 1M, the first not above the second, such as 50 of 100, or none")
	}
	*s = stream.Stop{Bad: int(n), Of: int(m)}
	return nil
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
