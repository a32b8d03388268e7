package lease

import (
	"cmp"
	"maps"
	"slices"
)

// Assignment is which member of a group owns which part of its work, by name. The coordinator of the group stores it in
// its claim, and its successor continues from it.
type Assignment struct {
	Number uint64          `json:"number"` // grows with each change, see isBefore; 0: none
	Parts  map[string]Part `json:"parts,omitempty"`
}

// Part is the owner of a part.
type Part struct {
	Owner string `json:"owner"`
	// Revoked is the number of the assignment with which the owner was to drain the part; 0: it is to keep it.
	Revoked uint64 `json:"revoked,omitempty"`
}

// isBefore reports whether a number of an assignment is older than another one. Numbers wrap around: a client may have
// stored the highest.
func isBefore(a, b uint64) bool { return b != 0 && (a == 0 || int64(a-b) < 0) }

// next is the assignment that follows from the claims of all members. A part gets another owner only when the one
// before has drained it, which that one's claim shows, or is no member any more. One that leaves begins no part, so
// none has to be revoked from it. groups are the parts, each group of which is shared equally; members with other
// settings than these own none.
func (a Assignment) next(groups [][]string, settings map[string]string, members []*Claim) Assignment {
	next := Assignment{Number: a.Number, Parts: map[string]Part{}}
	byName := map[string]*Claim{}
	var able []string
	for _, m := range members {
		// It may have left, and joined again with another key.
		if before := byName[m.Holder]; before == nil || before.IsLeaving {
			byName[m.Holder] = m
		}
		if isBefore(next.Number, m.Seen) {
			next.Number = m.Seen
		}
		if !m.IsLeaving && maps.Equal(m.Settings, settings) {
			able = append(able, m.Holder)
		}
	}
	isBehind := next.Number != a.Number // a member has read a newer assignment, and would ignore this one
	next.Number = max(next.Number+1, 1)
	for part, p := range a.Parts {
		m := byName[p.Owner]
		isDrained := m != nil && !slices.Contains(m.Holds, part) &&
			(m.IsLeaving || p.Revoked > 0 && !isBefore(m.Seen, p.Revoked))
		if m != nil && !isDrained {
			next.Parts[part] = p
		}
	}
	isPart := map[string]bool{}
	for _, part := range slices.Concat(groups...) {
		isPart[part] = true
	}
	for _, m := range members { // the assignment that they have followed may be lost
		for _, part := range m.Holds {
			if _, isKnown := next.Parts[part]; !isKnown && isPart[part] {
				next.Parts[part] = Part{Owner: m.Holder}
			}
		}
	}
	wanted := balance(groups, next.Parts, able)
	for part, p := range next.Parts {
		if m := byName[p.Owner]; p.Revoked == 0 && wanted[part] != p.Owner && !m.IsLeaving {
			next.Parts[part] = Part{p.Owner, next.Number}
		}
	}
	for part, owner := range wanted {
		if _, isOwned := next.Parts[part]; !isOwned {
			next.Parts[part] = Part{Owner: owner}
		}
	}
	if maps.Equal(next.Parts, a.Parts) && !isBehind {
		return a
	}
	return next
}

// owners are the members that own parts, sorted by name.
func (a *Assignment) owners() (names []string) {
	for _, p := range a.Parts {
		names = append(names, p.Owner)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// balance is who is to own each part: of each group all have the same number, or one more. As few parts as possible
// move.
func balance(groups [][]string, parts map[string]Part, members []string) (owners map[string]string) {
	owners = map[string]string{}
	if len(members) == 0 {
		return owners
	}
	all := map[string]int{}
	for _, group := range groups {
		of := map[string]int{} // parts of the group by member
		byLoad := func(a, b string) int {
			return cmp.Or(cmp.Compare(of[a], of[b]), cmp.Compare(all[a], all[b]), cmp.Compare(a, b))
		}
		give := func(part, to string) {
			if from, isOwned := owners[part]; isOwned {
				of[from]--
				all[from]--
			}
			owners[part] = to
			of[to]++
			all[to]++
		}
		for _, part := range group {
			if p := parts[part]; p.Revoked == 0 && slices.Contains(members, p.Owner) {
				give(part, p.Owner)
			}
		}
		for _, part := range group {
			if owners[part] == "" {
				give(part, slices.MinFunc(members, byLoad))
			}
		}
		for {
			most, least := slices.MaxFunc(members, byLoad), slices.MinFunc(members, byLoad)
			if of[most]-of[least] <= 1 {
				break
			}
			give(group[slices.IndexFunc(group, func(part string) bool { return owners[part] == most })], least)
		}
	}
	return owners
}

// member is what a member of a group does with its parts, without requests and clocks.
type member struct {
	name      string
	newest    Assignment
	stored    []string        // the parts in its stored claim
	running   map[string]bool // those that it works on, or drains
	isLeaving bool            // it drains all
}

// read notes an assignment. An older one than before is that of a server that does not know the newest yet.
func (m *member) read(a Assignment) {
	if !isBefore(a.Number, m.newest.Number) {
		m.newest = a
	}
}

// isAssigned reports whether the member is to own a part.
func (m *member) isAssigned(part string) bool {
	return !m.isLeaving && m.newest.Parts[part] == Part{Owner: m.name}
}

// holds are the parts that its claim has to list: those that it works on, and before that those that it is to own.
func (m *member) holds() []string {
	all := slices.Collect(maps.Keys(m.running))
	for part := range m.newest.Parts {
		if m.isAssigned(part) && !m.running[part] {
			all = append(all, part)
		}
	}
	slices.Sort(all)
	return all
}

// partsToStart are the assigned parts whose work may begin: the claim that lists them is stored.
func (m *member) partsToStart() (parts []string) {
	for _, part := range m.stored {
		if m.isAssigned(part) && !m.running[part] {
			parts = append(parts, part)
		}
	}
	return parts
}
