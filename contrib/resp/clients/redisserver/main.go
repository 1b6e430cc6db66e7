// Command redisserver stands for redis-server in the test suite of redsync. The suite starts some
// dozens of servers by `redis-server -`; each reads a configuration from its standard input, with
// "port" and "unixsocket", and serves a mesh of a single voter.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/contrib/resp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config := make(map[string]string)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		config[name] = value
	}
	mesh, err := lockmesh.Join(ctx, lockmesh.Config{
		Name: "a", Voters: []string{"a"}, Bind: "127.0.0.1:0", MaxTTL: time.Second, Secret: []byte("a secret for a test"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = mesh.Close() }()
	if err := mesh.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	server := resp.New(mesh, resp.WithoutPassword(), resp.WithMaxTTL(time.Second), resp.AllowLongTTL())
	var wg sync.WaitGroup
	serve := func(network, addr string) {
		l, err := net.Listen(network, addr)
		if err != nil {
			log.Fatal(err)
		}
		wg.Go(func() { _ = server.Serve(ctx, l) })
	}
	serve("unix", config["unixsocket"])
	if port := config["port"]; port != "0" {
		serve("tcp", "127.0.0.1:"+port)
	}
	go func() { // a broken-off suite leaves its servers behind
		for parent := os.Getppid(); os.Getppid() == parent; {
			time.Sleep(time.Second)
		}
		os.Exit(1)
	}()
	fmt.Println("The server is now ready to accept connections")
	wg.Wait()
}
