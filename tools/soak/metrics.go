package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// metricsOf returns the lines of /metrics of a daemon; none if it does not answer.
func metricsOf(ctx context.Context, url string) map[string]float64 {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out := map[string]float64{}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return out
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return out
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	for line := range strings.Lines(string(body)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		var value float64
		if _, err := fmt.Sscan(text, &value); err == nil {
			out[name] = value
		}
	}
	return out
}

// metricOf returns the sum of a metric of a daemon over all lines that have a label.
func metricOf(ctx context.Context, url, name, label string) (sum float64) {
	for line, value := range metricsOf(ctx, url) {
		if found, labels, _ := strings.Cut(line, "{"); found == name && strings.Contains(labels, label) {
			sum += value
		}
	}
	return sum
}
