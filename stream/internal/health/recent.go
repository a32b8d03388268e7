package health

// recent are the newest messages, up to a limit, and how many of them were bad.
type recent struct {
	isBad   []bool // ring
	at, bad int    // of the newest; number of true values
}

// push adds a message in place of the oldest one.
func (r *recent) push(isBad bool, limit int) {
	if len(r.isBad) < limit {
		r.isBad = append(r.isBad, false)
	}
	if r.at = (r.at + 1) % len(r.isBad); r.isBad[r.at] {
		r.bad--
	}
	if r.isBad[r.at] = isBad; isBad {
		r.bad++
	}
}
