package trial

import (
	"context"
	"math/rand/v2"

	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/tools/learning/streams"
)

// Both runs a stage on a stream, and again with a change that should make little difference.
func Both(ctx context.Context, c Config, change func(*Config)) (plain, changed *Result, err error) {
	if plain, err = Run(ctx, c); err != nil {
		return nil, nil, err
	}
	change(&c)
	changed, err = Run(ctx, c)
	return plain, changed, err
}

// Reversed has labels in separate messages, after all rows, the newest first.
func Reversed(c *Config) { c.Stream.Reversed = true }

// Imputed learns from rows with missing features instead of rejecting them.
func Imputed(c *Config) { c.Configure = func(p *plugin.Config) { p.Nulls = plugin.NullsImpute } }

// TakenOver closes the stage after one message in eight, at random, and opens another one from what was stored.
func TakenOver(c *Config) {
	source, err := c.Stream.Open(c.Rows, c.Seed)
	if err != nil {
		return // Run says so
	}
	random := rand.New(rand.NewPCG(c.Seed, 5))
	for at := streams.BatchRows; at < source.Rows(); at += streams.BatchRows {
		if random.IntN(8) == 0 {
			c.RestartAt = append(c.RestartAt, at)
		}
	}
}

// DecideAlike reports whether two runs promoted the same models after the same rows.
func DecideAlike(a, b *Result) bool {
	if len(a.Promotions) != len(b.Promotions) {
		return false
	}
	for i, p := range a.Promotions {
		if q := b.Promotions[i]; p.Row != q.Row || p.Digest != q.Digest {
			return false
		}
	}
	return true
}
