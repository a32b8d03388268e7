package tile

import (
	"sync"
	"sync/atomic"
)

// plan is several sums as units of work. They are handed out in order, so that a unit may wait for earlier ones: these
// are already being worked on.
type plan struct {
	stages  []stage
	tasks   []task
	buffers int // stages that data has room for
	size    int // of data
	data    []float64

	mu   sync.Mutex
	done sync.Cond // signals that a stage is packed, or multiplied
}

// stage is the blocks that are packed at once.
type stage struct {
	blocks        []block
	packs, strips atomic.Int64 // units of work left
}

// task is a unit of work of a stage.
type task struct {
	stage int
	// To pack: count rows of an operand of a block starting at first, or columns if the operand is given by columns.
	block, first, count int
	right               bool
	// If count is 0, to multiply: some rows and panels of the result of blocks [from, to), which belong to one sum.
	from, to, row, panel int
}

func newPlan(sums []Sum, workers int) *plan {
	p, sums := &plan{}, narrow(sums)
	p.done.L = &p.mu
	largest := 0
	size := packed // of the current stage
	for i := range sums {
		s := &sums[i]
		if s.A.M == 0 || s.B.M == 0 {
			continue
		}
		for from := 0; from < s.A.K; from += Depth {
			k := block{sum: s, from: from, rows: min(Depth, s.A.K-from)}
			if len(p.stages) == 0 || size+k.size() > packed {
				p.stages = append(p.stages, stage{})
				size = 0
			}
			k.at = size
			last := &p.stages[len(p.stages)-1]
			last.blocks = append(last.blocks, k)
			size += k.size()
			largest = max(largest, size)
		}
	}
	p.buffers = 1
	lag := 0 // stages that are packed before the first is multiplied
	if workers > 1 && len(p.stages) > 1 {
		p.buffers, lag = min(3, len(p.stages)), 1
	}
	for i := range p.stages {
		for k := range p.stages[i].blocks {
			p.stages[i].blocks[k].at += i % p.buffers * largest
		}
	}
	p.size = p.buffers * largest
	for i := range len(p.stages) + lag {
		if i < len(p.stages) {
			p.pack(i)
		}
		if i >= lag {
			p.multiply(i - lag)
		}
	}
	return p
}

// pack makes the tasks that pack a stage.
func (p *plan) pack(at int) {
	st, before := &p.stages[at], len(p.tasks)
	for i := range st.blocks {
		k := &st.blocks[i]
		for _, right := range []bool{false, true} {
			o := k.sum.A
			if right {
				if o = k.sum.B; o == k.sum.A {
					break
				}
			}
			size := k.rows
			if o.Column != nil {
				size = panels(o.M) * panel
			}
			for first := 0; first < size; first += stripRows {
				t := task{stage: at, block: i, first: first, count: min(stripRows, size-first), right: right}
				p.tasks = append(p.tasks, t)
			}
		}
	}
	st.packs.Store(int64(len(p.tasks) - before))
}

// multiply makes the tasks that add the products of a stage.
func (p *plan) multiply(at int) {
	st, before := &p.stages[at], len(p.tasks)
	for from := 0; from < len(st.blocks); {
		s, to := st.blocks[from].sum, from+1
		for to < len(st.blocks) && st.blocks[to].sum == s {
			to++
		}
		for i := 0; i < s.A.M; i += stripRows {
			for j := 0; j < panels(s.B.M); j += stripPanels {
				if !s.Upper || (j+stripPanels)*panel > i {
					p.tasks = append(p.tasks, task{stage: at, from: from, to: to, row: i, panel: j})
				}
			}
		}
		from = to
	}
	st.strips.Store(int64(len(p.tasks) - before))
}

// do runs task i once the tasks that it depends on are done.
func (p *plan) do(i int) {
	t := &p.tasks[i]
	st := &p.stages[t.stage]
	if t.count > 0 {
		defer p.finish(&st.packs)
		if before := t.stage - p.buffers; before >= 0 {
			p.wait(&p.stages[before].strips)
		}
		st.blocks[t.block].pack(t, p.data)
		return
	}
	defer p.finish(&st.strips)
	p.wait(&st.packs)
	if t.stage > 0 {
		p.wait(&p.stages[t.stage-1].strips)
	}
	var edge [blockRows * panel]float64
	for k := t.from; k < t.to; k++ {
		st.blocks[k].multiply(t.row, t.panel, p.data[st.blocks[k].at:], edge[:])
	}
}

// finish decrements left, after a panic too, so that no worker waits indefinitely.
func (p *plan) finish(left *atomic.Int64) {
	if left.Add(-1) == 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done.Broadcast()
	}
}

// wait returns when left is 0, usually at once or soon.
func (p *plan) wait(left *atomic.Int64) {
	for range 1 << 14 {
		if left.Load() == 0 {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for left.Load() > 0 {
		p.done.Wait()
	}
}
