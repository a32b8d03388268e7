package policy

import (
	"math"

	"github.com/embedd/embedd/plugin/spec"
)

// Names of the doors that training opens, as Outcome and Release have them.
const (
	DoorBootstrap = "bootstrap"
	DoorFirst     = "first"
	DoorBetter    = "better"
	DoorMoreRows  = "more_rows"
	DoorNewClass  = "new_class"
	DoorFollowing = "following"
)

// Door is a way in which a model becomes the live one. Its texts are those of the documentation.
type Door struct {
	Name   string // in metrics, in `embedd model ls`, and in the description of a stored version
	Models string // which models may use it
	Shown  string // what is shown before: the hypothesis, and its threshold
	Key    string // the key below a pipeline that sets the threshold; "" if none does
	Closed string // what closes the door
	Epoch  string // the epoch of the model's outputs

	trained   bool                      // training opens it
	threshold func(g spec.Gate) float64 // the evidence at which it opens; nil if nothing is tested
	gain      float64                   // in accuracy that evidence is gathered for, besides spec.Gate.Margin
}

const (
	keptEpoch = "that of the live model while its first model's outputs remain comparable, to two points of accuracy; " +
		"else a new one"
	newEpoch    = "a new one"
	storedEpoch = "that of the version"
	notWorse    = "that the share of a row's nearest references with its label is at most one percentage point, less " +
		"`training.gate.margin`, below that of the live model, and the nearest one alone does not contradict: odds of "
	rootOdds  = "; auto is the square root of `training.gate.evidence`"
	earlyRoot = rootOdds + ", and one to four while the live model is [early](#early-models)"
)

// Doors is the table of all ways in which a model becomes the live one. Documentation, help, metrics and the list of
// stored versions are derived from it. A detected drift is none: it cuts the window and promotes nothing.
var Doors = []Door{
	{Name: DoorBootstrap, Models: "a PCA of the first rows without a label, until a first model exists",
		Shown: "nothing", Key: "training.until_ready", Closed: "`hold`, the default, or `skip`", Epoch: newEpoch,
		trained: true},
	{Name: DoorFirst, Models: "the first model of a pipeline, also after `until_ready: pca` and after a reset",
		Shown: "nothing; it waits for labelled rows, see `training.every.rows`", Key: "training.gate.first",
		Closed: "`never`", Epoch: newEpoch, trained: true},
	{Name: DoorBetter, Models: "a candidate",
		Shown: "that its accuracy exceeds that of the live model by more than half a percentage point and " +
			"`training.gate.margin`: odds of `training.gate.evidence`", Key: "training.gate.evidence", Closed: "`never`",
		Epoch: keptEpoch, trained: true, threshold: func(g spec.Gate) float64 { return g.Evidence }, gain: minGain},
	{Name: DoorMoreRows, Models: "a candidate from half as many more rows as the live model, from a fifth more if that " +
		"has fewer than 250 effective ones, from four times as many if it has 1,000",
		Shown: notWorse + "`training.gate.more_rows`" + earlyRoot, Key: "training.gate.more_rows", Closed: "`never`",
		Epoch: keptEpoch, trained: true, threshold: func(g spec.Gate) float64 { return orRoot(g.MoreRows, g) },
		gain: -maxLoss},
	{Name: DoorNewClass, Models: "a candidate with classes that the live model does not know, which together have half " +
		"of a class's fair share of the rows; any such class if the candidate has half as many more rows as the live model",
		Shown: notWorse + "`training.gate.new_class`" + earlyRoot, Key: "training.gate.new_class", Closed: "`never`",
		Epoch: keptEpoch, trained: true, threshold: func(g spec.Gate) float64 { return orRoot(g.NewClass, g) },
		gain: -maxLoss},
	{Name: DoorFollowing, Models: "each fit of the newest n rows, while that rule is better than the whole window: the " +
		"concept drifts and does not stop", Shown: "that the rule of refitting the newest n rows is better, by half a " +
		"percentage point and `training.gate.margin`, than the live model, which is tested at first only: odds of " +
		"`training.gate.following`; and than a fit of the whole window: the square root of these odds" + rootOdds,
		Key: "training.gate.following", Closed: "`never`",
		Epoch: keptEpoch, trained: true, threshold: func(g spec.Gate) float64 { return orRoot(g.Following, g) },
		gain: minGain},
	{Name: "operator", Models: "a stored version that an operator names: `embedd model rollback`, `embedd model pin`",
		Shown: "nothing", Closed: "no user has the permissions of the role operator", Epoch: storedEpoch},
	{Name: "fallback", Models: "the newest readable version, at a start, if the live one cannot be read",
		Shown: "nothing", Key: "model.damaged", Closed: "`stop`", Epoch: storedEpoch},
	{Name: "file", Models: "a model file, which stays live; nothing is trained", Shown: "nothing", Key: "model.file",
		Closed: "not set, the default", Epoch: "that in the file, or 1"},
}

// orRoot is a threshold, or the square root of the evidence if it is not set.
func orRoot(threshold float64, g spec.Gate) float64 {
	if threshold == 0 {
		return math.Sqrt(g.Evidence)
	}
	return threshold
}

// TrainedDoors returns the names of the doors that training opens.
func TrainedDoors() (names []string) {
	for _, d := range Doors {
		if d.trained {
			names = append(names, d.Name)
		}
	}
	return names
}

// DoorNamed returns the door of a name that Doors has.
func DoorNamed(name string) *Door {
	for i := range Doors {
		if Doors[i].Name == name {
			return &Doors[i]
		}
	}
	panic("policy: no door " + name) // names are constants, and a restored one is checked
}

// DoorOf returns the door at which a candidate is tested: one where it need only be no worse, if it may use it and it
// is open; of two the one that opens first.
func DoorOf(g spec.Gate, moreRows, newClass bool) string {
	door := DoorBetter
	least := math.Inf(1)
	for _, d := range []struct {
		name string
		may  bool
	}{{DoorMoreRows, moreRows}, {DoorNewClass, newClass}} {
		if need := DoorNamed(d.name).threshold(g); d.may && need < least {
			door, least = d.name, need
		}
	}
	return door
}
