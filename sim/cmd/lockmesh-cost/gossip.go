package main

import (
	"fmt"
	"io"

	"github.com/lockmesh/lockmesh/member"
)

func printGossip(out io.Writer, _ bool) error {
	if err := say(out, `### Gossip

The traffic that gossip adds, computed from the settings of gossip and not simulated. Each node
probes another node at its own pace, and answers the probes of other nodes. While there is news,
such as a member that has joined or left, a node sends some more packets for a few seconds. From
four nodes on, only one part of this traffic grows with the mesh: the list of members that two nodes
compare over a stream now and then.`); err != nil {
		return err
	}
	t := newTable("nodes", "packets/s sent by each node", "with news, at most", "bytes/s with news, at most", "interval of comparing lists")
	for _, n := range []int{3, 10, 50, 300} {
		u := member.UpkeepOf(member.Timing{}, n)
		most := u.Probes + u.News
		t.row(n, fmt.Sprintf("%.1f", u.Probes), fmt.Sprintf("%.1f", most), count(int(most*float64(u.Packet))), u.Sync)
	}
	return t.print(out)
}
