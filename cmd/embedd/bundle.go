package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/embedd/embedd/cmd/embedd/cli"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/cmd/embedd/daemon"
	"github.com/embedd/embedd/internal/durable"
	"github.com/embedd/embedd/stream/admin"
)

// bundle collects what a report of a fault needs: version, machine, configuration, findings, and the status and metrics
// of running daemons. It has no secrets and no rows, but the names of subjects, columns and classes.
type bundle struct {
	path     string
	findings []admin.Finding
	files    map[string][]byte
}

// newBundle refuses a file that exists or cannot be created.
func newBundle(path string) (*bundle, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("--bundle: %s exists already, or cannot be made; name another file", path)
	}
	if _, err := durable.CheckWritable(filepath.Dir(path)); err != nil {
		return nil, cli.Usagef("--bundle: %s cannot be created: %w: name a file in another directory", path, err)
	}
	return &bundle{path: path, files: map[string][]byte{}}, nil
}

// addStatus adds the answer of a daemon.
func (b *bundle) addStatus(pipeline string, answer []byte) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("status-%s-%d.json", pipeline, n)
		if b.files[name] == nil {
			b.files[name] = answer
			return
		}
	}
}

// maxMetrics bounds what is read of a listener.
const maxMetrics = 64 << 20

// addMetrics adds what a daemon on http.listen serves.
func (b *bundle) addMetrics(ctx context.Context, h config.HTTP) {
	client, url := daemonClient(h)
	get := func(path, file string, hasToken bool) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		if err != nil {
			return
		}
		if hasToken {
			id, err := config.Login{TokenFile: h.TokenFile}.Read()
			if err != nil {
				return
			}
			request.Header.Set("Authorization", "Bearer "+id.Token)
		}
		answer, err := client.Do(request)
		if err != nil {
			return
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxMetrics))
		if err == nil && (answer.StatusCode == http.StatusOK || path == "/readyz") {
			b.files[file] = body
		}
	}
	// The token is sent to this machine's own daemon alone, and never past a certificate that is not checked.
	hasToken := h.TokenFile != "" && h.Cert == ""
	get("/readyz", "readyz.json", hasToken)
	get("/metrics", "metrics.txt", hasToken)
}

// write writes the file, which only its owner may read. It appears when it is complete.
func (b *bundle) write(configuration string) (err error) {
	if text, err := os.ReadFile(configuration); err == nil {
		if text, err = config.Redacted(text); err != nil {
			text = []byte("# " + err.Error() + "\n")
		}
		b.files["embedd.yaml"] = text
	}
	var findings bytes.Buffer
	encoder := json.NewEncoder(&findings)
	for _, f := range b.findings {
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	b.files["findings.json"] = findings.Bytes()
	if b.files["version.json"], err = json.Marshal(struct {
		daemon.Build
		Cores int       `json:"cores"`
		Time  time.Time `json:"time"`
	}{buildInfo(), runtime.NumCPU(), time.Now().UTC()}); err != nil {
		return err
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, text := range b.files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return fmt.Errorf("--bundle: writing %s: %w", b.path, err)
		}
	}
	if err = z.Close(); err == nil {
		err = durable.WriteFile(b.path, archive.Bytes())
	}
	if err != nil {
		return fmt.Errorf("--bundle: writing %s: %w", b.path, err)
	}
	return nil
}
