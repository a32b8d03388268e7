package method_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model/internal/method"
)

// bounds are the numbers at the ends of what parameters allow, and beyond them.
var bounds = map[string]struct{ allowed, refused string }{
	"whole":  {"1 2000000", "0 -1 1.5 NaN x"},
	"from 0": {"0 1", "-1 0.5"},
	"from 2": {"2 3", "1 2.5"},
	"from 4": {"4 5", "3"},
	"rows":   {"3 4 999 1999 2000", "2 2001 10000 03000 -3 x"},
	"share":  {"0 1", "-1e-300 1.0000001 NaN inf"},
	"pca":    {"1e-9 1 auto", "0.9e-9 0 1.0000001"},
	"reg":    {"1e-12 1", "0.9e-12 1.0000001"},
	"reg3":   {"1e-12 1e3", "0.9e-12 1001"},
	"weight": {"0 1e6", "-1e-300 1.000001e6"},
	"above":  {"1e-6 1e6", "0.9e-6 1.000001e6 0"},
	"1e9":    {"0 1e9 auto", "-1e-300 1.000001e9 NaN"},
	"width":  {"1e-9 1e9 auto", "0.9e-9 1.000001e9"},
	"1e12":   {"0 1e12", "-1e-300 1.000001e12 auto"},
	"lambda": {"1e-12 1e12 auto", "0.9e-12 1.000001e12"},
	"alpha":  {"1e-300 1e12 relative", "0.9e-300 0 1.000001e12"},
	"cost":   {"5e-324 1.7e308", "0 -1 NaN inf"},
	"t":      {"1e-300 1e300 auto inf", "0 -1 NaN x -inf"},
	"ridge":  {"0 1e300", "-1e-300 NaN inf x"},
}

// parameters are those that are numbers: the default, and the bounds.
var parameters = map[string][2]string{
	"mfa.k1": {"5", "whole"}, "mfa.k2": {"20", "whole"}, "lfda.kNN": {"7", "whole"},
	"dla.k1": {"5", "whole"}, "dla.k2": {"10", "whole"}, "dla.beta": {"auto", "share"}, "dla.t": {"inf", "t"},
	"lsda.k": {"5", "from 0"}, "lsda.beta": {"0.1", "share"}, "lsda.pca": {"auto", "pca"},
	"lpp.k": {"5", "whole"}, "lpp.t": {"auto", "t"}, "npe.k": {"5", "whole"}, "npe.reg": {"1e-3", "reg"},
	"lltsa.k": {"auto", "from 2"}, "le.k": {"10", "whole"}, "le.t": {"inf", "t"}, "lle.k": {"10", "whole"},
	"lle.reg": {"1e-3", "reg3"}, "isomap.k": {"10", "whole"},
	"lsmpa.k": {"5", "whole"}, "lsmpa.l1": {"1", "weight"}, "lsmpa.l2": {"1", "weight"}, "lsmpa.l3": {"1", "above"},
	"ksmpa.k": {"5", "whole"}, "ksmpa.l1": {"1", "weight"}, "ksmpa.l2": {"1", "weight"}, "ksmpa.l3": {"1", "above"},
	"lenews.alpha": {"auto", "1e9"}, "lenews.beta": {"auto", "1e9"}, "lenews.sigma": {"auto", "width"},
	"lenews.iters": {"500", "whole"}, "lenews.tol": {"1e-6", "share"}, "lenews.rows": {"1500", "rows"},
	"lenewks.alpha": {"auto", "1e9"}, "lenewks.beta": {"auto", "1e9"}, "lenewks.sigma": {"auto", "width"},
	"lenewks.iters": {"500", "whole"}, "lenewks.tol": {"1e-6", "share"}, "lenewks.rows": {"1500", "rows"},
	"lppnews.alpha": {"auto", "1e9"}, "lppnews.beta": {"auto", "1e9"}, "lppnews.sigma": {"auto", "width"},
	"lppnews.iters": {"500", "whole"}, "lppnews.tol": {"1e-6", "share"}, "lppnews.rows": {"1500", "rows"},
	"tnca.references": {"1000", "from 2"}, "tnca.iters": {"15", "whole"},
	"dawge.k": {"30", "whole"}, "dawge.c": {"1", "cost"},
	"lsdr.centres": {"100", "from 2"}, "lsdr.starts": {"5", "whole"}, "lsdr.iters": {"100", "whole"},
	"lsdr.s": {"auto", "width"}, "lsdr.lambda": {"auto", "lambda"},
	"mpda.k": {"7", "whole"}, "mpda.t": {"inf", "t"}, "mpda.gamma": {"1", "1e12"}, "mpda.energy": {"0.95", "share"},
	"mpda.alpha": {"relative", "alpha"}, "mpda.patch_k": {"6", "whole"}, "mpda.patch_size": {"10", "from 4"},
	"pmpda.k": {"7", "whole"}, "pmpda.t": {"inf", "t"}, "pmpda.gamma": {"1", "1e12"}, "pmpda.energy": {"0.95", "share"},
	"pmpda.alpha": {"relative", "alpha"},
	"tsimr.k":     {"10", "whole"}, "tsimr.t": {"inf", "t"}, "tsimr.gamma": {"0", "1e12"},
	"mp-tsimr.k": {"10", "whole"}, "mp-tsimr.t": {"inf", "t"}, "mp-tsimr.gamma": {"0", "1e12"},
	"mp-tsimr.patch_k": {"31", "whole"}, "mp-tsimr.patch_size": {"48", "from 4"},
	"ltsimr.k": {"10", "whole"}, "ltsimr.t": {"auto", "t"}, "ltsimr.gamma": {"1e9", "1e12"},
	"mp-ltsimr.k": {"10", "whole"}, "mp-ltsimr.t": {"auto", "t"}, "mp-ltsimr.gamma": {"1e9", "1e12"},
	"mp-ltsimr.patch_k": {"31", "whole"}, "mp-ltsimr.patch_size": {"48", "from 4"}, "lpfe.k": {"10", "whole"},
	"lda.ridge": {"auto", "ridge"}, "srda.ridge": {"auto", "ridge"}, "sle-ovr.ridge": {"1e-3", "ridge"},
	"pairacc.ridge": {"oas", "ridge"}, "mfa.ridge": {"auto", "ridge"}, "lfda.ridge": {"auto", "ridge"},
	"lsda.ridge": {"auto", "ridge"}, "lpp.ridge": {"oas", "ridge"}, "npe.ridge": {"oas", "ridge"},
	"lltsa.ridge": {"oas", "ridge"}, "lsmpa.ridge": {"auto", "ridge"}, "ksmpa.ridge": {"auto", "ridge"},
	"lppnews.ridge": {"oas", "ridge"}, "tnca.ridge": {"oas", "ridge"}, "dawge.ridge": {"auto", "ridge"},
	"mpda.ridge": {"0.1", "ridge"}, "pmpda.ridge": {"0.1", "ridge"}, "ltsimr.ridge": {"oas", "ridge"},
	"mp-ltsimr.ridge": {"oas", "ridge"}, "lpfe.ridge": {"1", "ridge"},
}

// TestParameterBounds: every parameter that is a number has the default that papers and comparisons gave it, and takes
// the numbers at its bounds and none beyond.
func TestParameterBounds(t *testing.T) {
	known := 0
	for _, m := range method.Table {
		for _, p := range m.Params {
			name := m.Name + "." + p.Name
			want, has := parameters[name]
			if isNumber := p.Check("1") == nil || p.Check("2") == nil || p.Check("4") == nil; isNumber != has {
				t.Errorf("%s is a number: %v; it is in the table: %v", name, isNumber, has)
			}
			if !has {
				continue
			}
			known++
			if p.Default != want[0] || p.Check(p.Default) != nil || p.Grid != nil && !slices.Contains(p.Grid, p.Default) {
				t.Errorf("%s: the default is %s, want %s, which is allowed and in the grid %v", name, p.Default, want[0], p.Grid)
			}
			b := bounds[want[1]]
			for v := range strings.FieldsSeq(b.allowed) {
				if err := p.Check(v); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			for v := range strings.FieldsSeq(b.refused) {
				if p.Check(v) == nil {
					t.Errorf("%s=%s is allowed", name, v)
				}
			}
		}
	}
	if known != len(parameters) {
		t.Errorf("%d of %d parameters of the table exist", known, len(parameters))
	}
}
