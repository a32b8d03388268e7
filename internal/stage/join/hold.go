package join

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
	for r := j.rows.head; r != nil && both.Sub(r.time) > 2*wait; r = j.rows.head {
		j.forgetRow(r)
	}
	for l := j.labels.head; l != nil && j.rowTime.Sub(l.time) > wait; l = j.labels.head {
		j.forgetLabel(l, &j.counts.Late)
	}
	for j.Bytes() > j.limits.Bytes {
		r, l := j.rows.head, j.labels.head
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
	j.rows.remove(r)
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
	j.labels.remove(l)
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
// another. It takes that many rows more than Wait apart, or labels more than Wait ahead of the rows, to reach it.
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
