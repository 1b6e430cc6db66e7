package statedir

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

const (
	peersFile = "peers"
	peersTemp = "peers.tmp"

	// maxPeers and maxPeer bound the list: more addresses than a node needs to find the others,
	// each no longer than a host name and a port.
	maxPeers = 256
	maxPeer  = 300
)

// Peers returns the addresses of other nodes last noted by SavePeers; none if there are none. The
// addresses are hints: nothing is concluded from them, and unreadable contents are ignored.
func (d *Dir) Peers() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return nil
	}
	data, err := d.files.read(d.in(peersFile), maxPeers*(maxPeer+1))
	if err != nil {
		return nil
	}
	peers := strings.Fields(string(data))
	peers = slices.DeleteFunc(peers, func(p string) bool { return len(p) > maxPeer })
	return peers[:min(len(peers), maxPeers)]
}

// SavePeers notes the addresses of other nodes, one a line, in a file beside the state, so that
// this node finds the others again even if none of the configured addresses is left. The file isn't
// synced: the list is a hint, and an old list does as well.
func (d *Dir) SavePeers(addrs []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return d.closed()
	}
	fail := func(err error) error {
		return &Error{Path: d.in(peersFile), Reason: ErrIO, Text: "the addresses of other nodes can't be written", Err: err, Advice: adviceWrite}
	}
	temp := d.in(peersTemp)
	if err := d.files.remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	f, err := d.files.create(temp)
	if err != nil {
		return fail(err)
	}
	_, err = f.Write([]byte(strings.Join(addrs[:min(len(addrs), maxPeers)], "\n") + "\n"))
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.files.rename(temp, d.in(peersFile))
	}
	if err != nil {
		_ = d.files.remove(temp)
		return fail(err)
	}
	return nil
}
