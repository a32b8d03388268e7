package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/embedd/embedd/model/fit"
)

func methodsCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "methods [NAME]...", Short: "the methods, their parameters and papers",
		Args: cobra.ArbitraryArgs, ValidArgs: methodNames(),
	}
	f := flagsOf(cmd)
	out := f.output(e)
	cmd.RunE = func(_ *cobra.Command, names []string) error {
		methods := fit.Methods()
		if len(names) > 0 {
			methods = methods[:0]
			for _, name := range names {
				m, err := fit.Lookup(name)
				if err != nil {
					return usageError{err}
				}
				methods = append(methods, m)
			}
		}
		if out.json {
			for _, m := range methods {
				if err := out.object(m); err != nil {
					return err
				}
			}
			return nil
		}
		t := out.table("METHOD", "LABELS", "MAP", "STREAMING", "TITLE", "PAPER")
		for _, m := range methods {
			labels := "no"
			if m.Supervised {
				labels = "yes"
			}
			t.row(m.Name, labels, m.Map, m.Streaming, m.Title, m.Paper)
		}
		if err := t.flush(); err != nil {
			return err
		}
		if len(names) == 0 {
			out.printf("\nauto chooses one of the fast ones by cross-validation on the rows at hand.\n")
		}
		out.printf("\n")
		t = out.table("PARAMETER", "DEFAULT", "TUNED OVER", "WHAT IT DOES")
		for _, m := range methods {
			for _, p := range m.Params {
				t.row(fmt.Sprintf("%s.%s", m.Name, p.Name), orDash(p.Default), orDash(strings.Join(p.Grid, " ")),
					strings.TrimSpace(p.Doc))
			}
		}
		return t.flush()
	}
	return cmd
}

// methodNames complete a method on the command line.
func methodNames() (names []string) {
	for _, m := range fit.Methods() {
		names = append(names, m.Name)
	}
	return names
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
