package fit

import (
	"github.com/embedd/embedd/model"
)

// begin starts the report of a fit, and marks the parameters where auto decided.
func (c Config) begin(params map[string]string) *model.Report {
	r := &model.Report{}
	if c.choice != nil {
		params["auto"] = c.choice.Of
		copied := *c.choice
		r.Choice = &copied
	}
	return r
}
