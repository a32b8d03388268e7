package blend

import (
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
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

// TestWhatABlendNeeds: a blend needs rows if a member does, and the scale unit if a member has it.
func TestWhatABlendNeeds(t *testing.T) {
	for text, want := range map[string]string{
		"lda/standard/1,pca/none/2":                     "",
		"lda/standard/1,pca/minmax/2,mfa/none/1":        "pca/minmax/2",
		"lda/standard/1/landmarks=5,pca/none/2":         "lda/standard/1/landmarks=5/width=1",
		"pca/standard/2,mfa/standard/2/k1=3,pca/rank/2": "mfa/standard/2/k1=3",
		"pca/standard/2,lda/rank/2":                     "lda/rank/2",
		"pca/standard/2,lda/unit/2":                     "lda/unit/2",
	} {
		params := map[string]string{"members": text}
		if got := NeedsRows(params); got != want {
			t.Errorf("%s: %q needs the rows, want %q", text, got, want)
		}
		if got := Of(params).Streaming; got != map[bool]string{true: "moments", false: "window"}[want == ""] {
			t.Errorf("%s learns from %s", text, got)
		}
	}
	if Of(map[string]string{"members": "none"}).Streaming != "window" {
		t.Error("a blend of nothing learns from moments")
	}
	unit := map[string]string{"members": "lda/standard/1,pca/unit/2"}
	want := `member "pca/unit/2" has the scale unit, and the blend standard: give the blend the scale unit, or the ` +
		"member another one"
	if err := CheckScale(unit, model.ScaleStandard); err == nil || err.Error() != want {
		t.Error(err)
	}
	if err := CheckScale(unit, model.ScaleUnit); err != nil {
		t.Error(err)
	}
	if err := CheckScale(map[string]string{"members": "lda/standard/1"}, model.ScaleNone); err != nil {
		t.Error(err)
	}
	// The numbers of classes and of columns, and the default number of outputs.
	for _, c := range [][3]int{{3, 50, 20}, {25, 50, 24}, {21, 50, 20}, {22, 50, 21}, {3, 7, 7}} {
		task := &frame.Task{Columns: c[1], Basis: &frame.BasisScatters{Counts: make([]float64, c[0])}}
		if got := Method.Dim(task); got != c[2] {
			t.Errorf("%d classes, %d columns: %d outputs, want %d", c[0], c[1], got, c[2])
		}
	}
	if _, err := parse("lda/none/1/landmarks=5,mfa/none/1/landmarks=6/width=2"); err == nil ||
		!strings.Contains(err.Error(),
			`member "mfa/none/1/landmarks=6/width=2" has 6 landmarks of width 2, another has 5 of width 1; give`) {
		t.Error(err)
	}
}
