package training

// sequences is a set of sequence numbers, kept as ascending runs that do not touch.
type sequences []run

type run struct{ first, last uint64 }

// maxRuns bounds the set; the newest runs stay. A stream that is read from end to end has one run, and one more for
// each message that another process received.
const maxRuns = 1024

// add adds a run and reports whether its last number was new.
func (s *sequences) add(first, last uint64) bool {
	var out sequences
	added := false
	isNew := true
	for _, have := range *s {
		switch {
		case have.last+1 < first:
			out = append(out, have)
		case last+1 < have.first:
			if !added {
				out, added = append(out, run{first, last}), true
			}
			out = append(out, have)
		default:
			isNew = isNew && (last < have.first || last > have.last)
			first, last = min(first, have.first), max(last, have.last)
		}
	}
	if !added {
		out = append(out, run{first, last})
	}
	if len(out) > maxRuns {
		out = out[len(out)-maxRuns:]
	}
	*s = out
	return isNew
}
