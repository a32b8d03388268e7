package blend

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// landmarksKey and widthKey are keys of a member, next to the parameters of its method: the number of landmarks and
// the width of their kernels.
const (
	landmarksKey = "landmarks"
	widthKey     = "width"
)

// Params are the parameters of a blend of these members.
func Params(members []model.Member) map[string]string {
	return map[string]string{"members": format(members)}
}

// format writes members as the value of the parameter.
func format(members []model.Member) string {
	var text []string
	for _, m := range members {
		one := fmt.Sprintf("%s/%s/%d", m.Method, m.Scale, m.Dim)
		if m.Landmarks > 0 {
			one += fmt.Sprintf("/%s=%d/%s=%g", landmarksKey, m.Landmarks, widthKey, specOf(m).Width)
		}
		for _, name := range slices.Sorted(maps.Keys(m.Params)) {
			one += "/" + name + "=" + m.Params[name]
		}
		text = append(text, one)
	}
	return strings.Join(text, ",")
}

// parse reads the parameter. A model has one set of landmarks, so all members with landmarks have to agree on them.
func parse(text string) (members []model.Member, err error) {
	var shared preprocess.Spec
	for one := range strings.SplitSeq(text, ",") {
		m, err := parseMember(one)
		if err != nil {
			return nil, fmt.Errorf("member %q: %w", one, err)
		}
		if s := specOf(m); s.Landmarks > 0 {
			if shared.Landmarks > 0 && (s.Landmarks != shared.Landmarks || s.Width != shared.Width) {
				return nil, fmt.Errorf("member %q has %d landmarks of width %g, another has %d of width %g; "+
					"give all members the same landmarks and width", one, s.Landmarks, s.Width, shared.Landmarks, shared.Width)
			}
			shared = s
		}
		members = append(members, m)
	}
	return members, nil
}

func parseMember(text string) (m model.Member, err error) {
	parts := strings.Split(text, "/")
	if len(parts) < 3 {
		return m, fmt.Errorf("give method/scale/dim, and parameters as /name=value")
	}
	m = model.Member{Method: parts[0], Scale: model.Scale(parts[1])}
	if m.Dim, err = strconv.Atoi(parts[2]); err != nil || m.Dim < 1 {
		return m, fmt.Errorf("dim %q; give at least 1", parts[2])
	}
	for _, p := range parts[3:] {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return m, fmt.Errorf("parameter %q; give name=value", p)
		}
		switch name {
		case landmarksKey:
			if m.Landmarks, err = strconv.Atoi(value); err != nil || m.Landmarks < 1 {
				return m, fmt.Errorf("landmarks %q; give at least 1", value)
			}
			continue
		case widthKey:
			if m.Width, err = strconv.ParseFloat(value, 64); err != nil || !(m.Width > 0) || math.IsInf(m.Width, 0) {
				return m, fmt.Errorf("width %q; give a number above 0", value)
			}
			continue
		}
		if m.Params == nil {
			m.Params = map[string]string{}
		}
		m.Params[name] = value
	}
	if m.Width > 0 && m.Landmarks == 0 {
		return m, fmt.Errorf("width %g without landmarks; give landmarks too", m.Width)
	}
	method, _, err := resolve(m)
	if err == nil && method.Map != "linear" {
		err = fmt.Errorf("%s is not linear", m.Method)
	}
	return m, err
}

// specOf is the preprocessing of a member's rows.
func specOf(m model.Member) preprocess.Spec {
	if m.Landmarks > 0 {
		return preprocess.Spec{Scale: m.Scale, Landmarks: m.Landmarks, Width: preprocess.Width(m.Width)}
	}
	return preprocess.Spec{Scale: m.Scale}
}

// resolve finds the method of a member and its parameters.
func resolve(m model.Member) (*frame.Method, map[string]string, error) {
	found, err := method.Find(m.Method)
	if err != nil {
		return nil, nil, err
	}
	if err := preprocess.CheckScale(m.Scale); err != nil {
		return nil, nil, err
	}
	params, err := found.Resolve(m.Params)
	return found, params, err
}

// CheckScale reports a member whose rows would have to be divided by their norm where those of the blend are not: all
// members get the rows of the blend.
func CheckScale(params map[string]string, scale model.Scale) error {
	members, _ := parse(params["members"]) // already validated
	for _, m := range members {
		if m.Scale == model.ScaleUnit && scale != model.ScaleUnit {
			return fmt.Errorf("member %q has the scale unit, and the blend %s: give the blend the scale unit, or the member "+
				"another one", format([]model.Member{m}), scale)
		}
	}
	return nil
}

// needsRows reports whether the moments of rows are not enough to fit a member.
func needsRows(m model.Member) bool {
	found, _, err := resolve(m)
	return err != nil || found.Streaming != "moments" || m.Landmarks > 0 || preprocess.ScaleNeedsRows(m.Scale)
}

// NeedsRows names the first member that moments are not enough for; "" if there is none.
func NeedsRows(params map[string]string) string {
	members, _ := parse(params["members"]) // already validated
	at := slices.IndexFunc(members, needsRows)
	if at < 0 {
		return ""
	}
	return format(members[at : at+1])
}

// Memory is the memory in bytes that a fit holds in addition to its rows: the most of any one member, and the
// preprocessed rows of all.
func Memory(e frame.Extent) int64 {
	members, _ := parse(e.Params["members"]) // already validated
	most, specs := int64(0), map[preprocess.Spec]bool{}
	for _, one := range members {
		found, params, _ := resolve(one)
		in := e
		in.Params = params
		if s := specOf(one); s.Landmarks > 0 {
			in.Features = min(s.Landmarks, e.Rows)
		}
		most = max(most, found.MemoryBytes(in))
		specs[specOf(one)] = true
	}
	if most == 0 && len(specs) == 1 {
		return 0
	}
	for s := range specs {
		most += s.Memory(e)
	}
	return most
}
