package stream

import (
	"context"
	"maps"
)

// annotate changes what a consumer of the pipeline notes under a key of its metadata, where the process after this one
// finds it.
func (p *pipeline) annotate(ctx context.Context, consumer, key string, change func(string) string) error {
	select {
	case p.noting <- struct{}{}: // a consumer is written whole: of two at once, one would lose what the other notes
		defer func() { <-p.noting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c, err := p.JS.Consumer(ctx, p.Stream, consumer)
	if err != nil {
		return err
	}
	config := c.CachedInfo().Config
	config.Metadata = maps.Clone(config.Metadata)
	if config.Metadata == nil {
		config.Metadata = map[string]string{}
	}
	config.Metadata[key] = change(config.Metadata[key])
	_, err = p.JS.UpdateConsumer(ctx, p.Stream, config)
	return err
}
