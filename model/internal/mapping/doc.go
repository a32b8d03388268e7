// Package mapping has the kinds of maps that a model can hold, one file each: linear, one linear map a class (views), a
// sum of kernels, and the rules that extend an embedding of the rows of the fit to other rows. A kind says how a scaled
// row is placed, what shapes it takes, and which named arrays it is stored as.
package mapping
