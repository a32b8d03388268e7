package method

import (
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method/iterative"
	"github.com/embedd/embedd/model/internal/method/locality"
	"github.com/embedd/embedd/model/internal/method/manifold"
	"github.com/embedd/embedd/model/internal/method/margin"
	"github.com/embedd/embedd/model/internal/method/patch"
	"github.com/embedd/embedd/model/internal/method/scatter"
)

// Table lists all methods. A new method is a file with its frame.Method and a line here. Its fit gets the scatters in
// scaled coordinates (Task.Basis), the dimension (Task.D) and the relative ridge (Task.Ridge), all checked. It builds a
// numerator and a denominator, solves the pencil and returns Task.Solved. After it, components are expressed in the
// features and signs are fixed.
var Table = []*frame.Method{
	&scatter.PCA,
	&scatter.LDA,
	&scatter.SRDA,
	&scatter.SLE,
	&scatter.SLEOvR,
	&scatter.PairAcc,
	&margin.MFA,
	&margin.LFDA,
	&margin.DLA,
	&margin.LSDA,
	&locality.LPP,
	&locality.NPE,
	&locality.LLTSA,
	&manifold.LE,
	&manifold.LLE,
	&manifold.Isomap,
	&margin.LSMPA,
	&margin.KSMPA,
	&manifold.LEnewS,
	&manifold.LEnewKS,
	&manifold.LPPnewS,
	&iterative.TNCA,
	&margin.DAWGE,
	&iterative.LSDR,
	&patch.MPDA,
	&patch.PMPDA,
	&manifold.TSIMR,
	&manifold.MPTSIMR,
	&manifold.LTSIMR,
	&manifold.MPLTSIMR,
	&manifold.LPFE,
}
