package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/embedd/embedd/internal/link"
)

const monitoring = "../deploy/monitoring"

// alertRules are the rules of alerts.yaml.
type alertRules struct {
	Groups []struct {
		Rules []struct {
			Alert, Record, Expr string
			Annotations         map[string]string
		}
	}
}

func readAlerts(t *testing.T) (r alertRules) {
	t.Helper()
	if err := yaml.Unmarshal(must(os.ReadFile(monitoring+"/alerts.yaml"))(t), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// expressions are what the alerts and the dashboard ask Prometheus for.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	var dashboard any
	if err := json.Unmarshal(must(os.ReadFile(monitoring+"/dashboard.json"))(t), &dashboard); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, one := range v {
				if text, ok := one.(string); ok && (key == "expr" || key == "query") {
					all = append(all, text)
				}
				walk(one)
			}
		case []any:
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(dashboard)
	return all
}

// selector is a metric with the labels that an expression asks of it.
var selector = regexp.MustCompile(`\b((?:embedd|process|go)_\w+)(?:\{([^}]*)\})?`)

// selectors are the metrics of the expressions, with the values that their labels must have.
func selectors(t *testing.T) map[string]map[string][]string {
	t.Helper()
	matcher := regexp.MustCompile(`(\w+)=~?"([^"$]*)"`)
	all := map[string]map[string][]string{}
	for _, e := range expressions(t) {
		for _, m := range selector.FindAllStringSubmatch(e, -1) {
			if all[m[1]] == nil {
				all[m[1]] = map[string][]string{}
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				all[m[1]][l[1]] = append(all[m[1]][l[1]], strings.Split(l[2], "|")...)
			}
		}
	}
	return all
}

// learnedDaemon is a daemon whose pipeline has replaced its first model, so that every gauge has a value.
func learnedDaemon(t *testing.T) *daemon {
	t.Helper()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	d := startDaemon(t, configFile(t, s.ClientURL(), `digits:
  input: {stream: FEATURES, subject: features.digits}
  schema: {features: [pixels], label: label}
  output: {subject: reduced.digits, dead: dead.digits}
  model: {method: lda, dim: 5}
  training: {every: {rows: 200}, gate: {evidence: 2}}`))
	table := digits(t)
	for sent := 0; d.metric(`embedd_accuracy{kind="promotion",pipeline="digits"}`) == ""; sent += 250 {
		if sent > 20_000 {
			t.Fatal("no candidate replaces the first model")
		}
		c.send("features.digits", table.message(t, sent, sent+250, true))
		d.awaitMetric(`embedd_rows_total{pipeline="digits",result="out"}`, fmt.Sprint(sent+250))
	}
	return d
}

// TestMonitoringSeries: every series that the alerts and the dashboard select exists in a real daemon, and the page of
// metrics lists every metric that the daemon has.
func TestMonitoringSeries(t *testing.T) {
	t.Parallel()
	d := learnedDaemon(t)
	asked := selectors(t)
	if len(asked) < 30 {
		t.Errorf("the alerts and the dashboard ask for %d metrics", len(asked))
	}
	delete(asked, "embedd_drift") // it exists after more rows
	body, missing := "", []string(nil)
	eventually(t, func() string {
		return fmt.Sprintf("the daemon has the series that are asked for, now without %q", missing)
	},
		func() bool {
			_, body = d.get("/metrics")
			missing = nil
			need := func(series string) {
				if !regexp.MustCompile("(?m)^" + series).MatchString(body) {
					missing = append(missing, series)
				}
			}
			for name, labels := range asked {
				need(name + "[{ ]")
				for label, values := range labels {
					for _, value := range values {
						need(fmt.Sprintf(`%s\{(?:.*,)?%s="%s"`, name, label, regexp.QuoteMeta(value)))
					}
				}
			}
			return len(missing) == 0
		})
	families := map[string]bool{}
	for _, line := range strings.Split(body, "\n") {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			families[strings.Fields(name)[0]] = true
		}
	}
	page := string(must(os.ReadFile("../docs/metrics.md"))(t))
	for name := range families {
		if strings.HasPrefix(name, "embedd_") && !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("docs/metrics.md has no %s", name)
		}
	}
}

// TestRunbook: every alert has a section in the runbook that says what it means, how to look, what to do and when to
// escalate, and its URL leads there.
func TestRunbook(t *testing.T) {
	page := string(must(os.ReadFile("../docs/runbook.md"))(t))
	sections := map[string]string{}
	for _, section := range strings.Split(page, "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}
	alerts := map[string]bool{}
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			alerts[r.Alert] = true
			if want := "/docs/runbook.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"], want) {
				t.Errorf("%s has runbook_url %q", r.Alert, r.Annotations["runbook_url"])
			}
			for _, part := range []string{"**Means.**", "**Look.**", "**Do.**", "**Escalate.**"} {
				if !strings.Contains(sections[r.Alert], part) {
					t.Errorf("the section %s of the runbook has no %s", r.Alert, part)
				}
			}
		}
	}
	for title := range maps.Keys(sections) {
		if !alerts[title] {
			t.Errorf("the runbook has a section %s, and there is no such alert", title)
		}
	}
}

// prometheusTool is a program of the Debian package prometheus, in the directory that EMBEDD_PROMETHEUS names.
func prometheusTool(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("EMBEDD_PROMETHEUS")
	if dir == "" {
		t.Skip("EMBEDD_PROMETHEUS does not name a directory with promtool and prometheus; .ci/run sets it")
	}
	return filepath.Join(dir, name)
}

// TestPrometheus: promtool accepts the rules, their tests and the metrics of a real daemon, and a real Prometheus that
// scrapes the daemon has every series that the alerts and the dashboard select.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	promtool := prometheusTool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		must(os.Stat(filepath.Join(monitoring, args[2])))(t) // go test then knows that this test reads it
		cmd := exec.Command(promtool, args...)
		cmd.Dir = monitoring
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	d := learnedDaemon(t)
	_, body := d.get("/metrics")
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(body)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	scrape(t, d, slices.DeleteFunc(slices.Collect(maps.Keys(selectors(t))),
		func(name string) bool { return name == "embedd_drift" }))
}

// scrape runs a Prometheus with the alerts until it has these metrics of the daemon.
func scrape(t *testing.T, d *daemon, want []string) {
	t.Helper()
	dir := t.TempDir()
	rules := must(filepath.Abs(monitoring + "/alerts.yaml"))(t)
	write(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"+
		"rule_files: [%q]\nscrape_configs: [{job_name: embedd, static_configs: [{targets: [%q]}]}]\n", rules,
		strings.TrimPrefix(d.http, "http://")))
	address := fmt.Sprintf("127.0.0.1:%d", link.FreePort(t))
	cmd := exec.Command(prometheusTool(t, "prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
		"--web.listen-address="+address, "--log.level=error")
	log := &buffer{}
	cmd.Dir, cmd.Stderr = dir, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var missing []string
	eventually(t, func() string { return fmt.Sprintf("Prometheus has no %q; it says:\n%s", missing, log) }, func() bool {
		answer, err := http.Get("http://" + address + "/api/v1/label/__name__/values?match[]=" +
			url.QueryEscape(`{job="embedd"}`))
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		var list struct{ Data []string }
		if text, err := io.ReadAll(answer.Body); err != nil || json.Unmarshal(text, &list) != nil {
			return false
		}
		missing = slices.DeleteFunc(slices.Clone(want), func(name string) bool { return slices.Contains(list.Data, name) })
		return len(missing) == 0
	})
}
