package resp_test

import (
	"context"
	"net"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/contrib/resp"
)

// A service lets programs in other languages take its locks as if from Redis.
func Example() {
	serve := func(ctx context.Context, mesh *lockmesh.Mesh, password string) error {
		if err := resp.CheckPassword(password); err != nil {
			return err
		}
		server := resp.New(mesh, resp.WithPassword(password))
		listener, err := net.Listen("tcp", "127.0.0.1:6379")
		if err != nil {
			return err
		}
		return server.Serve(ctx, listener) // until ctx ends
	}
	_ = serve
}
