package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/model/fit"
)

func methodsCommand(e *cli.Env) *cobra.Command {
	cmd, f := cli.Verb("methods [NAME]...", "list the methods, their parameters and papers", 0, -1)
	cmd.ValidArgs = methodNames()
	out := report.TableFlag(f, e)
	cmd.RunE = func(_ *cobra.Command, names []string) error {
		methods := fit.Methods()
		if len(names) > 0 {
			methods = methods[:0]
			for _, name := range names {
				m, err := fit.Lookup(name)
				if err != nil {
					return cli.Usagef("%w", err)
				}
				methods = append(methods, m)
			}
		}
		if out.JSON {
			return report.Objects(out, methods)
		}
		t := out.Table("METHOD", "LABELS", "MAP", "STREAMING", "TITLE")
		for _, m := range methods {
			labels := "no"
			if m.Supervised {
				labels = "yes"
			}
			t.Row(m.Name, labels, m.Map, m.Streaming, m.Title)
			t.Below(m.Paper)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if len(names) == 0 {
			out.Printf("\nauto chooses one of the fast methods by cross-validation.\n")
		}
		out.Printf("\n")
		t = out.Table("PARAMETER", "DEFAULT", "TUNED OVER", "WHAT IT DOES")
		for _, m := range methods {
			for _, p := range m.Params {
				t.Row(fmt.Sprintf("%s.%s", m.Name, p.Name), report.OrDash(p.Default), report.OrDash(strings.Join(p.Grid, " ")),
					strings.TrimSpace(p.Doc))
			}
		}
		return t.Flush()
	}
	return cmd
}
