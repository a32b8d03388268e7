package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/client"
	"github.com/embedd/embedd/cmd/embedd/connection"
	"github.com/embedd/embedd/stream"
	"github.com/embedd/embedd/stream/admin"
)

// resetModel is the output of `embedd model reset --format json`.
type resetModel struct {
	Pipeline string          `json:"pipeline"`
	Live     string          `json:"live"` // the version that answers until the next one exists
	Epoch    int             `json:"epoch"`
	Changes  []stream.Change `json:"changes"`
}

func modelResetCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset PIPELINE",
		Short: "begin a new epoch with the configured values, such as another model.dim",
		Long: "Begin a new epoch: the next first model is fitted as the configuration says, goes live without evidence,\n" +
			"and has the configured number of outputs. The live model answers until then, and all versions stay. Restart the\n" +
			"daemons with the new configuration first; running ones follow the reset. `embedd model rollback VERSION` with\n" +
			"the live version cancels it. The command says what it will do, and asks.",
	}
	return resetting(e, cmd, "model", func(ctx context.Context, r resetRun) error {
		plan, err := admin.PlanModelReset(ctx, r.js, r.p)
		if err != nil {
			return err
		}
		done := resetModel{r.p.Name, plan.Live.Name, plan.Epoch, append([]stream.Change{}, plan.Changes...)}
		if plan.Live.Name == "" || plan.Live.WasReset {
			return r.out.Result(done, "%s: nothing to do: the next model is a first one of epoch %d already\n", r.p.Name,
				plan.Epoch)
		}
		if r.nc != nil {
			if err := compareWithDaemons(ctx, r.nc, plan); err != nil {
				return err
			}
		}
		if err := r.confirm(modelResetText(plan)); err != nil {
			return err
		}
		if err := plan.Apply(ctx, r.js); err != nil {
			return err
		}
		return r.out.Result(done, "%s: the model was reset; %s answers until the first model of epoch %d exists\n", r.p.Name,
			plan.Live.Name, plan.Epoch)
	})
}

// compareWithDaemons returns an error if the trainer that runs was started with other values of the keys that a reset
// applies: the new epoch would have its values.
func compareWithDaemons(ctx context.Context, nc *connection.Conn, plan *admin.ModelReset) error {
	name, ours := plan.Pipeline.Name, waiting(plan.Changes)
	reports, err := client.Reports(ctx, nc.Conn, name)
	for _, r := range reports { // without one the next daemon has the values of the file
		if there := waiting(r.Changes); r.IsTrainer && there != ours {
			return cli.Checkf("model reset: the daemon that trains %s was not started with this file: here a reset applies %s, "+
				"and there %s; restart the daemons with the file, and reset then", name, ours, there)
		}
	}
	return err
}

// waiting lists the changes that a reset of the model applies.
func waiting(changes []stream.Change) string {
	var texts []string
	for _, c := range changes {
		if c.Effect == stream.EffectModelReset {
			texts = append(texts, fmt.Sprintf("%s: %s -> %s", c.Key, c.Was, c.Now))
		}
	}
	slices.Sort(texts)
	return cmp.Or(strings.Join(texts, ", "), "no change")
}

// modelResetText describes what a reset will do.
func modelResetText(plan *admin.ModelReset) string {
	var b strings.Builder
	p, live := &plan.Pipeline, plan.Live
	fmt.Fprintf(&b, "Model %s of pipeline %s is live: %s, %d outputs, epoch %d.\n", live.Name, p.Name, live.Method,
		live.Dim, live.Epoch)
	fmt.Fprintf(&b, "- It answers until the first model of epoch %d exists, and all versions stay.\n", plan.Epoch)
	b.WriteString("- That model is fitted from the labelled rows of the window as soon as there are enough, and goes " +
		"live without\n  evidence that it is better. Its outputs are not comparable with those before.\n")
	for _, c := range plan.Changes {
		if c.Effect == stream.EffectModelReset {
			fmt.Fprintf(&b, "- %s changes from %s to %s: readers of the output see it in the header Embedd-Epoch.\n", c.Key,
				c.Was, c.Now)
		}
	}
	if p.Stage.Training.Gate.NeverFirst {
		b.WriteString("- training.gate.first is never: no first model goes live until it is always.\n")
	}
	if p.Stream == "" {
		b.WriteString("- Start the daemon with this file before: it applies its own values.\n")
	}
	return b.String()
}
