package health

// recent are the newest of something, up to a limit.
type recent[T any] struct {
	values []T // ring
	at     int // of the newest
}

// push adds a value, and returns the one that it replaces: the zero value while there are fewer than the limit.
func (r *recent[T]) push(v T, limit int) (old T) {
	if len(r.values) < limit {
		r.values = append(r.values, v)
		r.at = len(r.values) - 1
		return old
	}
	r.at = (r.at + 1) % limit
	old, r.values[r.at] = r.values[r.at], v
	return old
}
