package main

import "fmt"

// exhibits are the tables and figures of the papers known to us, except those that only explain a method.
var exhibits = []struct {
	paper, exhibit, what string
	here                 string
	sections             string // names for -only
}{
	{"SLE", "Table 1", "grids of parameters",
		"used, where parameters are chosen", "uci"},
	{"SLE", "Fig. 1", "two classes of the Swiss roll",
		"reproduced", "halves"},
	{"SLE", "Fig. 2", "accuracy over d on six sets",
		"four of the six; the claim holds on wine, elsewhere mostly at d = 1", "uci"},
	{"SLE", "Fig. 3, 4", "face images: Yale, LFW",
		"not available; few rows of eight other sets; the claim does not hold", "slefew"},
	{"SMPA", "Table 1", "face images: Yale",
		"not available; the protocol on eight other sets; one of three claims holds, one in part", "smpa"},
	{"DAWGE", "tables", "face images: AR, FERET",
		"not available; the protocol on eight other sets; one of two claims holds", "dawge"},
	{"MPDA", "Table 1 of the supplement", "USPS in two classes",
		"another file of USPS; most of the order of the methods holds", "usps, fields"},
	{"MPDA", "Fig. 1 of the supplement", "Swiss roll, tangent spaces",
		"the maps are reproduced, the time saved is not", "roll"},
	{"MPDA", "Fig. 2 of the supplement", "memory",
		"the order of mpda and the others holds, the ratios are smaller", "memory"},
	{"MPDA", "Fig. 3, 4", "not known to us",
		"accuracy over d on eight sets; mpda is not ahead of mfa and lfda", "mpda"},
	{"LEnewS", "Fig. 2, 3, 5", "curves on a line",
		"reproduced", "curve"},
	{"LEnewS", "Fig. 4, 7 to 10", "lppnews, on data not known to us",
		"lppnews and lpp on eight sets: neither is ahead", "lppnews"},
	{"LEnewS", "Fig. 6", "an outlier",
		"reproduced; so does le", "outlier"},
	{"LEnewS", "Table I", "leave-one-out on 15 sets",
		"five of the 15; holds on four with the best parameters in hindsight", "learned"},
}

// inventory writes the table of exhibits.
func inventory() string {
	text := `Every table and figure of the five papers that we know of, except those that only explain a method. The last
column has the section, by the name that ` + "`-only`" + ` takes.

| paper | table, figure | what | here | section |
|---|---|---|---|---|
`
	for _, e := range exhibits {
		text += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", e.paper, e.exhibit, e.what, e.here, e.sections)
	}
	return text + `
The other two sets of SLE's Fig. 2 and the other ten of Table I are not among the data that we have. The papers have
faces of thousands of pixels, and a few images of each of many persons; no set here has both, which may be why
differences between methods are smaller here.
`
}
