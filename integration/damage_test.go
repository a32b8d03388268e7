package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream/registry"
)

// TestDamagedModels: a daemon whose pointer is damaged and whose live model has lost its bytes starts, answers with the
// previous version, and reports that in the log, the status and `model ls`. `model rollback` to the damaged version is
// refused, and after the store was deleted no epoch is used twice.
func TestDamagedModels(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c := dial(t, s.ClientURL())
	c.streams()
	config := configFile(t, s.ClientURL(), strings.Replace(learning, "every: {rows: 1000", "every: {rows: 300", 1))
	g := digits(t)
	d := startDaemon(t, config)
	sent := 0
	send := func() {
		from := sent * 50 % 1400
		c.send("features.digits", g.message(t, from, from+50, true))
		sent++
	}
	for range 28 {
		send()
	}
	c.await("REDUCED", sent)
	store := registry.New(must(registry.JetStream(t.Context(), c.js))(t), "digits", registry.Options{})
	var p *registry.Pointer
	eventually(t, says("a second version is live"), func() bool {
		send() // the fewer fits there were, the more rows it needs
		p = must(store.Pointer(t.Context()))(t)
		return p.Previous != ""
	})
	c.await("REDUCED", sent)
	d.stop()
	p = must(store.Pointer(t.Context()))(t)
	objects := must(c.js.ObjectStore(t.Context(), registry.Bucket))(t)
	if err := objects.Delete(t.Context(), p.Live); err != nil {
		t.Fatal(err)
	}
	must(must(c.js.KeyValue(t.Context(), registry.Bucket))(t).PutString(t.Context(), "digits", "{"))(t)

	if lines := versions(t, "--server", s.ClientURL()); len(lines) < 2 {
		t.Errorf("of a damaged store `model ls` shows %+v", lines)
	}
	d = startDaemon(t, config)
	eventually(t, says("ready"), func() bool { code, _ := d.get("/readyz"); return code == 200 })
	c.send("features.digits", g.message(t, 0, 50, false))
	c.await("REDUCED", sent+1)
	if m := c.last("REDUCED").header.Get(wire.HeaderModel); m == p.Live {
		t.Errorf("answered by %s, which cannot be read", m)
	}
	for _, want := range []string{"cannot be read", p.Live, "embedd model rollback",
		`msg="a model is live" pipeline=digits version=` + p.Previous} {
		d.awaitLog(want)
	}
	states := map[string]string{}
	for _, v := range versions(t, "--server", s.ClientURL()) {
		states[v.Version] = v.State
	}
	if states[p.Live] != "damaged" || states[p.Previous] == "" { // by now a newer one may be live
		t.Errorf("`model ls` shows %v", states)
	}
	if status := succeed(t, "status", "digits", "--format", "json", "--server", s.ClientURL()); !strings.Contains(status,
		"cannot be read") {
		t.Errorf("the status is %s", status)
	}
	d.stop()

	for _, stream := range []string{"OBJ_" + registry.Bucket, "KV_" + registry.Bucket} {
		if err := c.js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	d = startDaemon(t, config)
	var m []string
	eventually(t, says("a first model again"), func() bool {
		m = promoted.FindStringSubmatch(d.log.String())
		return promotions(d) > 0 && m != nil
	})
	if len(m[2]) < 10 {
		t.Errorf("after the store was deleted it continues with %v", m)
	}
	d.stop()
}

// TestDamagedDirectory: the same with models in a directory.
func TestDamagedDirectory(t *testing.T) {
	dir := t.TempDir()
	store := registry.New(must(registry.Directory(dir))(t), "digits", registry.Options{})
	if err := os.MkdirAll(filepath.Join(dir, "digits"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "digits", "pointer-7.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	c := must(store.Live(t.Context()))(t)
	if c.Live != nil || c.Damage == "" {
		t.Errorf("of a directory with a damaged pointer alone live is %+v", c)
	}
}
