package peer

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// EtcdServer describes the member of etcd to run in a process.
type EtcdServer struct {
	Name    string
	Client  string            // host:port
	Peer    string            // host:port
	Cluster map[string]string // peers' host:port by name
}

// Start starts the member, without waiting for the others. The returned function ends the member,
// and removes its data.
//
// The data is in memory, on systems with such a folder, and the member doesn't wait for a sync: as
// fast as possible, and as durable as lockmesh's.
func (s EtcdServer) Start() (end func(), err error) {
	dir, err := os.MkdirTemp(MemoryDir(), "lockbench-etcd-")
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.UnsafeNoFsync = s.Name, dir, true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls(s.Client), urls(s.Client)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls(s.Peer), urls(s.Peer)
	var members []string
	for name, addr := range s.Cluster {
		members = append(members, name+"=http://"+addr)
	}
	cfg.InitialCluster = strings.Join(members, ",")
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return func() {
		gone := make(chan struct{})
		go func() {
			etcd.Close()
			close(gone)
		}()
		select {
		case <-gone:
		case <-time.After(5 * time.Second): // a member without its peers takes its time
		}
		_ = os.RemoveAll(dir)
	}, nil
}

func urls(addr string) []url.URL { return []url.URL{{Scheme: "http", Host: addr}} }

// MemoryDir returns a folder in memory, or the empty name, meaning the folder of temporary files,
// if there is none.
func MemoryDir() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}
