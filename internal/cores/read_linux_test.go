package cores

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/procfs"
)

// TestQuota: the quota of a container counts as it is, in both versions of control groups, and that of a group above.
func TestQuota(t *testing.T) {
	v2 := func(path string) procfs.Cgroup { return procfs.Cgroup{Path: path} }
	v1 := func(path string) procfs.Cgroup {
		return procfs.Cgroup{HierarchyID: 4, Controllers: []string{"cpu", "cpuacct"}, Path: path}
	}
	first := func(quota, period string) map[string]string { // files of version 1
		return map[string]string{"cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": period}
	}
	other := procfs.Cgroup{HierarchyID: 3, Controllers: []string{"memory"}, Path: "/"}
	none := math.Inf(1)
	for name, c := range map[string]struct {
		group procfs.Cgroup
		files map[string]string
		want  float64
	}{
		"no files":               {v2("/"), nil, none},
		"no quota":               {v2("/"), map[string]string{"cpu.max": "max 100000\n"}, none},
		"half a core":            {v2("/"), map[string]string{"cpu.max": "50000 100000\n"}, 0.5},
		"a group above has less": {v2("/a/b"), map[string]string{"a/cpu.max": "15 10", "a/b/cpu.max": "2 1"}, 1.5},
		"of another group":       {v2("/a"), map[string]string{"b/cpu.max": "15 10"}, none},
		"unknown text":           {v2("/"), map[string]string{"cpu.max": "?"}, none},
		"of another controller":  {other, map[string]string{"cpu.max": "2 1"}, none},
		"version 1":              {v1("/"), first("150000\n", "100000\n"), 1.5},
		"version 1, no quota":    {v1("/"), first("-1\n", "100000\n"), none},
		"version 1, own root":    {v1("/docker/a"), first("200000\n", "100000\n"), 2},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := quota(root, []procfs.Cgroup{c.group}); got != c.want {
			t.Errorf("%s: %v cores, want %v", name, got, c.want)
		}
	}
}
