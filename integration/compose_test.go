package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestCompose: the files of the example with containers exist where they are mounted, embedd accepts its configuration
// and knows the name by which Prometheus asks for it.
func TestCompose(t *testing.T) {
	const dir = "../deploy/compose"
	var compose struct {
		Services map[string]struct {
			Volumes []string
			Ports   []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(must(os.ReadFile(dir+"/compose.yaml"))(t), &compose); err != nil {
		t.Fatal(err)
	}
	for name, service := range compose.Services {
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(source, ".") {
				if _, ok := compose.Volumes[source]; !ok {
					t.Errorf("%s uses the volume %s, which is not listed", name, source)
				}
			} else if _, err := os.Stat(filepath.Join(dir, source)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s to other machines", name, port)
			}
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
}
