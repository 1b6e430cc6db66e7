package main

import (
	"fmt"
	"io"

	"github.com/lockmesh/lockmesh/member"
)

func printGossip(out io.Writer, _ bool) error {
	if err := say(out, `### Gossip

What gossip adds, by its settings: it isn't simulated. Each node probes another one at its own pace, and answers who probes it; while there is
news, such as a member that has come or gone, it sends some packets more for a few seconds. None of it grows with the mesh, but for the list of members that
two nodes compare, over a stream, now and then.`); err != nil {
		return err
	}
	t := newTable("nodes", "packets/s, sent by each", "while there is news, at most", "bytes/s then, at most", "compares lists every")
	for _, n := range []int{3, 10, 50, 300} {
		u := member.UpkeepOf(member.Timing{}, n)
		most := u.Probes + u.News
		t.row(n, fmt.Sprintf("%.1f", u.Probes), fmt.Sprintf("%.1f", most), count(int(most*float64(u.Packet))), u.Sync)
	}
	return t.print(out)
}
