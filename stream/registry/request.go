package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/embedd/embedd/model"
)

// Request is an operator's request to choose the live version.
type Request struct {
	Version string // to make live; "": the default of the request
	// Live is the version that was live when the operator decided; "": any. If another one is, the error is ErrOvertaken.
	Live string
	By   string // who requests it, and from where, for the record
	// Check says why a model cannot go live; nil: any can.
	Check func(*model.Model) error
}

// checkLive returns ErrOvertaken if another version is live than the operator knew of. The error says since when.
func (q *Request) checkLive(p *Pointer) error {
	if q.Live == "" || q.Live == p.Live {
		return nil
	}
	text := fmt.Sprintf("the request was made while %s was live, and %s is", q.Live, cmp.Or(p.Live, "no version"))
	now, then := p.Find(p.Live), p.Find(q.Live)
	if now != nil && then != nil && now.Epoch != then.Epoch {
		text += fmt.Sprintf(", of epoch %d instead of %d", now.Epoch, then.Epoch)
	}
	for _, t := range slices.Backward(p.Turns) {
		if t.Live == p.Live && t.Was != "" {
			text += fmt.Sprintf(", by %s at %s", t.What, t.Time.Format(time.RFC3339))
			if t.By != "" {
				text += " of " + t.By
			}
			break
		}
	}
	return fmt.Errorf("%w: %s; look again, and repeat the request for the version that is live now", ErrOvertaken, text)
}

// Pin makes a version the live one and keeps it live; without a version it pins the live one. The error is ErrMissing,
// ErrDamaged, ErrDim, ErrOvertaken, or that of Request.Check; the pointer is as it is stored then.
func (c *catalog) Pin(ctx context.Context, q Request) (*Pointer, error) {
	return c.choose(ctx, q, pin)
}

// Unpin lets training continue from the pinned version. The error is ErrNotPinned if there is none.
func (c *catalog) Unpin(ctx context.Context, q Request) (*Pointer, error) {
	return c.update(ctx, func(p *Pointer) error {
		if err := q.checkLive(p); err != nil {
			return err
		}
		if p.Pin == "" {
			return fmt.Errorf("%w: pipeline %s has none", ErrNotPinned, c.pipeline)
		}
		p.Pin = ""
		p.turn(c.options.Clock(), "unpin", "", q.By)
		return nil
	})
}

// Rollback makes an earlier version the live one, from which training continues; without a version it is the one
// before the live one. Its results are those of Pin, and ErrPinned while a version is pinned.
func (c *catalog) Rollback(ctx context.Context, q Request) (*Pointer, error) {
	return c.choose(ctx, q, rollback)
}

const pin, rollback = "pin", "rollback" // requests, as Turn.What names them

// choose makes a stored version the live one, after it was read and checked as at a start, by pin or rollback.
func (c *catalog) choose(ctx context.Context, q Request, action string) (*Pointer, error) {
	var m *model.Model // of the version that was read last
	var version string // its name
	return c.update(ctx, func(p *Pointer) error {
		if err := q.checkLive(p); err != nil {
			return err
		}
		v, err := c.target(p, q, action, version)
		if err != nil {
			return err
		}
		if version != v.Name {
			if m, err = c.get(ctx, *v); err == nil && q.Check != nil {
				err = q.Check(m)
			}
			if err != nil {
				return fmt.Errorf("%w; pipeline %s has the versions %s", err, c.pipeline, p.names())
			}
			version = v.Name
		}
		live := p.Find(p.Live)
		if live != nil && !live.Bootstrap && !live.WasReset && live.Dim != 0 && live.Dim != m.Dim() {
			return fmt.Errorf("%w: model %s has %d, and readers of the output rely on the %d of %s; choose another version, "+
				"or reset the live one first: `embedd model reset %s`", ErrDim, version, m.Dim(), live.Dim, live.Name, c.pipeline)
		}
		was, confirmed := p.Live, m.Note().Created
		if version == p.Live {
			confirmed = p.ConfirmedAt
		}
		p.setLive(version, confirmed)
		if action == pin {
			p.Pin = version
		}
		p.turn(c.options.Clock(), action, was, q.By)
		return nil
	})
}

// target returns the version that a request names, or its default. A rollback that is repeated after a conflict keeps
// its former version: the first write may be stored, and p.Previous is then the version that it replaced.
func (c *catalog) target(p *Pointer, q Request, action, former string) (*Version, error) {
	name := cmp.Or(q.Version, former, p.Previous)
	if action == pin {
		name = cmp.Or(q.Version, p.Live)
	} else if p.Pin != "" {
		return nil, fmt.Errorf("%w: %s; `embedd model unpin %s` first, or pin another version", ErrPinned, p.Pin, c.pipeline)
	}
	switch {
	case name != "":
		return c.versionIn(p, name)
	case p.Live == "":
		return nil, withKind(ErrMissing, fmt.Errorf("pipeline %s has no model yet (%s)", c.pipeline, c.store))
	}
	return nil, withKind(ErrMissing, fmt.Errorf("no version of pipeline %s was live before %s", c.pipeline, p.Live))
}

// Record records what an operator requested, if any version is stored.
func (c *catalog) Record(ctx context.Context, what, by string) error {
	_, err := c.update(ctx, func(p *Pointer) error {
		if len(p.Versions) == 0 {
			return errUnchanged
		}
		p.turn(c.options.Clock(), what, "", by)
		return nil
	})
	return err
}

// Reset has the next first model of the pipeline replace the live one and begin a new epoch, without evidence and with
// the number of outputs that is configured then. The live model stays until it exists; choosing a version ends the
// reset. Without a live model it changes nothing.
func (c *catalog) Reset(ctx context.Context) (*Pointer, error) {
	return c.update(ctx, func(p *Pointer) error {
		v := p.Find(p.Live)
		switch {
		case p.Pin != "":
			return fmt.Errorf("%w: %s; `embedd model unpin %s` first", ErrPinned, p.Pin, c.pipeline)
		case v == nil:
			return errUnchanged
		}
		v.WasReset = true
		p.turn(c.options.Clock(), "reset", "", "")
		return nil
	})
}

// Bind binds the pipeline's name to an input stream if it is still bound to was, and returns what it is bound to then.
func (c *catalog) Bind(ctx context.Context, was, stream string) (bound string, err error) {
	p, err := c.update(ctx, func(p *Pointer) error {
		if p.Stream != was || was == stream {
			return errUnchanged
		}
		p.Stream = stream
		return nil
	})
	if err != nil {
		return "", err
	}
	return p.Stream, nil
}
