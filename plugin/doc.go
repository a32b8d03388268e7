// Package plugin is the stage that a host embeds: it turns Arrow messages of wide rows into Arrow messages of narrow
// ones, and learns the projection between them from the labelled rows that pass.
//
// A [Stage] has two independent paths.
//
//   - [Stage.Transform] is the hot path: it projects the rows of a message with the live model. It takes no lock.
//   - [Stage.Learn] is the learning path: it copies the labelled rows of a message and returns. A worker scores the
//     live model and the candidates on each row before learning it, fits candidates on the newest rows of a bounded
//     window, and makes a candidate live when there is enough evidence that it is better, aligned to the live model's
//     outputs.
//
// A message comes from its wire form ([Stage.Decode]) or from an Arrow record ([Stage.FromRecord]), and a result is
// written in either form ([Stage.Encode], [Stage.Record]). Labels may arrive in separate messages ([Config.Labels],
// [Stage.LearnLabels]).
//
// What the worker decides is a function of the rows, their order and the configuration. A host that saves what
// [Config.Store] and [Config.Checkpoint] receive, and learns the stream again from where [ReadFrom] says, continues
// after a restart as if there had been none.
//
// The method is one of package fit's table, by name, or the host's own fit.Criterion, in Config.Fit.Criterion.
//
// The types of configuration, results and status are aliases of those in package plugin/spec. The errors that a host
// handles are [ErrNoModel], [ErrClosed], [ErrFixed] and [ErrFewRows], and the codes of package arrowio.
//
// The package uses no NATS, no metrics library and no configuration format.
package plugin
