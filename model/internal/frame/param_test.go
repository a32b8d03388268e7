package frame

import "testing"

// TestParameters: each kind of parameter takes its bounds and words, and its error says what it takes.
func TestParameters(t *testing.T) {
	const refused = " is not allowed; give "
	for _, c := range []struct {
		param Param
		value string
		want  string // "": taken; otherwise the end of the error
	}{
		{IntParam("k", "5", "", 2), "2", ""},
		{IntParam("k", "5", "", 2), "1", "a whole number >= 2"},
		{IntParam("k", "5", "", 2), "2.5", "a whole number >= 2"},
		{IntParam("k", "5", "", 2, "auto"), "auto", ""},
		{IntParam("k", "5", "", 2, "auto", "all"), "some", "auto, all or a whole number >= 2"},
		{FloatParam("p", "0", "", -1, 1), "-1", ""},
		{FloatParam("p", "0", "", -1, 1), "1", ""},
		{FloatParam("p", "0", "", -1, 1), "1.001", "a number in [-1, 1]"},
		{FloatParam("p", "0", "", -1, 1, "auto"), "-1.001", "auto or a number in [-1, 1]"},
		{FloatParam("p", "0", "", -1, 1), "NaN", "a number in [-1, 1]"},
		{HeatParam("inf", ""), "0", "auto, inf or a number > 0"},
		{HeatParam("inf", ""), "1e-300", ""},
		{HeatParam("inf", ""), "inf", ""},
		{HeatParam("inf", ""), "+Inf", "auto, inf or a number > 0"},
		{RidgeParam("auto", "", true), "0", ""},
		{RidgeParam("auto", "", true), "oas", ""},
		{RidgeParam("auto", "", true), "-1e-9", "auto, oas or a number >= 0"},
		{RidgeParam("0.1", "", false), "oas", "a number >= 0"},
		{OriginParam("mean"), "augment", ""},
		{OriginParam("mean"), "median", "one of mean, none, augment"},
	} {
		err := c.param.Check(c.value)
		want := `"` + c.value + `"` + refused + c.want
		if (err == nil) != (c.want == "") || err != nil && err.Error() != want {
			t.Errorf("%s = %s: %v, want %s", c.param.Name, c.value, err, want)
		}
	}
}

// TestUnknownParameters: an error names the method, the parameter and those that there are.
func TestUnknownParameters(t *testing.T) {
	m := &Method{Name: "own", Params: []Param{IntParam("k", "5", "", 2), FloatParam("width", "1", "", 0, 9)}}
	none := &Method{Name: "bare"}
	for _, c := range []struct {
		of          *Method
		name, value string
		want        string
	}{
		{none, "k", "3", `method bare has no parameter "k"; it takes none`},
		{m, "widht", "3", `method own has no parameter "widht" (did you mean "width"?); allowed: k, width`},
		{m, "N_Neighbors", "3", `method own has no parameter "N_Neighbors" (did you mean "k"?); allowed: k, width`},
		{m, "something", "3", `method own has no parameter "something"; allowed: k, width`},
		{m, "k", "1", `method own, parameter k: "1" is not allowed; give a whole number >= 2`},
	} {
		if _, err := c.of.Resolve(map[string]string{c.name: c.value}); err == nil || err.Error() != c.want {
			t.Errorf("%s=%s: %v, want %s", c.name, c.value, err, c.want)
		}
	}
	for _, name := range []string{"knn", "n_neighbors", "neighbors", "neighbours", "nn"} {
		only := &Method{Name: "own", Params: []Param{FloatParam("width", "1", "", 0, 9), IntParam("k", "5", "", 2)}}
		want := `method own has no parameter "` + name + `" (did you mean "k"?); allowed: width, k`
		if _, err := only.Resolve(map[string]string{name: "3"}); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := m.Resolve(map[string]string{"width": "2"}); err != nil || len(all) != 2 || all["k"] != "5" ||
		all["width"] != "2" {
		t.Errorf("%v, %v", all, err)
	}
}
