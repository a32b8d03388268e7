package config_test

import (
	"fmt"
	"os"

	"github.com/embedd/embedd/cmd/embedd/config"
)

func ExampleParse() {
	file := []byte(`pipelines:
  digits:
    input:  {stream: FEATURES}
    schema: {features: [pixels]}
    model:  {method: lda, dim: 8}
`)
	c, err := config.Parse("embedd.yaml", file, os.LookupEnv)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := c.Pipelines[0]
	fmt.Println(p.Name, p.Input.Subject, p.Output.Subject, p.Model.Method, p.Model.Dim, p.Limits.Message)
	// Output: digits features.digits reduced.digits lda 8 8388608
}

func ExampleParse_problems() {
	file := []byte(`pipelines:
  digits:
    schema: {features: [pixels], nulls: drop}
    model:  {methd: lda}
`)
	_, err := config.Parse("embedd.yaml", file, os.LookupEnv)
	fmt.Println(err)
	// Output:
	// embedd.yaml:3:41: pipelines.digits.schema.nulls: "drop": want auto, reject, impute or skip
	// embedd.yaml:4:14: pipelines.digits.model: unknown key "methd": did you mean "method"?
}
