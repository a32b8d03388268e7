package blend

import (
	"strings"
	"testing"
)

// TestMembers: members are read as they are written, and what cannot be one is refused with what is wrong.
func TestMembers(t *testing.T) {
	for _, text := range []string{"lda/standard/1", "pca/none/3,mfa/rank/2/ridge=0.1",
		"lda/standard/2/landmarks=1/width=0.25,mfa/standard/2/landmarks=1/width=0.25/k1=3"} {
		members, err := parse(text)
		if err != nil || format(members) != text {
			t.Errorf("%s is read as %+v, %v", text, members, err)
		}
	}
	if m, err := parse("lda/standard/2/landmarks=7"); err != nil || format(m) != "lda/standard/2/landmarks=7/width=1" {
		t.Errorf("without a width: %+v, %v", m, err)
	}
	for text, want := range map[string]string{
		"lda/standard":                                          "give method/scale/dim",
		"lda/standard/0":                                        `dim "0"; give at least 1`,
		"lda/standard/x":                                        `dim "x"`,
		"lda/standard/2/ridge":                                  "give name=value",
		"lda/standard/2/landmarks=0":                            `landmarks "0"; give at least 1`,
		"lda/standard/2/landmarks=5/width=0":                    `width "0"`,
		"lda/standard/2/landmarks=5/width=Inf":                  `width "Inf"`,
		"lda/standard/2/width=1":                                "width 1 without landmarks",
		"lda/standard/2/ridge=-1":                               "-1",
		"isomap/standard/2":                                     "isomap is not linear",
		"none/standard/2":                                       "none",
		"lda/auto/2":                                            "auto",
		"lda/none/1/landmarks=5,mfa/none/1/landmarks=6":         "give all members the same landmarks and width",
		"lda/none/1/landmarks=5/width=2,mfa/none/1/landmarks=5": "give all members the same landmarks and width",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
