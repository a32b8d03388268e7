package method

import (
	"github.com/embedd/embedd/model/internal/frame"
)

// Table is the table of all methods. A new method is a file with its Method
// and a line here. Its fit finds scatters in scaled coordinates (task.stat), the
// dimension (task.d) and the relative ridge (task.ridge) settled and checked; it
// builds a numerator and a denominator, solves the pencil and returns
// task.solved. Components go back to the features, and signs are fixed, after it.
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
