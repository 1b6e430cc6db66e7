package certmagiclock_test

import (
	"log"
	"log/slog"
	"net/http"

	"github.com/caddyserver/certmagic"

	"github.com/lockmesh/lockmesh"
	certmagiclock "github.com/lockmesh/lockmesh/contrib/certmagic"
)

func Example() {
	var mesh *lockmesh.Mesh // as Join returned it
	shared := &certmagic.FileStorage{Path: "/srv/certificates"}
	certmagic.Default.Storage = certmagiclock.Wrap(shared, mesh, certmagiclock.WithLost(func(name string, err error) {
		slog.Warn("a lock of certmagic was lost", "name", name, "error", err)
	}))
	log.Fatal(certmagic.HTTPS([]string{"example.com"}, http.DefaultServeMux))
}
