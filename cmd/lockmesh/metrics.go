package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	promlock "github.com/lockmesh/lockmesh/contrib/prometheus"
)

// The limits of a listener for metrics.
const (
	// maxScrapers is how many connections a listener has open. Further clients wait.
	maxScrapers = 64

	// maxScrapes is how many scrapes are under way at once. Further requests are answered 503.
	maxScrapes = 4

	// scrapeTime bounds the arrival of a request, and the answer.
	scrapeTime = 10 * time.Second

	// scraperIdleTime is longer than Prometheus waits between two scrapes by default: a minute.
	scraperIdleTime = 2 * time.Minute

	// maxScrapeHeader is the length of the longest header of a request in bytes.
	maxScrapeHeader = 8 << 10
)

// scrapes answers Prometheus.
type scrapes struct {
	handler http.Handler
	conns   int // open at once, at each listener
	log     *slog.Logger
}

// newScrapes returns a server of a node's and the process's metrics, without any key.
func newScrapes(metrics *promlock.Metrics, conns int, log *slog.Logger) *scrapes {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: scrapeTime}))
	return &scrapes{handler: mux, conns: min(conns, maxScrapers), log: log}
}

// serve answers until ctx ends, and then returns nil; or until the listener fails. serve closes the
// listener and all connections.
func (s *scrapes) serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:        s.handler,
		ReadTimeout:    scrapeTime,
		WriteTimeout:   scrapeTime + time.Second, // the answer about the timeout arrives, too
		IdleTimeout:    scraperIdleTime,
		MaxHeaderBytes: maxScrapeHeader,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	bounded := netutil.LimitListener(l, s.conns)
	go func() { failed <- server.Serve(bounded) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		_ = bounded.Close()
		<-failed //nolint:errcheck // the server ends by the line above
	}
	last, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	if server.Shutdown(last) != nil {
		_ = server.Close() // the connections are to be cut
	}
	return err
}
