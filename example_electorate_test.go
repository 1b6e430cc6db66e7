package lockmesh_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/lockmesh/lockmesh"
)

// An operator's page shows the electorate, and reports troubles that need an operator.
func ExampleMesh_WatchElectorate() {
	dir, err := os.MkdirTemp("", "lockmesh")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	mesh, err := lockmesh.Join(context.Background(), lockmesh.Config{
		Name: "edge-1", Bind: "127.0.0.1:0", Voters: []string{"edge-1"}, MaxTTL: time.Second, Logger: slog.New(slog.DiscardHandler),
		StateDir:  dir,  // dynamic membership; a real node needs a lasting directory
		Bootstrap: true, // at the very first start only
	})
	if err != nil {
		log.Fatal(err)
	}
	defer mesh.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	states, err := mesh.WatchElectorate(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for e := range states {
		switch {
		case e.Lost != "":
			fmt.Println("call an operator:", e.Lost)
		case e.Trouble != "":
			fmt.Println("see to this node's disk:", e.Trouble)
		case e.Ready:
			fmt.Println(e)
			cancel() // a real page would go on
		}
	}
	// Output: electorate 1 of edge-1: 1 of 1 count, 1 needed, ready
}
