package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/bench/internal/child"
	"github.com/lockmesh/lockmesh/bench/internal/peer"
)

// Names of services, as accepted by -services.
const (
	nameLimit          = "limit"
	nameEmbedded       = "lockmesh"
	nameClient         = "lockmesh-client"
	nameEmbeddedTLS    = "lockmesh-tls"
	nameClientTLS      = "lockmesh-tls-client"
	nameRedis          = "redis"
	nameRedisBatched   = "redis-batched"
	nameRedisRueidis   = "redis-rueidis"
	nameRedsync        = "redsync"
	nameRedsyncBatch   = "redsync-batched"
	nameRedsyncRueidis = "redsync-rueidis"
	nameEtcd           = "etcd"
)

var serviceNames = []string{
	nameLimit, nameEmbedded, nameClient, nameEmbeddedTLS, nameClientTLS, nameRedis, nameRedisBatched, nameRedisRueidis, nameRedsync, nameRedsyncBatch, nameRedsyncRueidis, nameEtcd,
}

// redisServer is the program installed by the system's package.
const redisServer = "redis-server"

// wantsRedis reports whether any requested service needs Redis.
func (o *options) wantsRedis() bool {
	return slices.ContainsFunc(o.services, func(name string) bool { return strings.HasPrefix(name, "red") })
}

// startServices starts the requested services, in the order of serviceNames.
func startServices(ctx context.Context, f *fleet, o *options) (all []*service, err error) {
	add := func(s []*service, err error) error {
		all = append(all, s...)
		return err
	}
	if o.wants(nameLimit) {
		if err := add(startLimit(ctx, f)); err != nil {
			return nil, err
		}
	}
	if o.wants(nameEmbedded) || o.wants(nameClient) {
		if err := add(startLockmesh(ctx, f, o, "", nameEmbedded, nameClient)); err != nil {
			return nil, err
		}
	}
	if o.wants(nameEmbeddedTLS) || o.wants(nameClientTLS) {
		if err := add(startLockmesh(ctx, f, o, secret, nameEmbeddedTLS, nameClientTLS)); err != nil {
			return nil, err
		}
	}
	if o.wantsRedis() {
		if err := add(startRedis(ctx, f, o)); err != nil {
			return nil, err
		}
	}
	if o.wants(nameEtcd) {
		if err := add(startEtcd(ctx, f)); err != nil {
			return nil, err
		}
	}
	for _, s := range all {
		for _, p := range s.nodes {
			if err := p.Call(ctx, "ready", none{}, nil); err != nil {
				return nil, err
			}
		}
	}
	return slices.DeleteFunc(all, func(s *service) bool { return !o.wants(s.name) }), nil
}

func startLimit(ctx context.Context, f *fleet) ([]*service, error) {
	s := &service{name: nameLimit, kind: limit}
	var addrs []string
	for i := range 2 {
		p, err := f.start(fmt.Sprintf("echo%d", i))
		if err != nil {
			return nil, err
		}
		var at opened
		if err := p.Call(ctx, "echo", none{}, &at); err != nil {
			return nil, err
		}
		addrs = append(addrs, at.Addr)
		s.servers = append(s.servers, p.Pid())
	}
	p, _, err := f.open(ctx, "echo-client", peer.Spec{Service: peer.Echo, Addrs: addrs})
	s.nodes = []*child.Process{p}
	return []*service{s}, err
}

// secret is the secret of the meshes with TLS. It protects nothing.
const secret = "sixteen bytes or more of no secret"

var voters = []string{"a", "b", "c"}

// startLockmesh starts a mesh of three voters and a further node. The mesh counts as two services:
// the client of the first is a voter, and the client of the second isn't.
func startLockmesh(ctx context.Context, f *fleet, o *options, secret, embedded, client string) ([]*service, error) {
	nodes, spec, err := startMesh(ctx, f, o, secret, embedded, 1)
	if err != nil {
		return nil, err
	}
	both := make([]int, 0, len(nodes))
	for _, p := range nodes[:len(voters)] {
		both = append(both, p.Pid())
	}
	more := func(ctx context.Context, i int) (*child.Process, error) {
		spec.Name = string(rune('a' + len(voters) + i))
		p, _, err := f.open(ctx, embedded+"-"+spec.Name, spec)
		if err != nil {
			return nil, err
		}
		return p, p.Call(ctx, "ready", none{}, nil)
	}
	return []*service{
		{name: embedded, kind: ours, nodes: nodes},
		{name: client, kind: ours, nodes: nodes[len(voters):], servers: both, duplicate: true, startNode: more},
	}, nil
}

// startMesh starts three voters and some nodes that are no voters; the nodes find each other by the
// address of the first. startMesh doesn't wait until the nodes are ready. The returned spec serves
// to start more nodes under other names.
func startMesh(ctx context.Context, f *fleet, o *options, secret, name string, others int) (nodes []*child.Process, spec peer.Spec, err error) {
	spec = peer.Spec{Service: peer.Lockmesh, Voters: voters, Secret: secret, MaxTTL: o.ttl}
	first := ""
	for i := range len(voters) + others {
		spec.Name = string(rune('a' + i))
		if first != "" {
			spec.Peers = []string{first}
		}
		p, addr, err := f.open(ctx, name+"-"+spec.Name, spec)
		if err != nil {
			return nil, spec, err
		}
		if first == "" {
			first = addr
		}
		nodes = append(nodes, p)
	}
	return nodes, spec, nil
}

// startRedis starts four servers: one for locks on a single server, and three for locks on a
// majority. If there is no Redis here, startRedis says so.
func startRedis(ctx context.Context, f *fleet, o *options) ([]*service, error) {
	path, lookErr := exec.LookPath(redisServer)
	if lookErr != nil {
		fmt.Fprintln(os.Stderr, "!!!! SKIPPED: nothing is compared with Redis, since redis-server isn't on PATH. Install it: apt-get install redis-server (or brew install redis)")
		return nil, nil //nolint:nilerr // it was told, and there is much else to measure
	}
	addrs, err := freeAddrs(4)
	if err != nil {
		return nil, err
	}
	pids := make([]int, len(addrs))
	for i, addr := range addrs {
		p, err := f.start(fmt.Sprintf("redis%d", i))
		if err != nil {
			return nil, err
		}
		host, port, _ := net.SplitHostPort(addr)
		args := []string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--logfile", "/dev/null"}
		if err := p.Call(ctx, "program", child.GuardArgs{Path: path, Args: args, Dir: os.TempDir()}, &pids[i]); err != nil {
			return nil, err
		}
	}
	var all []*service
	for _, r := range []struct {
		name, service string
		kind          kind
		from, to      int
	}{
		{nameRedis, peer.Redislock, single, 0, 1},
		{nameRedisBatched, peer.RedislockBatched, single, 0, 1},
		{nameRedisRueidis, peer.RedsyncRueidis, single, 0, 1},
		{nameRedsync, peer.Redsync, majority, 1, 4},
		{nameRedsyncBatch, peer.RedsyncBatched, majority, 1, 4},
		{nameRedsyncRueidis, peer.RedsyncRueidis, majority, 1, 4},
	} {
		if o.wants(r.name) {
			s := &service{name: r.name, kind: r.kind, servers: pids[r.from:r.to]}
			s.startNode = opener(f, s.name, peer.Spec{Service: r.service, Addrs: addrs[r.from:r.to]})
			if _, err := s.node(ctx, 0); err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// opener returns a function that starts identical nodes.
func opener(f *fleet, name string, spec peer.Spec) func(context.Context, int) (*child.Process, error) {
	return func(ctx context.Context, i int) (*child.Process, error) {
		p, _, err := f.open(ctx, fmt.Sprintf("%s-%d", name, i), spec)
		return p, err
	}
}

// startEtcd starts three members, each in its own process.
func startEtcd(ctx context.Context, f *fleet) ([]*service, error) {
	const members = 3
	addrs, err := freeAddrs(2 * members)
	if err != nil {
		return nil, err
	}
	cluster := map[string]string{}
	for i := range members {
		cluster[fmt.Sprintf("m%d", i)] = addrs[members+i]
	}
	s := &service{name: nameEtcd, kind: majority}
	for i := range members {
		name := fmt.Sprintf("m%d", i)
		p, err := f.start("etcd-" + name)
		if err != nil {
			return nil, err
		}
		if err := p.Call(ctx, "etcd", peer.EtcdServer{Name: name, Client: addrs[i], Peer: cluster[name], Cluster: cluster}, nil); err != nil {
			return nil, err
		}
		s.servers = append(s.servers, p.Pid())
	}
	s.startNode = opener(f, s.name, peer.Spec{Service: peer.Etcd, Addrs: addrs[:members]})
	_, err = s.node(ctx, 0)
	return []*service{s}, err
}
