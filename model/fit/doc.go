// Package fit learns a [model.Model] from labelled rows: [Fit] from rows, [FitMoments] from mergeable statistics, by a
// method of the table or by a [Criterion] of the caller. [Methods] lists the methods. [Auto] and [AutoDim] choose the
// method and the dimension by cross-validation, [Blend] is the method of a model that blends several, and [Tune] ranks
// the parameters of a method.
//
// A fit does not change its input, ends with the error of its context, and gives the same digest for the same rows in
// the same order with the same configuration. Calls are independent and may run concurrently.
package fit
