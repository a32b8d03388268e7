package integration

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"
)

// TestCompose: the files of the example with containers exist where they are mounted, embedd accepts its configuration
// and knows the name by which Prometheus asks for it.
func TestCompose(t *testing.T) {
	t.Parallel()
	const dir = "../deploy/compose"
	var compose struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Volumes     []string
			Ports       []string
			DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
			Healthcheck any
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(must(os.ReadFile(dir+"/compose.yaml"))(t), &compose); err != nil {
		t.Fatal(err)
	}
	dockerfile := string(must(os.ReadFile("../deploy/Dockerfile"))(t))
	for name, service := range compose.Services {
		var targets []string
		for _, volume := range service.Volumes {
			source, target, _ := strings.Cut(volume, ":")
			targets = append(targets, strings.TrimSuffix(target, ":ro"))
			if !strings.HasPrefix(source, ".") {
				if _, ok := compose.Volumes[source]; !ok {
					t.Errorf("%s uses the volume %s, which is not listed", name, source)
				}
			} else if _, err := os.Stat(filepath.Join(dir, source)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for other, on := range service.DependsOn {
			there, ok := compose.Services[other]
			if !ok || on.Condition == "service_healthy" && there.Healthcheck == nil {
				t.Errorf("%s waits for %s to be %q, which does not exist or has no check", name, other, on.Condition)
			}
		}
		if service.Image == "embedd" { // its entry point is the program
			help := succeed(t, "help", service.Command[0])
			for _, flag := range service.Command[1:] {
				switch {
				case strings.HasPrefix(flag, "-") && !strings.Contains(help, flag):
					t.Errorf("%s: embedd %s has no flag %s", name, service.Command[0], flag)
				case strings.HasPrefix(flag, "/") && !slices.Contains(targets, flag):
					t.Errorf("%s: nothing is mounted at %s", name, flag)
				}
			}
		}
		for _, flag := range service.Command {
			if _, path, ok := strings.Cut(flag, "=/"); ok && !slices.Contains(targets, "/"+path) {
				t.Errorf("%s: nothing is mounted at /%s", name, path)
			}
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s to other machines", name, port)
			}
		}
	}
	options, err := server.ConfigureOptions(flag.NewFlagSet("nats", flag.ContinueOnError),
		compose.Services["nats"].Command, func() {}, func() {}, func() {})
	server.FlagSnapshot = nil // else every server of this process takes these flags when it is reloaded
	if err != nil || !options.JetStream || options.StoreDir != "/data" || options.HTTPPort != 8222 {
		t.Errorf("nats: %+v, %v", options, err)
	}
	for name, service := range compose.Services { // no image moves by itself
		if _, tag, ok := strings.Cut(service.Image, ":"); service.Image != "embedd" && (!ok || tag == "latest") {
			t.Errorf("%s: image %s has no version", name, service.Image)
		}
	}
	// The default command of the image and its directories exist in it.
	for _, line := range []string{"/out/embedd /usr/local/bin/embedd", `ENTRYPOINT ["/usr/local/bin/embedd"]`,
		"/out/data /data", `CMD ["run", "-c", "/etc/embedd/embedd.yaml"]`, "/out/tmp /tmp", "./cmd/embedd"} {
		if !strings.Contains(dockerfile, line) {
			t.Errorf("the Dockerfile has no %s", line)
		}
	}
	source := string(must(os.ReadFile("../cmd/embedd/help.go"))(t))
	declared := regexp.MustCompile(`\nvar (.*) string\n`).FindStringSubmatch(source)
	for _, name := range regexp.MustCompile(`-X main\.(\w+)=`).FindAllStringSubmatch(dockerfile, -1) {
		if !slices.Contains(strings.Split(declared[1], ", "), name[1]) {
			t.Errorf("the Dockerfile sets main.%s, which does not exist", name[1])
		}
	}
	succeed(t, "check", "-c", must(filepath.Abs(dir+"/embedd.yaml"))(t))
	if config := string(must(os.ReadFile(dir + "/embedd.yaml"))(t)); !strings.Contains(config, "hosts: [embedd]") {
		t.Error("http.hosts does not have the name of the service")
	}
	// alerts.yaml is next to the configuration in the container.
	work := t.TempDir()
	for _, from := range []string{dir + "/prometheus.yaml", monitoring + "/alerts.yaml"} {
		write(t, filepath.Join(work, filepath.Base(from)), string(must(os.ReadFile(from))(t)))
	}
	cmd := exec.Command(prometheusTool(t, "promtool"), "check", "config", "prometheus.yaml")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
	help, _ := exec.Command(prometheusTool(t, "prometheus"), "--help-long").CombinedOutput()
	for _, arg := range compose.Services["prometheus"].Command {
		if name, _, _ := strings.Cut(arg, "="); !strings.Contains(string(help), name) {
			t.Errorf("prometheus has no flag %s", name)
		}
	}
}
