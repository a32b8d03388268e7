// Package mapping has the kinds of maps that a model can hold, one file each: linear, one linear map per class
// (views), a sum of kernels, and the rules that extend an embedding of the rows of the fit to other rows. A kind
// defines how a scaled row is projected, which shapes are valid, and as which named arrays it is stored.
package mapping
