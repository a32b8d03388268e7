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
	// Live is the version that was live when the operator decided; "": any. If another one is live, the request fails with
	// ErrOvertaken and changes nothing.
	Live string
	By   string // who requests it, and from where, for the record
	// Check says why a model cannot go live; nil: any can.
	Check func(*model.Model) error
}

// expects fails if the request was made for another live version.
func (q *Request) expects(p *Pointer) error {
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

// Pin makes a version the live one and keeps it live; without a version it pins the live one.
func (c *catalog) Pin(ctx context.Context, q Request) (*Pointer, error) {
	return c.choose(ctx, q, "pin")
}

// Unpin lets training continue from the pinned version.
func (c *catalog) Unpin(ctx context.Context, q Request) (*Pointer, error) {
	return c.update(ctx, func(p *Pointer) error {
		if err := q.expects(p); err != nil {
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
// before the live one.
func (c *catalog) Rollback(ctx context.Context, q Request) (*Pointer, error) {
	return c.choose(ctx, q, "rollback")
}

// choose makes a stored version the live one, after it was read and checked as at a start. what names the request in
// errors: "pin" or "rollback".
func (c *catalog) choose(ctx context.Context, q Request, what string) (*Pointer, error) {
	var m *model.Model // of the version that was read last
	var version string
	// A rollback that is repeated after a conflict keeps its version: the first write may be stored, and the version
	// before the live one is then the one that it replaced.
	return c.update(ctx, func(p *Pointer) error {
		if err := q.expects(p); err != nil {
			return err
		}
		name := cmp.Or(q.Version, version, p.Previous)
		if what == "pin" {
			name = cmp.Or(q.Version, p.Live)
		} else if p.Pin != "" {
			return fmt.Errorf("%w: %s; `embedd model unpin %s` first, or pin another version", ErrPinned, p.Pin, c.pipeline)
		}
		if name == "" && p.Live == "" {
			return withKind(ErrMissing, fmt.Errorf("pipeline %s has no model yet (%s)", c.pipeline, c.store))
		}
		if name == "" {
			return withKind(ErrMissing, fmt.Errorf("no version of pipeline %s was live before %s", c.pipeline, p.Live))
		}
		v, err := c.versionIn(p, name)
		if err != nil {
			return err
		}
		if version != name {
			if m, err = c.get(ctx, *v); err == nil && q.Check != nil {
				err = q.Check(m)
			}
			version = name
		}
		if err != nil {
			return fmt.Errorf("%w; pipeline %s has the versions %s", err, c.pipeline, p.names())
		}
		live := p.Find(p.Live)
		if live != nil && !live.Bootstrap && !live.WasReset && live.Dim != 0 && live.Dim != m.Dim() {
			return fmt.Errorf("%w: model %s has %d, and readers of the output rely on the %d of %s; choose another version, "+
				"or reset the live one first: `embedd model reset %s`", ErrDim, name, m.Dim(), live.Dim, live.Name, c.pipeline)
		}
		was, confirmed := p.Live, m.Note().Created
		if name == p.Live {
			confirmed = p.ConfirmedAt
		}
		p.setLive(name, confirmed)
		if what == "pin" {
			p.Pin = name
		}
		p.turn(c.options.Clock(), what, was, q.By)
		return nil
	})
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

// Bind binds the pipeline's name to an input stream, unless it is no longer bound to the one given. It returns the
// stream that the name is bound to then.
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
