package daemon

import (
	"context"
	"slices"

	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/engine"
	"github.com/embedd/embedd/stream"
)

// reloader reads the configuration again while the daemon runs.
type reloader struct {
	Options
	running   *config.Config    // what is in effect
	pipelines []stream.Pipeline // as they were opened first
	cores     int
	opened    <-chan struct{} // closed when the pipelines are open
}

// follow reloads the configuration after each hangup, until ctx is done. What fails is logged, and in the status.
func (r *reloader) follow(ctx context.Context, e *stream.Engine) {
	select {
	case <-r.opened:
	case <-ctx.Done():
		return
	}
	for {
		select {
		case <-r.Hangups:
			_, _ = e.Reload(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reload reads the configuration again. The engine calls it, one reload after another.
func (r *reloader) reload(context.Context) (*stream.Reload, error) {
	next, err := r.Load()
	if err != nil {
		return nil, err
	}
	applied, names := config.Apply(r.running, next)
	pipelines, err := engine.Pipelines(applied)
	if err != nil {
		return nil, err
	}
	yieldCores(pipelines, r.cores)
	out := &stream.Reload{Commit: func() {
		r.running = applied
		r.Apply(applied)
	}}
	for i, p := range pipelines {
		if slices.Contains(names, p.Name) {
			p.Stage.Fixed = r.pipelines[i].Stage.Fixed // its file may have changed since
			out.Pipelines = append(out.Pipelines, p)
		}
	}
	for _, c := range config.Changes(r.running, next) {
		if c.Reloads {
			out.Applied = append(out.Applied, c.Key)
		} else {
			out.Restart = append(out.Restart, c.Key)
		}
	}
	return out, nil
}
