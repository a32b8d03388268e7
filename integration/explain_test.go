package integration

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// explain describes why replicas of a pipeline do not agree: the readiness, role and partitions of each, the leases as
// they are stored, with revisions and ages, and the end of each log. A claim has the process of its holder, the parts
// that it holds and the number of the assignment that it has seen; the coordinator's has the assignment.
func explain(c *client, pipeline string, daemons []*daemon) string {
	var out strings.Builder
	impatient := http.Client{Timeout: 5 * time.Second}
	for i, d := range daemons {
		fmt.Fprintf(&out, "\nreplica %d, process %d\n", i, d.cmd.Process.Pid)
		for _, path := range []string{"/readyz", "/metrics"} {
			answer, err := impatient.Get(d.http + path)
			if err != nil {
				fmt.Fprintln(&out, err)
				continue
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			for line := range strings.Lines(string(body)) {
				isState := slices.ContainsFunc([]string{"embedd_role{", "embedd_partitions_held{", "embedd_lease_term{",
					"embedd_condition{"}, func(name string) bool { return strings.HasPrefix(line, name) })
				if path == "/readyz" || isState && !strings.HasSuffix(line, " 0\n") {
					fmt.Fprint(&out, line)
				}
			}
		}
	}
	fmt.Fprintf(&out, "\nleases at %s\n%s", time.Now().Format(time.TimeOnly), leases(c, pipeline))
	for i, d := range daemons {
		fmt.Fprintf(&out, "\nend of the log of replica %d\n%s", i, tailOf(d.log.String(), 40))
	}
	return out.String()
}

// leases lists the stored leases of a pipeline, and the sessions of processes.
func leases(c *client, pipeline string) string {
	var out strings.Builder
	ctx := within(c.t, 30*time.Second)
	s, err := c.js.Stream(ctx, leaseStream)
	if err != nil {
		return err.Error()
	}
	const prefix = "$KV.EMBEDD_LEASES."
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return err.Error()
	}
	if info.Cluster != nil {
		fmt.Fprintln(&out, "the leader is", info.Cluster.Leader)
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		key := strings.TrimPrefix(subject, prefix)
		if !strings.HasPrefix(key, pipeline+".") && key != pipeline && !strings.HasPrefix(key, "process.") {
			continue
		}
		if m, err := s.GetLastMsgForSubject(ctx, subject); err != nil {
			fmt.Fprintln(&out, key, err)
		} else {
			fmt.Fprintf(&out, "%s revision %d, %.1f s old %s: %s\n", key, m.Sequence, time.Since(m.Time).Seconds(),
				m.Header.Get("KV-Operation"), m.Data)
		}
	}
	return out.String()
}
