package stage

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin/spec"
)

// TestStoreWithoutSchema: a store that returns no schema is an error that is logged, and the schema stays unknown.
func TestStoreWithoutSchema(t *testing.T) {
	t.Parallel()
	log := &lockedLog{}
	s := countingStage(t, func(c *spec.Config) {
		c.Logger = logTo(log)
		c.StoreContract = func(context.Context, *arrowio.Contract) (*arrowio.Contract, error) { return nil, nil }
	})
	rows := clouds(rand.New(rand.NewPCG(67, 68)), 100, 2)
	send(t, s, 1, tabular(t, rows, "a", "b"))
	for end := time.Now().Add(time.Minute); log.String() == "" && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	if want := `level=WARN msg="the schema could not be stored; trying again" error="the store returned no schema"` +
		"\n"; !strings.HasPrefix(log.String(), want) || s.Contract() != nil {
		t.Errorf("the log has %q, the schema is %v", log.String(), s.Contract())
	}
}

// TestFeaturesOfSummaries: an error says how much memory the sums of too many features need, and how many features the
// schema has if they differ.
func TestFeaturesOfSummaries(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *spec.Config) { c.Training.Block, c.Training.Window.Bytes = 10, 3*8*500*500 })
	if _, err := s.SummaryBuilder(Block{}, make([]string, 500)); err != nil {
		t.Error(err)
	}
	_, err := s.SummaryBuilder(Block{}, make([]string, 501))
	if want := "sums of 501 features need more than training.window.bytes, 6000000; raise it to 6 MiB, or remove " +
		"training.block"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := s.setFeatures([]string{"a", "b"}); err != nil || s.Contract().Len() != 2 {
		t.Errorf("features %v, %v", s.Contract(), err)
	}
	err = s.setFeatures([]string{"a"})
	var e *arrowio.Error
	if !errors.As(err, &e) || e.Code != wire.SchemaChanged ||
		e.Error() != "the schema has 2 features and the model has 1, "+
			"or others; use a model of these features, or change the schema: embedd schema reset, or schema.features" {
		t.Errorf("other features: %v", err)
	}
	if err := s.FixContract(testContract(t)); !errors.As(err, &e) || e.Error() != "the schema is 2 features: a, b; label "+
		"label, and the stored one is 6 features: x[6]; label label; restart the process to use the stored schema" {
		t.Errorf("another contract: %v", err)
	}
}
