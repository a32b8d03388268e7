package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// collector sends spans to a collector over OTLP, as http/protobuf. That of OpenTelemetry links gRPC, which makes the
// binary a quarter larger.
type collector struct {
	http    http.Client
	url     string
	headers http.Header
}

// otlpVariable is a variable of the exporter: the one for traces, or the one for all signals.
func otlpVariable(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// newCollector reads the variables OTEL_EXPORTER_OTLP_*.
func newCollector() (*collector, error) {
	c := &collector{headers: http.Header{"Content-Type": {"application/x-protobuf"}}}
	c.url = os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if c.url == "" {
		base := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318")
		c.url = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if u, err := url.Parse(c.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, cli.Usagef("OTEL_EXPORTER_OTLP_ENDPOINT: %q is not the URL of a collector, such as "+
			"http://localhost:4318", c.url)
	}
	if text := otlpVariable("HEADERS"); text != "" {
		for _, pair := range strings.Split(text, ",") {
			key, value, found := strings.Cut(pair, "=")
			value, err := url.PathUnescape(strings.TrimSpace(value))
			if !found || err != nil {
				return nil, cli.Usagef("OTEL_EXPORTER_OTLP_HEADERS: an entry is not KEY=VALUE, with %%2C for a comma")
			}
			c.headers.Add(strings.TrimSpace(key), value)
		}
	}
	c.http.Timeout = 10 * time.Second
	if text := otlpVariable("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, cli.Usagef("OTEL_EXPORTER_OTLP_TIMEOUT is %q: want milliseconds", text)
		}
		c.http.Timeout = time.Duration(ms) * time.Millisecond
	}
	if path := otlpVariable("CERTIFICATE"); path != "" {
		pem, err := os.ReadFile(path)
		roots := x509.NewCertPool()
		if err != nil || !roots.AppendCertsFromPEM(pem) {
			return nil, cli.Usagef("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate authority in PEM", path)
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		c.http.Transport = transport
	}
	return c, nil
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It tries again once a second while the collector is busy, until the
// timeout.
func (c *collector) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans}) // has the bytes of an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.http.Timeout)
	defer cancel()
	for {
		isBusy, err := c.post(ctx, body)
		if err == nil || !isBusy {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
}

// post sends a request once. isBusy reports whether the collector asks to try again later.
func (c *collector) post(ctx context.Context, body []byte) (isBusy bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header = c.headers.Clone()
	answer, err := c.http.Do(request)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection is used again
	if answer.StatusCode/100 == 2 {
		return false, nil
	}
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		isBusy = true
	}
	return isBusy, fmt.Errorf("the collector at %s answers %s", request.URL.Redacted(), answer.Status)
}
