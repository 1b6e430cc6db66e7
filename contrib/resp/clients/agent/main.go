// Command agent is a node that serves Redis lock clients, for the tests of this module: `lockmesh
// agent --resp` with few flags. The command prints "node ADDRESS" and, once locks can be granted,
// "resp ADDRESS", and ends with SIGTERM or with its standard input.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/contrib/resp"
)

func main() {
	name := flag.String("name", "a", "the node's `name`")
	bind := flag.String("bind", "127.0.0.1:0", "the node's `address`")
	peers := flag.String("peers", "", "`addresses` of other nodes")
	voters := flag.String("voters", "a", "the voters' `names`")
	listen := flag.String("listen", "127.0.0.1:0", "the `address` for clients")
	maxTTL := flag.Duration("max-ttl", lockmesh.DefaultMaxTTL, "the mesh's MaxTTL")
	long := flag.Bool("long", false, "allow long times")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, end := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	cfg := lockmesh.Config{
		Mesh: "clients", Name: *name, Bind: *bind, Voters: strings.Split(*voters, ","), MaxTTL: *maxTTL, Secret: []byte("a secret for a test"),
	}
	if *peers != "" {
		cfg.Peers = strings.Split(*peers, ",")
	}
	mesh, err := lockmesh.Join(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = mesh.Close() }()
	fmt.Println("node", mesh.Addr())
	if err := mesh.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	opts := []resp.Option{resp.WithoutPassword(), resp.WithMaxTTL(*maxTTL)}
	if *long {
		opts = append(opts, resp.AllowLongTTL())
	}
	server := resp.New(mesh, opts...)
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("resp", listener.Addr())
	if err := server.Serve(ctx, listener); err != nil {
		log.Print(err)
	}
}
