package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/embedd/embedd/cmd/embedd/cli"
)

// tracesTimeout is how long the last spans may take to be exported at the end.
const tracesTimeout = 5 * time.Second

// wantsTraces reports whether the standard variables of OpenTelemetry ask for traces: an exporter, or the endpoint of
// one.
func wantsTraces() (bool, error) {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false, nil
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return false, nil
	case "":
		if otlpVariable("ENDPOINT") == "" {
			return false, nil
		}
	case "otlp":
	default:
		return false, cli.Usagef("OTEL_TRACES_EXPORTER is %q: want otlp or none", exporter)
	}
	if protocol := otlpVariable("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return false, cli.Usagef("OTEL_EXPORTER_OTLP_PROTOCOL is %q: traces are exported by http/protobuf, usually to port "+
			"4318 of the collector", protocol)
	}
	return true, nil
}

// openTraces exports traces if the environment asks for them, until the daemon is closed. The exporter reads its
// settings from the same variables.
func (d *daemon) openTraces(ctx context.Context) error {
	if wants, err := wantsTraces(); !wants {
		return err
	}
	c, err := newCollector()
	if err != nil {
		return err
	}
	exporter, err := otlptrace.New(ctx, c)
	if err != nil {
		return fmt.Errorf("the exporter of traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "embedd"),
		attribute.String("service.version", d.options.Build.Version)), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return fmt.Errorf("describing this process for traces: %w: check OTEL_RESOURCE_ATTRIBUTES", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		d.tracesLog.Warn(d.log, "traces cannot be exported; messages are answered without them", "error", err)
	}))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	d.traces = provider
	d.cleanup = append(d.cleanup, func() {
		ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			d.log.Warn("the last traces were not exported", "error", err)
		}
	})
	d.log.Info("traces are exported")
	return nil
}
