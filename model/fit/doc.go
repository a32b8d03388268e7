// Package fit learns a [model.Model] from labelled rows: [Fit] from rows, [FitMoments] from mergeable statistics,
// by a method of the table or by a [Criterion] of the caller's own. [Methods] lists what there is; [Auto] and
// [AutoDim] leave the method and the dimension to the rows, [Blend] is what becomes of several methods, and [Tune]
// leaves the parameters to them.
//
// A fit only reads what it is given, ends with the error of its context, and gives the same digest for the same rows
// in the same order with the same configuration. Calls are independent and may run at the same time.
package fit
