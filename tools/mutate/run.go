package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// digests matches the tests that compare a result as a whole with a stored or a repeated one: they notice a change, but
// not what changed.
var digests = regexp.MustCompile(`^Test(GoldenDigests|Golden\w*|SameRowsSameDigest|Digest|\w*Fixture\w*)$`)

// Limits of a test process. They are CPU time, so that results do not depend on the load of the machine. The limit of
// wall-clock time is slowdown times as long, for tests that wait.
const (
	testLimit = time.Minute // longer tests are left out
	hang      = 20 * time.Second
	slowdown  = 20      // limit of wall-clock time, as a multiple of that of CPU time
	maxMemory = 8 << 20 // in KiB of address space: a mutant may allocate without end
)

// run is one execution of the command.
type run struct {
	tree     *tree
	work     string // folder of the overlay and the binaries
	binaries map[string]string
	numbered int
	names    *regexp.Regexp // of the tests to run
	budget   time.Duration  // of the tests for one mutant, as long as they take without a mutant
	workers  int
	log      *os.File
	started  time.Time
}

// test is one test function, as it behaves without a mutant.
type test struct {
	pkg     string
	name    string
	took    time.Duration // CPU time
	reached map[int]bool  // numbers of mutants whose place it executes
}

func (t *test) digest() bool { return digests.MatchString(t.name) }

// outcome is what the tests said about a mutant.
type outcome struct {
	*mutant
	Status  string // "killed", "killed by a digest" or "survived"
	Test    string // package and name of the test that failed
	How     string // "failed", "panic" or "timeout"
	Reached int    // tests that execute the place
	Run     int    // of them, those that were run
}

func (r *run) progress(format string, args ...any) {
	fmt.Fprintf(r.log, "%7s  %s\n", time.Since(r.started).Round(time.Second), fmt.Sprintf(format, args...))
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d: %s: %s: %s -> %s", m.File, m.Line, m.place(), m.Kind, oneLine(m.From), oneLine(m.To))
}

// place is the declaration that is changed: a function, or a constant, with its function if that declares it.
func (m *mutant) place() string {
	if m.Named != "" && m.Named != m.In {
		return m.In + "." + m.Named
	}
	return m.In
}

// oneLine shortens source for a table.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 70 {
		return string(runes[:67]) + "..."
	}
	return text
}

// record runs each test alone without a mutant, and notes its time and the mutants whose places it executes.
func (r *run) record(mutants []*mutant) ([]*test, error) {
	var tests []*test
	for _, path := range sortedKeys(r.binaries) {
		out, err := r.command(context.Background(), path, nil, testLimit, "-test.list", ".").CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("list the tests of %s: %w\n%s", path, err, out)
		}
		for _, name := range strings.Fields(string(out)) {
			isTest := strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")
			if isTest && r.names.MatchString(name) {
				tests = append(tests, &test{pkg: path, name: name})
			}
		}
	}
	var mutex sync.Mutex
	done := 0
	r.each(len(tests), func(i int) {
		t := tests[i]
		file := filepath.Join(r.work, "reached-"+strconv.Itoa(i))
		out, took, err := r.tests(t.pkg, []*test{t}, testLimit, "MUTANT_RECORD="+file)
		t.took = took
		noted, _ := os.ReadFile(file)
		t.reached = map[int]bool{}
		for _, word := range strings.Fields(string(noted)) {
			if number, err := strconv.Atoi(word); err == nil {
				t.reached[number] = true
			}
		}
		mutex.Lock()
		defer mutex.Unlock()
		done++
		if err != nil {
			t.reached = nil
			r.progress("%s of %s is left out, it fails without a mutant: %s", t.name, t.pkg, lastLines(out))
		}
		if done%50 == 0 || done == len(tests) {
			r.progress("%d of %d tests recorded", done, len(tests))
		}
	})
	return tests, nil
}

// each calls f for 0 to n-1, several at a time.
func (r *run) each(n int, f func(i int)) {
	var group sync.WaitGroup
	indices := make(chan int)
	for range r.workers {
		group.Go(func() {
			for i := range indices {
				f(i)
			}
		})
	}
	for i := range n {
		indices <- i
	}
	close(indices)
	group.Wait()
}

// kill runs the tests that execute the place of a mutant until one fails: those that name the fault first, of near
// packages first, short ones first.
func (r *run) kill(m *mutant, tests []*test) outcome {
	o := outcome{mutant: m, Status: "survived"}
	var named, whole []*test
	for _, c := range r.tree.near(m.Package) {
		for _, t := range tests {
			if t.pkg != c.path || !t.reached[m.number] {
				continue
			}
			o.Reached++
			if t.digest() {
				whole = append(whole, t)
			} else {
				named = append(named, t)
			}
		}
	}
	left := r.budget
	for _, group := range batches(named) {
		if left <= 0 {
			break
		}
		left -= sum(group)
		if r.killedBy(&o, group) {
			o.Status = "killed"
			return o
		}
	}
	for _, group := range batches(whole) {
		if r.killedBy(&o, group) {
			o.Status = "killed by a digest"
			return o
		}
	}
	return o
}

// batches puts tests of one package together that run in one process: few and short ones first, so that most mutants
// need only these.
func batches(tests []*test) (groups [][]*test) {
	for len(tests) > 0 {
		n := 0
		for n < len(tests) && tests[n].pkg == tests[0].pkg {
			n++
		}
		same := slices.Clone(tests[:n])
		tests = tests[n:]
		slices.SortStableFunc(same, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
		for room := time.Second; len(same) > 0; room *= 4 {
			k := 1
			for k < len(same) && sum(same[:k+1]) < room {
				k++
			}
			groups = append(groups, same[:k])
			same = same[k:]
		}
	}
	return groups
}

func sum(tests []*test) (total time.Duration) {
	for _, t := range tests {
		total += t.took
	}
	return total
}

var (
	failure = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	running = regexp.MustCompile(`(?s)running tests:\n\t(\w+)`)
	begun   = regexp.MustCompile(`(?m)^=== (?:RUN|CONT|NAME) +(\w+)`)
)

// killedBy runs tests of one package with the mutant, and notes the one that failed.
func (r *run) killedBy(o *outcome, group []*test) bool {
	o.Run += len(group)
	limit := hang + 10*sum(group)
	out, took, err := r.tests(group[0].pkg, group, limit, "MUTANT="+strconv.Itoa(o.number))
	if err == nil {
		return false
	}
	o.How = "failed"
	names := failure.FindAllSubmatch(out, 1)
	switch {
	case bytes.Contains(out, []byte("panic: test timed out")):
		o.How = "timeout"
		names = running.FindAllSubmatch(out, 1)
	case took >= limit:
		o.How = "timeout"
	case bytes.Contains(out, []byte("\npanic: ")), bytes.Contains(out, []byte("\nfatal error: ")):
		o.How = "panic"
	}
	if len(names) == 0 {
		names = begun.FindAllSubmatch(out, -1)
	}
	name := group[0].name
	if len(names) > 0 {
		name = string(names[len(names)-1][1])
	}
	o.Test = strings.TrimPrefix(group[0].pkg, r.tree.module+"/") + "." + name
	return true
}

// tests runs tests of a package in one process, and returns its output and CPU time.
func (r *run) tests(pkg string, group []*test, limit time.Duration, env string) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), slowdown*limit+10*time.Second)
	defer cancel()
	var names []string
	for _, t := range group {
		names = append(names, t.name)
	}
	cmd := r.command(ctx, pkg, []string{env}, limit, "-test.run", "^("+strings.Join(names, "|")+")$", "-test.short",
		"-test.v", "-test.failfast", "-test.timeout", (slowdown * limit).String())
	out, err := cmd.CombinedOutput()
	var took time.Duration
	if cmd.ProcessState != nil {
		took = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return out, took, err
}

// command runs a test binary in the directory of its package, as go test does, with a limit of its CPU time. Its child
// processes end with it.
func (r *run) command(ctx context.Context, pkg string, env []string, limit time.Duration, args ...string) *exec.Cmd {
	limited := fmt.Sprintf(`ulimit -v %d; ulimit -t %d; exec "$0" "$@"`, maxMemory, int(math.Ceil(limit.Seconds())))
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", limited, r.binaries[pkg]}, args...)...)
	cmd.Dir = r.tree.packages[pkg].dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func lastLines(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return oneLine(strings.Join(lines[max(0, len(lines)-4):], " "))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func sortedMutants(set map[*mutant]bool) []*mutant {
	return slices.SortedFunc(maps.Keys(set), func(a, b *mutant) int { return cmp.Compare(a.number, b.number) })
}
