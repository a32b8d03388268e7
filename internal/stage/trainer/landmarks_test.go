package trainer

import (
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// TestLandmarksOfAModel: candidates keep the landmarks of the live model, and draw others if it has none or others than
// configured; after a restart those that were to be drawn again still are.
func TestLandmarksOfAModel(t *testing.T) {
	l, log, live := logged(t, fit.Config{Method: "lda", Dim: 2, Landmarks: 20})
	f := l.fitter
	first := f.landmarks.Landmarks
	f.keepLandmarks(t.Context(), live().Model)
	if f.landmarks.Landmarks != first || f.landmarks.New || log.Len() > 0 {
		t.Errorf("landmarks %+v, the log has %q", f.landmarks.renewal, log.String())
	}
	f.landmarks = landmarks{}
	if f.keepLandmarks(t.Context(), live().Model); f.landmarks.Len() != 20 || f.landmarks.New {
		t.Errorf("%d landmarks of the model, %+v", f.landmarks.Len(), f.landmarks.renewal)
	}
	for _, r := range []renewal{{}, {New: true}, {Alarmed: true}, {New: true, Alarmed: true}} {
		f.landmarks = landmarks{}
		if f.resumeLandmarks(live().Model, r); f.landmarks.renewal != r || (f.landmarks.Landmarks == nil) != r.New {
			t.Errorf("after a restart with %+v: %+v", r, f.landmarks)
		}
	}
	rows := &model.Data{N: 3, M: 2, X: []float64{1, 2, 4, 5, 7, 9}, Features: []string{"x", "y"}}
	plain, err := fit.Fit(t.Context(), rows, fit.Config{Method: "pca", Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	log.Reset()
	f.landmarks = landmarks{Landmarks: first}
	if f.keepLandmarks(t.Context(), plain); f.landmarks.Landmarks != nil || !f.landmarks.New ||
		!strings.HasPrefix(log.String(), `level=INFO msg="candidates are fitted on new landmarks" cause="`) {
		t.Errorf("landmarks %+v, the log has %q", f.landmarks, log.String())
	}
	log.Reset()
	if err := f.prepare(t.Context()); err != nil || f.landmarks.Len() != 20 {
		t.Errorf("%d landmarks are drawn, %v", f.landmarks.Len(), err)
	}
	if !strings.HasPrefix(log.String(), `level=INFO msg="landmarks were drawn" landmarks=20 rank=`) ||
		!strings.HasSuffix(log.String(), " requested=20 rows=260\n") {
		t.Errorf("the log has %q", log.String())
	}
	if f.redrawLandmarks(); f.landmarks.Landmarks != nil {
		t.Error("landmarks that are not those of the live model stay")
	}
	f.landmarks = landmarks{Landmarks: first}
	if f.redrawLandmarks(); f.landmarks.Landmarks != first {
		t.Error("landmarks of the live model are drawn again")
	}
	none, _, _ := logged(t, fit.Config{Method: "lda", Dim: 2})
	none.fitter.keepLandmarks(t.Context(), live().Model)
	none.fitter.resumeLandmarks(live().Model, renewal{New: true})
	err = none.fitter.prepare(t.Context())
	if err != nil || none.fitter.landmarks.Landmarks != nil || none.fitter.landmarks.New {
		t.Errorf("without landmarks there are %+v, %v", none.fitter.landmarks, err)
	}
}
