package method

import (
	"github.com/embedd/embedd/model/internal/frame"
)

// Table lists all methods. A new method is a file with its frame.Method and a line here. Its fit gets the scatters in
// scaled coordinates (Task.Basis), the dimension (Task.D) and the relative ridge (Task.Ridge), all checked. It builds a
// numerator and a denominator, solves the pencil and returns Task.Solved. After it, components are expressed in the
// features and signs are fixed.
var Table = []*frame.Method{
	&pca,
	&lda,
	&srda,
	&sle,
	&sleOvR,
	&pairacc,
	&mfa,
	&lfda,
	&dla,
	&lsda,
	&lpp,
	&npe,
	&lltsa,
	&le,
	&lle,
	&isomap,
	&lsmpa,
	&ksmpa,
	&lenews,
	&lenewks,
	&lppnews,
	&tnca,
	&dawge,
	&lsdr,
	&mpda,
	&pmpda,
	&tsimr,
	&mpTSIMR,
	&ltsimr,
	&mpLTSIMR,
	&lpfe,
}
