// Package scatter has the methods that class means and scatters define: pca, lda, srda, sle, sle-ovr and pairacc.
package scatter
