package promlock_test

import (
	"context"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockmesh/lockmesh"
	promlock "github.com/lockmesh/lockmesh/contrib/prometheus"
)

// The metrics are registered before the node joins, so that none of its locks is missed.
func Example() {
	metrics := promlock.New(promlock.WithPrefixes("orders/"))
	prometheus.MustRegister(metrics)
	http.Handle("/metrics", promhttp.Handler())

	mesh, err := lockmesh.Join(context.Background(), lockmesh.Config{
		Mesh: "shop", Voters: []string{"a", "b", "c"}, Peers: []string{"dns:shop:7950"},
		Secret:   lockmesh.Secret("the secret of all nodes"),
		Observer: metrics.Observer(),
	})
	if err != nil {
		log.Fatal(err)
	}
	metrics.Watch(mesh)
}
