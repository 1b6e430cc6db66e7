package otellock_test

import (
	"context"
	"log"

	"go.opentelemetry.io/otel"

	"github.com/lockmesh/lockmesh"
	otellock "github.com/lockmesh/lockmesh/contrib/otel"
)

// The observers are in the configuration, so that no lock of the node is missed. The spans come
// first: the metrics' exemplars then name the span of the attempt.
func Example() {
	prefixes := otellock.WithPrefixes("orders/")
	metrics, err := otellock.NewMetrics(otel.GetMeterProvider(), prefixes)
	if err != nil {
		log.Fatal(err)
	}
	defer metrics.Close()
	spans, err := otellock.NewSpans(otel.GetTracerProvider(), prefixes)
	if err != nil {
		log.Fatal(err)
	}

	mesh, err := lockmesh.Join(context.Background(), lockmesh.Config{
		Mesh: "shop", Voters: []string{"a", "b", "c"}, Peers: []string{"dns:shop:7950"},
		Secret:   lockmesh.Secret("the secret of all nodes"),
		Observer: lockmesh.JoinObservers(spans.Observer(), metrics.Observer()),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer mesh.Leave(context.Background())
	if err := metrics.Watch(mesh); err != nil {
		log.Fatal(err)
	}
}
