package registry

// Listed is one entry of a list of models: a version, or a rejected candidate, which has no name.
type Listed struct {
	Pipeline string `json:"pipeline"`
	State    string `json:"state"` // live, previous, kept, damaged or rejected
	Pinned   bool   `json:"pinned"`
	Version
}

// Chosen says which models of a pipeline the pointer names.
type Chosen struct {
	Pipeline string `json:"pipeline"`
	Live     string `json:"live"`
	Previous string `json:"previous"`
	Pinned   bool   `json:"pinned"`
}

// Chosen is what the pointer of a pipeline names.
func (p *Pointer) Chosen(pipeline string) Chosen {
	return Chosen{pipeline, p.Live, p.Previous, p.Pin != ""}
}

// List returns the models that the pointer of a pipeline lists: the versions, oldest first, then the rejected
// candidates, oldest first.
func (p *Pointer) List(pipeline string) []Listed {
	out := []Listed{}
	for _, v := range p.Versions {
		state := "kept"
		if v.Damaged {
			state = "damaged"
		}
		switch v.Name {
		case p.Live:
			state = "live"
		case p.Previous:
			state = "previous"
		}
		out = append(out, Listed{pipeline, state, v.Name == p.Pin, v})
	}
	for _, r := range p.Refused {
		out = append(out, Listed{pipeline, "rejected", false, Version{Parent: r.Live, Rows: r.Rows, Score: r.Score,
			LiveScore: r.LiveScore, Why: r.Reason, Created: r.Time}})
	}
	return out
}
