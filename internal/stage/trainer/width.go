package trainer

import (
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model/fit"
)

// roomyOutputs is the number of outputs of a first model of up to as many classes, plus one. Directions of the classes
// it knows come first; the others are zero until there are more classes.
const roomyOutputs = 20

// hasRoom reports whether a first model has room for classes that may come: the number of outputs is not configured,
// and depends on the classes.
func (p *plan) hasRoom() bool {
	method, _ := p.config.Fit.Describe() // the configuration is valid
	return p.config.Fit.Dim <= 0 && p.labelled() && (p.choosesMethod() ||
		p.config.Fit.Criterion == nil && method.Supervised && (method.ByClasses || p.config.Fit.Dim == fit.AutoDim) &&
			hasZeros(method))
}

// hasZeros reports whether models of a method can have outputs that are zero.
func hasZeros(m fit.Method) bool { return m.Map == "linear" || m.Map == "kernel" }

// settingsFor returns the settings with which a suffix is fitted: with as many directions as its classes have, within
// the number of outputs.
func (p *plan) settingsFor(s *window.Suffix, features int) fit.Config {
	c, directions := p.settings, len(s.Classes)-1
	if !p.hasRoom() {
		return c
	}
	c.Dim, c.Outputs = 0, p.width
	if p.width == 0 {
		c.Outputs = min(max(roomyOutputs, directions), p.columns(features))
		if c.MaxDim > 0 {
			c.Outputs = min(c.Outputs, c.MaxDim)
		}
	}
	c.MaxDim = c.Outputs
	if method, _ := c.Describe(); !hasZeros(method) && p.width > 0 && method.Name != fit.Auto {
		c.Dim, c.Outputs = p.width, 0
	} else if p.choice != nil {
		c.Dim = min(p.choice.Dim, p.width)
		if p.choiceClasses > 0 && len(s.Classes) > p.choiceClasses {
			c.Dim = min(max(c.Dim, directions), p.width)
		}
	} else if p.width == 0 {
		c.Dim = p.config.Fit.Dim // 0 or AutoDim
	}
	return c
}
