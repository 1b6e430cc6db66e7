package promlock_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockmesh/lockmesh"
	promlock "github.com/lockmesh/lockmesh/contrib/prometheus"
)

// runNode is a program of its own, for tests with real processes: a node that serves its metrics
// and acquires a lock again and again, until its standard input ends. The program prints the
// metrics' address.
func runNode(name string) {
	metrics := promlock.New()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	mesh, err := lockmesh.Join(context.Background(), lockmesh.Config{
		Mesh: "promlock", Name: name, Bind: os.Getenv("PROMLOCK_BIND"), MaxTTL: 2 * time.Second,
		Peers: strings.Split(os.Getenv("PROMLOCK_PEERS"), ","), Expect: 3,
		Observer: metrics.Observer(),
	})
	if err != nil {
		log.Fatal(err)
	}
	metrics.Watch(mesh)
	ctx, cancel := context.WithCancel(context.Background())
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		for ctx.Err() == nil {
			// the metrics have the outcome
			_ = mesh.Do(ctx, "k", func(context.Context, *lockmesh.Lease) error { return nil })
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	server := &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends, or this process is no longer wanted
		_ = server.Close()
	}()
	_ = server.Serve(listener)
	cancel()
	<-worked
	_ = mesh.Close()
}
