package main

import "strings"

// columns is the width of the paragraphs on the page.
const columns = 120

// reflow fills paragraphs and list items. Tables, pictures and what is on a line of its own between blanks stay.
func reflow(text string) string {
	var done []string
	for block := range strings.SplitSeq(text, "\n\n") {
		var items []string // of a list, or the paragraph
		for line := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
			line = strings.TrimSpace(line)
			if len(items) == 0 || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "|") {
				items = append(items, line)
			} else {
				items[len(items)-1] += " " + line
			}
		}
		for i, item := range items {
			items[i] = fill(item)
		}
		done = append(done, strings.Join(items, "\n"))
	}
	return strings.Join(done, "\n\n")
}

// fill breaks a paragraph or list item into lines. A table row is one line.
func fill(item string) string {
	if strings.HasPrefix(item, "|") {
		return item
	}
	indent := ""
	if strings.HasPrefix(item, "- ") {
		indent = "  "
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(item) {
		if line != "" && len(line)+1+len(word) > columns {
			lines = append(lines, line)
			line = indent + word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}
