package main

import (
	"fmt"
	"strings"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/report"
	"github.com/embedd/embedd/stream"
)

// maxStatusColumns is the number of columns that a line below the table of status takes.
const maxStatusColumns = 100

// classesText is how many of a stream's classes the window has.
func classesText(l *stream.Learning) string {
	if l.ClassesSeen > l.Classes {
		return fmt.Sprintf("%d of %d classes", l.Classes, l.ClassesSeen)
	}
	return fmt.Sprintf("%d classes", l.Classes)
}

// windowText describes the rows that a pipeline learns from.
func windowText(l *stream.Learning) string {
	parts := []string{fmt.Sprintf("%d rows", l.Rows)}
	if l.EffectiveRows != nil {
		parts[0] += fmt.Sprintf(" (worth %.0f independent ones)", *l.EffectiveRows)
	}
	parts = append(parts, classesText(l))
	if l.HasRuns && l.RunRows != nil {
		parts = append(parts, fmt.Sprintf("runs of %.3g rows", *l.RunRows))
	}
	if l.LabelledShare != nil {
		parts = append(parts, fmt.Sprintf("labels on %.3g %% of the rows", 100**l.LabelledShare))
	}
	return strings.Join(parts, ", ")
}

// printWindows writes what the windows are, and what is unusual about the streams, below the table of status.
func printWindows(out *report.Output, reports []stream.Report) {
	for _, r := range reports {
		l := &r.Learning
		if l.Rows == 0 && len(l.Unusual) == 0 {
			continue
		}
		out.Printf("\n%s: %s\n", r.Pipeline, wrapped("window: "+windowText(l), len(r.Pipeline)+2))
		for _, u := range l.Unusual {
			out.Printf("%s\n", wrapped(fmt.Sprintf("  %s: %s", u.Kind, u.Text), 0))
		}
	}
}

// wrapped breaks a text into lines of maxStatusColumns columns, of which the first begins after some others, and those
// after it are indented.
func wrapped(text string, first int) string {
	const indent = "    "
	var b strings.Builder
	column := first
	lead := text[:len(text)-len(strings.TrimLeft(text, " "))]
	b.WriteString(lead)
	column += len(lead)
	for i, word := range strings.Fields(cli.Printable(text)) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > maxStatusColumns:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
