package vote

// Presence is the state of a peer according to gossip, which is a hint: gossip is late, and in a
// partition each side believes the other side dead.
type Presence uint8

// The states of a peer according to gossip.
const (
	// Unseen means that gossip doesn't list the peer, yet or any more.
	Unseen Presence = iota
	// Alive means that the peer answers probes, directly or through another member.
	Alive
	// Failed means that the peer stopped answering without a goodbye.
	Failed
	// Left means that the peer announced its departure.
	Left
)

var presenceNames = [...]string{Unseen: "unknown", Alive: "alive", Failed: "failed", Left: "left"}

func (p Presence) String() string {
	if int(p) < len(presenceNames) {
		return presenceNames[p]
	}
	return "unknown"
}
