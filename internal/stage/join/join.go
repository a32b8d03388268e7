// Package join joins rows by key with labels that arrive later, or earlier. It is a step machine over two streams:
// [Join.AddRow] and [Join.AddLabel] take events in the order in which they arrive and return their outcomes. It knows
// neither clock nor transport.
//
// Which label a row ends with is a function of the two streams, never of how they interleave:
//
//   - A label reaches a row of its key if their server times are at most Limits.Wait apart, whichever came first.
//   - Of the labels that reach a row, the one with the highest position in its stream wins. A label in the row itself
//     precedes them all. So a row that was given may be corrected later.
//   - A row with the key of an earlier row that is at most Wait older replaces it: the earlier one is never given, or
//     withdrawn.
//
// This holds as long as Limits.Bytes suffices for what arrives in between. Beyond it the oldest entries are removed
// first: a waiting row expires, a label without a row was too late, and rows that were given can no longer be
// corrected.
package join

import (
	"cmp"
	"container/list"
	"reflect"
	"time"
)

// Position is the position of a row or label: the creation time of its stream in nanoseconds, its message and its
// index in the message.
type Position struct {
	Created int64
	Seq     uint64
	Row     int
}

// Compare orders positions in one kind of stream. A stream that was created later comes after.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Created, q.Created), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Row, q.Row))
}

// Row is a row of the input. The join returns Payload with it; Size is its memory.
type Row[P any] struct {
	Position Position
	Time     time.Time // of its message, by the server
	Key      string    // "" if it has none: then only its own label counts
	Label    string    // the label that the row carries
	HasLabel bool      // it carries a label
	Payload  P
	Size     int
}

// Label is a row of a message of labels.
type Label struct {
	Position Position
	Time     time.Time
	Key      string
	Text     string
}

// Kind is the kind of an outcome.
type Kind int

// The kinds of outcome.
const (
	Give     Kind = iota // a row with its label is to be learned
	Correct              // a row that was given has another label
	Withdraw             // a row that was given was replaced and is to be removed
)

func (k Kind) String() string { return [...]string{"give", "correct", "withdraw"}[k] }

// Out is an outcome.
type Out[P any] struct {
	Kind     Kind
	Position Position
	Time     time.Time
	Text     string
	By       Position // of the label; zero if the row carries it
	Payload  P        // of Give
}

// Limits bound the join.
type Limits struct {
	Wait  time.Duration // maximum time between a row and its label
	Bytes int64         // payloads, keys, texts and the join's own memory
}

// Counts counts what happened to labels and rows so far.
type Counts struct {
	Joined    uint64 // labels that found their row
	Corrected uint64 // labels that changed the label of a row
	Duplicate uint64 // labels that repeated what was known, or came after one with a higher position
	Late      uint64 // labels whose row had expired or never came
	Expired   uint64 // rows whose label never came
	Repeated  uint64 // rows that replaced an earlier one of their key
}

// Join holds rows that wait for a label, labels that wait for a row, and a memory of given rows, to recognise
// corrections and repetitions.
type Join[P any] struct {
	limits  Limits
	counts  Counts
	keys    map[string]*entry[P]
	maxKeys int // largest size of the map, which never shrinks

	rows    list.List // of *row[P], in order of arrival
	labels  list.List // of *label[P], in order of arrival
	waiting *row[P]   // the first row that waits, nil if none does

	rowTime   time.Time // newest server time of a row
	labelTime time.Time // up to which labels were read

	rowBytes   int64 // memory of a row besides its payload and text
	labelBytes int64 // memory of a label besides its text

	bytes         int64 // of rows, labels and entries
	pending       int64 // of rows that wait
	early         int64 // of labels that wait
	rowsWaiting   int   // rows that wait
	labelsWaiting int   // labels that wait
	out           []Out[P]
}

// entry is the state of one key.
type entry[P any] struct {
	key    string
	rows   *row[P]   // newest first; more than one if rows of a key are more than Wait apart
	labels *label[P] // highest position first; more than one while a row may arrive that only an older one reaches
}

// row is a row that waits, was given or has expired.
type row[P any] struct {
	at       *list.Element
	entry    *entry[P]
	older    *row[P]
	position Position
	time     time.Time
	state    state
	payload  P // while it waits
	size     int64
	text     string   // label that it was given with
	by       Position // position of that label; zero if the row carried it
}

type state int

const (
	rowWaiting state = iota
	rowGiven
	rowExpired // expired
)

// label is a label that waits for a row, or the newest of a key.
type label[P any] struct {
	at       *list.Element
	entry    *entry[P]
	older    *label[P]
	position Position
	time     time.Time
	text     string
	size     int64
	counted  bool // it is in Counts
}

// New returns an empty join.
func New[P any](l Limits) *Join[P] {
	element := block(reflect.TypeFor[list.Element]().Size())
	return &Join[P]{limits: l, keys: map[string]*entry[P]{}, rowBytes: element + block(reflect.TypeFor[row[P]]().Size()),
		labelBytes: element + block(reflect.TypeFor[label[P]]().Size())}
}

// Counts returns what happened to labels and rows so far.
func (j *Join[P]) Counts() Counts { return j.counts }

// Bytes is the memory in use; at most Limits.Bytes after each event.
func (j *Join[P]) Bytes() int64 { return j.bytes + j.mapBytes() }

// Waiting returns the number of rows that wait for a label, and their memory.
func (j *Join[P]) Waiting() (rows int, bytes int64) { return j.rowsWaiting, j.pending }

// Early returns the number of labels that wait for a row, and their memory.
func (j *Join[P]) Early() (labels int, bytes int64) { return j.labelsWaiting, j.early }

// Oldest returns the oldest row that waits, false if none does. After a restart, rows are read from there on.
func (j *Join[P]) Oldest() (Position, bool) {
	if j.waiting == nil {
		return Position{}, false
	}
	return j.waiting.position, true
}

// AddRow adds a row. Rows must arrive in the order of their positions; a repeated one is ignored. The result is valid
// until the next event.
func (j *Join[P]) AddRow(r Row[P]) []Out[P] {
	j.out = j.out[:0]
	if r.Time.After(j.rowTime) {
		j.rowTime = r.Time
	}
	if r.Key == "" {
		if r.HasLabel {
			j.out = append(j.out, Out[P]{Kind: Give, Position: r.Position, Time: r.Time, Text: r.Label, Payload: r.Payload})
		}
	} else {
		j.addRow(r)
	}
	j.evict()
	return j.out
}

func (j *Join[P]) addRow(r Row[P]) {
	e := j.open(r.Key)
	var newer *row[P]
	older := e.rows
	for older != nil && older.position.Compare(r.Position) > 0 {
		newer, older = older, older.older
	}
	if older != nil && older.position == r.Position {
		return
	}
	if older != nil && r.Time.Sub(older.time) <= j.limits.Wait {
		j.counts.Repeated++
		if older.state == rowGiven {
			j.out = append(j.out, Out[P]{Kind: Withdraw, Position: older.position, Time: older.time})
		}
		j.forgetRow(older)
	}
	if newer != nil && newer.time.Sub(r.Time) <= j.limits.Wait {
		return
	}
	e = j.open(r.Key) // the replaced row may have been all that the entry held
	n := &row[P]{entry: e, position: r.Position, time: r.Time, payload: r.Payload}
	n.size = j.rowBytes + int64(r.Size)
	j.bytes += n.size
	j.pending += n.size
	j.rowsWaiting++
	if newer == nil {
		n.older, e.rows = e.rows, n
	} else {
		n.older, newer.older = newer.older, n
	}
	n.at = j.rows.PushBack(n)
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
		j.give(n, l.text, l.position)
		j.count(l, &j.counts.Joined)
	case r.HasLabel:
		j.give(n, r.Label, Position{})
	}
	if last, many := tooMany(e.rows, func(r *row[P]) *row[P] { return r.older }); many {
		j.dropRow(last)
	}
}

// AddLabel adds a label. The result is valid until the next event.
func (j *Join[P]) AddLabel(l Label) []Out[P] {
	j.out = j.out[:0]
	if l.Time.After(j.labelTime) {
		j.labelTime = l.Time
	}
	if l.Key != "" {
		j.addLabel(l)
	}
	j.evict()
	return j.out
}

func (j *Join[P]) addLabel(l Label) {
	e := j.open(l.Key)
	var newer *label[P]
	older := e.labels
	for older != nil && older.position.Compare(l.Position) > 0 {
		newer, older = older, older.older
	}
	if older != nil && older.position == l.Position {
		return
	}
	n := &label[P]{entry: e, position: l.Position, time: l.Time, text: l.Text}
	n.size = j.labelBytes + textBytes(l.Text)
	j.bytes += n.size
	j.early += n.size
	j.labelsWaiting++
	if newer == nil {
		n.older, e.labels = e.labels, n
	} else {
		n.older, newer.older = newer.older, n
	}
	n.at = j.labels.PushBack(n)
	for r := e.rows; r != nil; r = r.older {
		j.applyLabel(r, n)
	}
	if !n.counted && e.rows != nil && l.Time.After(e.rows.time) {
		j.count(n, &j.counts.Late) // it stays: another row of the key may come
	}
	j.prune(e)
}

// applyLabel applies a new label to a row of its key.
func (j *Join[P]) applyLabel(r *row[P], l *label[P]) {
	switch {
	case r.state == rowExpired || !j.reaches(l.time, r):
	case r.state == rowWaiting:
		j.give(r, l.text, l.position)
		j.count(l, &j.counts.Joined)
	case l.position.Compare(r.by) < 0 || l.text == r.text:
		if l.position.Compare(r.by) > 0 {
			r.by = l.position
		}
		j.count(l, &j.counts.Duplicate)
	default:
		j.resize(r, textBytes(l.text)-textBytes(r.text))
		r.text, r.by = l.text, l.position
		j.out = append(j.out, Out[P]{Kind: Correct, Position: r.position, Time: r.time, Text: r.text, By: r.by})
		j.count(l, &j.counts.Corrected)
	}
}

// Reached records that all labels up to a server time were read, even if there were none.
func (j *Join[P]) Reached(t time.Time) {
	if t.After(j.labelTime) {
		j.labelTime = t
	}
	j.evict()
}

func (j *Join[P]) reaches(t time.Time, r *row[P]) bool {
	return t.Sub(r.time).Abs() <= j.limits.Wait
}

// give returns a waiting row to the caller, and remembers its position.
func (j *Join[P]) give(r *row[P], text string, by Position) {
	j.out = append(j.out, Out[P]{Kind: Give, Position: r.position, Time: r.time, Text: text, By: by, Payload: r.payload})
	j.release(r, rowGiven)
	r.text, r.by = text, by
	j.resize(r, textBytes(text))
}

// release ends the waiting of a row and frees its memory.
func (j *Join[P]) release(r *row[P], s state) {
	var none P
	j.pending -= r.size
	j.rowsWaiting--
	j.resize(r, j.rowBytes-r.size)
	r.payload, r.state = none, s
	for j.waiting != nil && j.waiting.state != rowWaiting {
		j.waiting = valueOf[row[P]](j.waiting.at.Next())
	}
}

func (j *Join[P]) resize(r *row[P], change int64) {
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
	j.labelsWaiting--
}

// valueOf is the value of an element of a list, nil of none.
func valueOf[T any](e *list.Element) *T {
	if e == nil {
		return nil
	}
	return e.Value.(*T)
}

// evict removes what can no longer matter, and the oldest entries if they exceed the memory.
func (j *Join[P]) evict() {
	wait := j.limits.Wait
	for j.waiting != nil && j.labelTime.Sub(j.waiting.time) > wait {
		j.expire(j.waiting)
	}
	// An expired row, or one that can no longer be corrected, is remembered for as long again: a label for it is late.
	both := j.labelTime
	if j.rowTime.Before(both) {
		both = j.rowTime
	}
	row := func() *row[P] { return valueOf[row[P]](j.rows.Front()) }
	label := func() *label[P] { return valueOf[label[P]](j.labels.Front()) }
	for r := row(); r != nil && both.Sub(r.time) > 2*wait; r = row() {
		j.forgetRow(r)
	}
	for l := label(); l != nil && j.rowTime.Sub(l.time) > wait; l = label() {
		j.forgetLabel(l, &j.counts.Late)
	}
	for j.Bytes() > j.limits.Bytes {
		r, l := row(), label()
		switch {
		case r == nil && l == nil:
			return
		case l == nil || r != nil && !r.time.After(l.time):
			j.dropRow(r)
		default:
			j.forgetLabel(l, &j.counts.Late)
		}
	}
}

func (j *Join[P]) expire(r *row[P]) {
	j.counts.Expired++
	j.release(r, rowExpired)
}

// dropRow removes a row before its time.
func (j *Join[P]) dropRow(r *row[P]) {
	if r.state == rowWaiting {
		j.expire(r)
	}
	j.forgetRow(r)
}

func (j *Join[P]) forgetRow(r *row[P]) {
	if r.state == rowWaiting {
		j.release(r, rowExpired)
	}
	at := &r.entry.rows
	for *at != r {
		at = &(*at).older
	}
	*at = r.older
	j.rows.Remove(r.at)
	j.bytes -= r.size
	j.close(r.entry)
}

// forgetLabel removes a label and, unless it was counted before, counts it.
func (j *Join[P]) forgetLabel(l *label[P], as *uint64) {
	j.count(l, as)
	at := &l.entry.labels
	for *at != l {
		at = &(*at).older
	}
	*at = l.older
	j.labels.Remove(l.at)
	j.bytes -= l.size
	j.close(l.entry)
}

// prune removes the labels of a key that no row can need any more: each row that may still come, and that one of them
// reaches, is reached by one with a higher position.
func (j *Join[P]) prune(e *entry[P]) {
	top := e.labels
	for top != nil && top.time.Sub(j.rowTime) > j.limits.Wait {
		top = top.older
	}
	if top != nil {
		for l := top.older; l != nil; {
			next := l.older
			if !top.time.Before(l.time) {
				j.forgetLabel(l, &j.counts.Duplicate)
			}
			l = next
		}
	}
	if last, many := tooMany(e.labels, func(l *label[P]) *label[P] { return l.older }); many {
		j.forgetLabel(last, &j.counts.Late)
	}
}

// maxOfKey bounds the rows and labels that are kept for one key, so that a key that all rows share costs no more than
// any other. Reaching it takes 64 rows of one key, each more than Wait after the one before, or 64 labels that arrive
// more than Wait before their rows.
const maxOfKey = 64

// tooMany returns the last element of a chain if it is longer than allowed.
func tooMany[T any](first *T, older func(*T) *T) (last *T, many bool) {
	n := 0
	for t := first; t != nil; t = older(t) {
		last = t
		n++
	}
	return last, n > maxOfKey
}

// open returns the entry of a key, which it creates if needed.
func (j *Join[P]) open(key string) *entry[P] {
	e := j.keys[key]
	if e == nil {
		e = &entry[P]{key: key}
		j.keys[key] = e
		j.maxKeys = max(j.maxKeys, len(j.keys))
		j.bytes += entryBytes + textBytes(key)
	}
	return e
}

// close removes the entry of a key if it is empty.
func (j *Join[P]) close(e *entry[P]) {
	if e.rows != nil || e.labels != nil || j.keys[e.key] != e {
		return
	}
	delete(j.keys, e.key)
	j.bytes -= entryBytes + textBytes(e.key)
	if j.maxKeys > 1024 && len(j.keys) < j.maxKeys/4 {
		small := make(map[string]*entry[P], len(j.keys))
		for k, v := range j.keys {
			small[k] = v
		}
		j.keys, j.maxKeys = small, len(small)
	}
}

// Memory of the join besides payloads, in bytes; a test compares it with the heap.
const (
	entryBytes  = 32
	keyMapBytes = 56 // a key's share of a map that has just doubled
)

func (j *Join[P]) mapBytes() int64 { return keyMapBytes * int64(j.maxKeys) }

// block is the maximum size that the allocator uses for a value of n bytes.
func block(n uintptr) int64 { return int64(n+n/8+15) &^ 15 }

func textBytes(s string) int64 { return block(uintptr(len(s))) }
