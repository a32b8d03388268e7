// Package manifold has the embeddings of the rows themselves and their linear forms: le, lle, isomap, tsimr, mp-tsimr,
// ltsimr, mp-ltsimr, lpfe, lenews, lenewks and lppnews.
package manifold
