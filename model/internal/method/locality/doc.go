// Package locality has the linear methods that preserve neighbourhoods without labels: lpp, npe and lltsa.
package locality
