package pencil

// frontOrder is the order of King (1970), based on start: of the nodes with a neighbour already ordered, the next one
// is always the one that adds the fewest new ones; ties go to the first one reached. Clusters that only a few edges
// join are finished one after the other, whereas the levels of Cuthill and McKee mix them.
func frontOrder(m Entries, start []int) []int {
	n := m.Order()
	f := &front{m: m, fresh: make([]int, n), state: make([]int8, n)}
	for i := range n {
		columns, _ := m.Row(i)
		for len(f.buckets) <= len(columns) {
			f.buckets = append(f.buckets, nil)
		}
		f.fresh[i] = len(columns)
	}
	f.head = make([]int, len(f.buckets))
	f.least = len(f.buckets)
	order := make([]int, 0, n)
	for _, seed := range start { // the first node of each component is at an end of it
		if f.state[seed] == untouched {
			f.reach(seed)
		}
		for v := f.next(); v >= 0; v = f.next() {
			f.state[v] = behind
			order = append(order, v)
			columns, _ := m.Row(v)
			for _, c := range columns {
				if f.state[c] == untouched {
					f.reach(c)
				}
			}
		}
	}
	return order
}

const (
	untouched = iota
	ahead     // with a neighbour that is ordered
	behind
)

// front is the reached nodes, in buckets by how many of their neighbours nothing has reached. A node whose bucket
// changes also stays in the old one until that is read.
type front struct {
	m       Entries
	fresh   []int // of each node: unreached neighbours, and itself
	state   []int8
	buckets [][]int32
	head    []int // of each bucket: nodes before it were taken
	least   int   // lower buckets are empty
}

// reach adds node v to the front.
func (f *front) reach(v int) {
	f.state[v] = ahead
	columns, _ := f.m.Row(v)
	f.put(v)
	for _, c := range columns {
		f.fresh[c]--
		if f.state[c] == ahead {
			f.put(c)
		}
	}
}

func (f *front) put(v int) {
	at := f.fresh[v]
	f.buckets[at] = append(f.buckets[at], int32(v))
	f.least = min(f.least, at)
}

// next is the next node of the front, or -1.
func (f *front) next() int {
	for ; f.least < len(f.buckets); f.least++ {
		bucket := f.buckets[f.least]
		for f.head[f.least] < len(bucket) {
			v := int(bucket[f.head[f.least]])
			f.head[f.least]++
			if f.state[v] == ahead && f.fresh[v] == f.least {
				return v
			}
		}
		f.buckets[f.least], f.head[f.least] = bucket[:0], 0
	}
	return -1
}
