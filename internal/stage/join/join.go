package join

import (
	"cmp"
	"reflect"
	"time"
)

// Place says where a row or a label stands: in which stream, by the time when that was made in nanoseconds, in which
// message, and at which row of it.
type Place struct {
	Created int64
	Seq     uint64
	Row     int
}

// Compare orders places of one kind of stream. A stream that was deleted and made again comes after the one before.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Created, q.Created), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Row, q.Row))
}

// Row is a row of the input. Payload is what the join hands back with it, Size how many bytes that keeps.
type Row[P any] struct {
	Place   Place
	Time    time.Time // the server's, of its message
	Key     string    // "" where it has none: then only its own label counts
	Label   string    // the label that the row carries
	Has     bool      // it carries one
	Payload P
	Size    int
}

// Label is one row of a label message.
type Label struct {
	Place Place
	Time  time.Time
	Key   string
	Text  string
}

// Kind is what an outcome asks for.
type Kind int

// The kinds of outcome.
const (
	Give     Kind = iota // a row with its label: take it in
	Correct              // a row that was given has another label
	Withdraw             // a row that was given was replaced: take it out for good
)

func (k Kind) String() string { return [...]string{"give", "correct", "withdraw"}[k] }

// Out is one thing to do with a row.
type Out[P any] struct {
	Kind    Kind
	Place   Place
	Time    time.Time
	Text    string
	By      Place // of the label that says it; zero where it is the row's own
	Payload P     // of Give
}

// Limits bound what is held.
type Limits struct {
	Wait  time.Duration // most time between a row and its label
	Bytes int64         // payloads, keys, texts, and what it takes to hold them
}

// Counts say what became of labels and rows so far.
type Counts struct {
	Joined    uint64 // labels that found their row
	Corrected uint64 // labels that changed the label of a row
	Duplicate uint64 // labels that said what was known, or came after one with a higher place
	Late      uint64 // labels whose row was gone, or never came
	Expired   uint64 // rows whose label never came
	Repeated  uint64 // rows that replaced an earlier one of their key
}

// Join holds rows that wait for a label, labels that wait for a row, and, to know corrections and repetitions, what
// was given out.
type Join[P any] struct {
	limits Limits
	counts Counts
	keys   map[string]*entry[P]
	most   int // keys that the map has held since it was made: it does not shrink

	rows    list[row[P], *row[P]]     // in order of arrival
	labels  list[label[P], *label[P]] // in order of arrival
	waiting *row[P]                   // the first of rows that waits, nil where none does

	rowTime   time.Time // newest server time of a row
	labelTime time.Time // up to which labels were read

	rowBytes   int64 // that a row takes beside its payload and text
	labelBytes int64 // that a label takes beside its text

	bytes    int64 // of rows, labels and entries
	pending  int64 // of them, rows that wait
	early    int64 // of them, labels that found no row yet
	rowsHeld int   // rows that wait
	unjoined int   // labels that found no row yet
	out      []Out[P]
}

// entry is what is known of one key.
type entry[P any] struct {
	key    string
	rows   *row[P]   // newest first; more than one where rows of a key are more than Wait apart
	labels *label[P] // highest place first; more than one while rows may come that only an older one reaches
}

// row is a row that waits, or what is remembered of one that was given out or has expired.
type row[P any] struct {
	links[row[P]]
	entry   *entry[P]
	older   *row[P]
	place   Place
	time    time.Time
	state   state
	payload P // while it waits
	size    int64
	text    string // that it was given out with
	by      Place  // the label that said so; zero where it was the row's own
}

type state int

const (
	waits state = iota
	given
	gone // expired
)

// label is a label that waits for a row, or the newest that a key had.
type label[P any] struct {
	links[label[P]]
	entry   *entry[P]
	older   *label[P]
	place   Place
	time    time.Time
	text    string
	size    int64
	counted bool // it joined, or was counted otherwise
}

// New makes an empty join.
func New[P any](l Limits) *Join[P] {
	return &Join[P]{limits: l, keys: map[string]*entry[P]{},
		rowBytes:   block(reflect.TypeFor[row[P]]().Size()),
		labelBytes: block(reflect.TypeFor[label[P]]().Size())}
}

// Counts says what became of labels and rows so far.
func (j *Join[P]) Counts() Counts { return j.counts }

// Bytes is what is held; at most Limits.Bytes after each event.
func (j *Join[P]) Bytes() int64 { return j.bytes + j.mapBytes() }

// Waiting is the number of rows that wait for a label and the bytes that they take, Early that of labels that found no
// row yet.
func (j *Join[P]) Waiting() (rows int, bytes int64) { return j.rowsHeld, j.pending }

// Early is the number of labels that found no row yet, and the bytes that they take.
func (j *Join[P]) Early() (labels int, bytes int64) { return j.unjoined, j.early }

// Oldest is the oldest row that waits; false where none does. A host that starts again reads its rows from here.
func (j *Join[P]) Oldest() (Place, bool) {
	if j.waiting == nil {
		return Place{}, false
	}
	return j.waiting.place, true
}

// Row takes a row. Rows come in the order of their places; one that came before changes nothing. The result is valid
// until the next event.
func (j *Join[P]) Row(r Row[P]) []Out[P] {
	j.out = j.out[:0]
	if r.Time.After(j.rowTime) {
		j.rowTime = r.Time
	}
	if r.Key == "" {
		if r.Has {
			j.out = append(j.out, Out[P]{Kind: Give, Place: r.Place, Time: r.Time, Text: r.Label, Payload: r.Payload})
		}
	} else {
		j.row(r)
	}
	j.sweep()
	return j.out
}

func (j *Join[P]) row(r Row[P]) {
	e := j.open(r.Key)
	var newer *row[P]
	older := e.rows
	for older != nil && older.place.Compare(r.Place) > 0 {
		newer, older = older, older.older
	}
	if older != nil && older.place == r.Place {
		return
	}
	if older != nil && r.Time.Sub(older.time) <= j.limits.Wait {
		j.counts.Repeated++
		if older.state == given {
			j.out = append(j.out, Out[P]{Kind: Withdraw, Place: older.place, Time: older.time})
		}
		j.forgetRow(older)
	}
	if newer != nil && newer.time.Sub(r.Time) <= j.limits.Wait {
		j.close(e)
		return
	}
	e = j.open(r.Key) // what was replaced may have been all that was known of the key
	n := &row[P]{entry: e, place: r.Place, time: r.Time, payload: r.Payload}
	n.size = j.rowBytes + int64(r.Size)
	j.bytes += n.size
	j.pending += n.size
	j.rowsHeld++
	if newer == nil {
		n.older, e.rows = e.rows, n
	} else {
		n.older, newer.older = newer.older, n
	}
	j.rows.push(n)
	if j.waiting == nil {
		j.waiting = n
	}
	j.prune(e)
	l := e.labels
	for l != nil && !j.reaches(l.time, n) {
		l = l.older
	}
	switch {
	case l != nil:
		j.give(n, l.text, l.place)
		j.count(l, &j.counts.Joined)
	case r.Has:
		j.give(n, r.Label, Place{})
	}
	if last, many := tooMany(e.rows, func(r *row[P]) *row[P] { return r.older }); many {
		j.dropRow(last)
	}
}

// Label takes a label. The result is valid until the next event.
func (j *Join[P]) Label(l Label) []Out[P] {
	j.out = j.out[:0]
	if l.Time.After(j.labelTime) {
		j.labelTime = l.Time
	}
	if l.Key != "" {
		j.label(l)
	}
	j.sweep()
	return j.out
}

func (j *Join[P]) label(l Label) {
	e := j.open(l.Key)
	var newer *label[P]
	older := e.labels
	for older != nil && older.place.Compare(l.Place) > 0 {
		newer, older = older, older.older
	}
	if older != nil && older.place == l.Place {
		return
	}
	n := &label[P]{entry: e, place: l.Place, time: l.Time, text: l.Text}
	n.size = j.labelBytes + textBytes(l.Text)
	j.bytes += n.size
	j.early += n.size
	j.unjoined++
	if newer == nil {
		n.older, e.labels = e.labels, n
	} else {
		n.older, newer.older = newer.older, n
	}
	j.labels.push(n)
	for r := e.rows; r != nil; r = r.older {
		j.tell(r, n)
	}
	if !n.counted && e.rows != nil && l.Time.After(e.rows.time) {
		j.count(n, &j.counts.Late) // it stays: a further row of the key may come
	}
	j.prune(e)
}

// tell lets a row of its key know a new label.
func (j *Join[P]) tell(r *row[P], l *label[P]) {
	switch {
	case r.state == gone || !j.reaches(l.time, r):
	case r.state == waits:
		j.give(r, l.text, l.place)
		j.count(l, &j.counts.Joined)
	case l.place.Compare(r.by) < 0 || l.text == r.text:
		if l.place.Compare(r.by) > 0 {
			r.by = l.place
		}
		j.count(l, &j.counts.Duplicate)
	default:
		j.size(r, textBytes(l.text)-textBytes(r.text))
		r.text, r.by = l.text, l.place
		j.out = append(j.out, Out[P]{Kind: Correct, Place: r.place, Time: r.time, Text: r.text, By: r.by})
		j.count(l, &j.counts.Corrected)
	}
}

// Reached says that all labels up to a server time were read, though none came of late.
func (j *Join[P]) Reached(t time.Time) {
	if t.After(j.labelTime) {
		j.labelTime = t
	}
	j.sweep()
}

func (j *Join[P]) reaches(t time.Time, r *row[P]) bool {
	return t.Sub(r.time).Abs() <= j.limits.Wait
}

// give hands a row that waits to the host, and remembers its place.
func (j *Join[P]) give(r *row[P], text string, by Place) {
	j.out = append(j.out, Out[P]{Kind: Give, Place: r.place, Time: r.time, Text: text, By: by, Payload: r.payload})
	j.settle(r, given)
	r.text, r.by = text, by
	j.size(r, textBytes(text))
}

// settle ends the waiting of a row and frees what it held.
func (j *Join[P]) settle(r *row[P], s state) {
	var none P
	j.pending -= r.size
	j.rowsHeld--
	j.size(r, j.rowBytes-r.size)
	r.payload, r.state = none, s
	for j.waiting != nil && j.waiting.state != waits {
		j.waiting = j.waiting.next
	}
}

func (j *Join[P]) size(r *row[P], change int64) {
	r.size += change
	j.bytes += change
}

// count counts a label once.
func (j *Join[P]) count(l *label[P], as *uint64) {
	if l.counted {
		return
	}
	*as++
	l.counted = true
	j.early -= l.size
	j.unjoined--
}
