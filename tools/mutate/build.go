package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// build compiles the mutants into one test binary for each package, and returns the mutants in them, as many of the
// queue as wanted. Mutants that do not compile are left out, and the next ones of the queue take their places.
func (r *run) build(queue []*mutant, wanted int) ([]*mutant, error) {
	var kept []*mutant
	refused := map[*mutant]bool{}
	for round := 1; ; round++ {
		for len(kept) < wanted && len(queue) > 0 {
			next := queue[0]
			queue = queue[1:]
			next.number = r.numbered + 1
			r.numbered++
			kept = append(kept, next)
		}
		if len(kept) == 0 {
			return nil, fmt.Errorf("no mutant compiles")
		}
		o, rejected := schemata(r.tree, kept)
		for _, m := range rejected {
			refused[m] = true
		}
		if len(rejected) == 0 {
			failed, err := r.compile(o, kept)
			if err != nil {
				return nil, err
			}
			if len(failed) == 0 {
				return kept, nil
			}
			for _, m := range failed {
				refused[m] = true
			}
		}
		var rest []*mutant
		for _, m := range kept {
			if !refused[m] {
				rest = append(rest, m)
			}
		}
		r.progress("round %d: %d of %d mutants do not compile", round, len(kept)-len(rest), len(kept))
		kept = rest
	}
}

// compilerError is the place of an error as the compiler prints it.
var compilerError = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):(?:\d+:)? (.*)$`)

// compile builds the test binaries, or returns the mutants that do not compile.
func (r *run) compile(o *overlay, kept []*mutant) (failed []*mutant, err error) {
	replace := map[string]string{}
	owner := map[string]map[int]*mutant{} // by each name that the compiler uses for a file
	for name, text := range o.text {
		stored := filepath.Join(r.work, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(stored, text, 0o600); err != nil {
			return nil, fmt.Errorf("store mutated source: %w", err)
		}
		replace[name] = stored
		owner[name], owner[stored] = o.owner[name], o.owner[name]
	}
	encoded, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, fmt.Errorf("encode the overlay: %w", err)
	}
	list := filepath.Join(r.work, "overlay.json")
	if err := os.WriteFile(list, encoded, 0o600); err != nil {
		return nil, fmt.Errorf("store the overlay: %w", err)
	}
	flags := []string{"-overlay", list, "-gcflags", r.tree.module + "/...=-e"}
	found := map[*mutant]bool{}
	check := func(args ...string) error {
		cmd := exec.Command("go", args...)
		cmd.Dir = r.tree.root
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		known := false
		for _, match := range compilerError.FindAllSubmatch(out, -1) {
			name := string(match[1])
			if !filepath.IsAbs(name) {
				name = filepath.Join(r.tree.root, name)
			}
			line, _ := strconv.Atoi(string(match[2]))
			if m := owner[name][line]; m != nil {
				if !found[m] {
					r.progress("does not compile: %s: %s", m, match[3])
				}
				known, found[m] = true, true
			}
		}
		if !known {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
		return nil
	}
	changed := map[string]bool{}
	for _, m := range kept {
		for _, c := range r.tree.near(m.Package) {
			changed[c.path] = true
		}
		changed[m.Package] = true
	}
	paths := sortedKeys(changed)
	if err := check(append(append([]string{"build"}, flags...), paths...)...); err != nil || len(found) > 0 {
		return sortedMutants(found), err
	}
	r.binaries = map[string]string{}
	for i, path := range paths {
		if !r.tree.packages[path].tested {
			continue
		}
		binary := filepath.Join(r.work, strconv.Itoa(i)+".test")
		if err := check(append(append([]string{"test", "-c", "-vet=off", "-o", binary}, flags...), path)...); err != nil {
			return nil, err
		}
		r.binaries[path] = binary
	}
	return sortedMutants(found), nil
}
