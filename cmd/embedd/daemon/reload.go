package daemon

import (
	"context"
	"slices"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/engine"
	"github.com/embedd/embedd/stream"
)

// reloadOnHangup reloads the configuration after each hangup, until ctx is done. The log and the status have errors.
func (d *daemon) reloadOnHangup(ctx context.Context) {
	select {
	case <-d.opened:
	case <-ctx.Done():
		return
	}
	for {
		select {
		case <-d.options.Hangups:
			_, _ = d.engine.Load().Reload(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reload reads the configuration again. The engine calls it, one reload after another.
func (d *daemon) reload(ctx context.Context) (*stream.Reload, error) {
	next, err := d.options.Load()
	if err != nil {
		return nil, err
	}
	applied, names := config.Apply(d.running, next)
	pipelines, err := engine.Pipelines(applied)
	if err != nil {
		return nil, err
	}
	yieldCores(pipelines, d.cores)
	relogin := func() {}
	if d.running.NATS.Login != applied.NATS.Login {
		if relogin, err = d.conn.Load().PrepareLogin(ctx, applied.NATS); err != nil {
			return nil, err
		}
	}
	commit, abandon, err := d.prepareListener(d.running.HTTP, applied.HTTP)
	if err != nil {
		return nil, err
	}
	out := &stream.Reload{Abandon: abandon, Commit: func() {
		d.running = applied
		commit()
		relogin()
		d.options.Apply(applied)
	}}
	for i, p := range pipelines {
		if slices.Contains(names, p.Name) {
			p.Stage.Fixed = d.pipelines[i].Stage.Fixed // its file may have changed since
			out.Pipelines = append(out.Pipelines, p)
		}
	}
	for _, c := range config.Changes(d.running, next) {
		if c.Reloads {
			out.Applied = append(out.Applied, c.Key)
		} else {
			out.Restart = append(out.Restart, c.Key)
		}
	}
	return out, nil
}

// prepareListener opens the listener of the next configuration if its address differs. Of the two functions that it
// returns one is called.
func (d *daemon) prepareListener(now, next config.HTTP) (commit, abandon func(), err error) {
	current := d.monitor
	if now.Listen == next.Listen {
		return func() { current.config.Store(&next) }, func() {}, nil
	}
	opened, err := d.listen(next)
	if err != nil {
		return nil, nil, err
	}
	return func() {
		d.monitor = opened
		d.log.Info("http listens on another address", "http", opened.addr.String())
		d.closeListener(current)
	}, func() { d.closeListener(opened) }, nil
}

// closeListener closes a listener, after its requests.
func (d *daemon) closeListener(m *monitor) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := m.close(ctx); err != nil {
		d.log.Warn("closing the listener", "error", err)
	}
}
