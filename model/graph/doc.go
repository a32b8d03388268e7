// Package graph builds the neighbourhood graphs of manifold learning and the matrices that methods make of them: exact
// nearest neighbours, sparse weights and Laplacians, connected components, geodesics, reconstruction weights, tangent
// spaces, patch alignment and the partition of a manifold into patches.
//
// Rows are samples: X is n x m, one sample per row. Functions do not keep or change their arguments unless they say so,
// and are safe for concurrent use. Those without an error result panic if shapes do not match or an index is out of
// range, as gonum's do. The zero values of Matrix and Neighbors are not usable. Results do not depend on the number of
// cores: ties between distances go to the lower row.
package graph
