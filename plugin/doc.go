// Package plugin is the stage that a host embeds: it turns Arrow messages of wide rows into Arrow messages of narrow
// ones, and learns the projection between them from the labelled rows that pass.
//
// A [Stage] has two paths that share one atomic pointer to an immutable model.
//
//   - [Stage.Transform] is the hot path: load the live model once, project, done. It takes no lock.
//   - [Stage.Learn] is the learning path: it copies the labelled rows and returns. A worker scores the live model and
//     the candidates on each row before it learns it, fits candidates from the newest rows of a bounded window, and
//     moves the pointer to one when the evidence for it suffices, turned to the live coordinates.
//
// What the worker decides is a function of the rows in their order. A host that keeps what [Config.Store] and
// [Config.Checkpoint] get, and reads again from where [ReadFrom] says, goes on after a restart as if there had been none.
// Labels that come apart from their rows are joined with them ([Config.Labels], [Stage.LearnLabels]).
//
// A message comes from its wire form ([Stage.Decode]) or from an arrow.Record that the host holds
// ([Stage.FromRecord]), and a result leaves in either form ([Stage.Encode], [Stage.Record]). A host that knows better
// than the policy when to fit asks with [Stage.Refit].
//
// The method is one of package fit's table, by name, or a fit.Criterion of the host's own, in Fit.Own.
//
// Errors are told apart with errors.Is: [ErrNoModel], [ErrClosed], [ErrFixed], [ErrFewRows], and the codes of package
// arrowio.
//
// The package knows no NATS, no metrics library and no configuration format; a host without any of them uses it as the
// example of this package shows.
package plugin
