package discovery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// addressBook records where the voters are, according to gossip and to probes. All entries are
// hints; the handshake of a dialed connection decides. With dynamic membership any node may become
// a voter, so the address book then contains all members.
type addressBook struct {
	voters map[vote.NodeID]bool // nil with dynamic membership: any node

	mu     sync.Mutex
	gossip map[vote.NodeID]string
	probed map[vote.NodeID]string
	// addresses of processes with a voter's name that gave way to an older process: the voter is
	// elsewhere
	duplicates map[vote.NodeID]string
	unanswered []string // probed addresses that accept connections but don't answer
	failing    []string // configured peers without an address, and why
	// why the last probes have found no node, refusals first; each text has an address
	fruitless []string
	// set while every peer that answers refuses this node; then no peer reports where the voters
	// are
	refusal *refusal
	misses  int // rounds in a row in which the refusing address hasn't answered
}

// answer is how an address that doesn't refuse this node has answered a probe.
type answer uint8

const (
	noAnswer answer = iota + 1
	accepts
)

// refusalMisses is after how many rounds without an answer a refusing node counts as gone. The
// rounds take a minute or two, longer than a restart.
const refusalMisses = 20

// refusal says why other nodes refuse this node.
type refusal struct {
	reason vote.Reason
	text   string
	addr   string // the address of a node that refuses
}

// newAddressBook returns an address book of the given voters; of all members if there are none.
func newAddressBook(voters []vote.NodeID) *addressBook {
	b := &addressBook{gossip: make(map[vote.NodeID]string), probed: make(map[vote.NodeID]string), duplicates: make(map[vote.NodeID]string)}
	for _, v := range voters {
		if b.voters == nil {
			b.voters = make(map[vote.NodeID]bool)
		}
		b.voters[v] = true
	}
	return b
}

// tracks reports whether the address book records a node's address.
func (b *addressBook) tracks(name vote.NodeID) bool { return b.voters == nil || b.voters[name] }

// setMembers records all members known to gossip and forgets the others, so that memory stays
// bounded while nodes with ever new names come and go.
func (b *addressBook) setMembers(members []member.Member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.gossip)
	for _, m := range members {
		if b.tracks(m.Name) && m.Addr != "" {
			b.gossip[m.Name] = m.Addr
		}
	}
	maps.DeleteFunc(b.duplicates, func(name vote.NodeID, addr string) bool { return b.gossip[name] != addr && b.probed[name] != addr })
}

// addMember records the address of a member, as reported by gossip.
func (b *addressBook) addMember(m member.Member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tracks(m.Name) && m.Addr != "" {
		b.gossip[m.Name] = m.Addr
	}
}

// addProbed records the node found at an address, and reports whether this is news about a voter.
func (b *addressBook) addProbed(name vote.NodeID, addr string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name == "" || !b.tracks(name) || b.probed[name] == addr || b.duplicates[name] == addr {
		return false
	}
	if len(b.probed) >= maxProbed {
		clear(b.probed) // the names at the addresses keep changing
	}
	b.probed[name] = addr
	return true
}

// setDuplicate records that the process at an address has the voter's name and isn't the voter;
// barred false withdraws this. The result reports whether the entry has changed.
func (b *addressBook) setDuplicate(voter vote.NodeID, addr string, barred bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if barred == (b.duplicates[voter] == addr) {
		return false
	}
	if !barred {
		delete(b.duplicates, voter)
		return true
	}
	b.duplicates[voter] = addr
	if b.probed[voter] == addr {
		delete(b.probed, voter)
	}
	return true
}

// setRefusal records a refusal by every peer that answered; nil withdraws the refusal. The result
// reports whether the record has changed.
func (b *addressBook) setRefusal(reason *refusal) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := (b.refusal == nil) != (reason == nil) || reason != nil && *b.refusal != *reason
	b.refusal, b.misses = reason, 0
	return changed
}

// noteRound records how a round of probes of the found addresses has ended: whether enough peers
// accept this node, a refusal, if any, and the other answers, by address. Failing are the
// configured peers without an address. A refusal is withdrawn if enough peers accept this node, if
// the refusing address accepts this node or doesn't answer for refusalMisses rounds, and if no
// configured peer leads to that address any more; while a look-up fails, or finds nothing, this
// isn't known. The result reports whether the record has changed.
func (b *addressBook) noteRound(accepted bool, refused *refusal, answers map[string]answer, found, failing []string) bool {
	switch {
	case accepted:
		return b.setRefusal(nil)
	case refused != nil:
		return b.setRefusal(refused)
	}
	b.mu.Lock()
	over := false
	if b.refusal != nil {
		a := answers[b.refusal.addr]
		if a == noAnswer {
			b.misses++
		}
		over = a == accepts || b.misses >= refusalMisses ||
			len(failing) == 0 && len(found) > 0 && !slices.Contains(found, b.refusal.addr)
	}
	b.mu.Unlock()
	return over && b.setRefusal(nil)
}

// isRefused reports whether every peer that answered refuses this node.
func (b *addressBook) isRefused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal != nil
}

// setUnanswered records the probed addresses that accept connections but don't answer, and reports
// whether they have changed.
func (b *addressBook) setUnanswered(addrs []string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := !slices.Equal(b.unanswered, addrs)
	b.unanswered = addrs
	return changed
}

// setFailing records the configured peers without an address, and why.
func (b *addressBook) setFailing(texts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing = texts
}

// setFruitless records why the last probes have found no node.
func (b *addressBook) setFruitless(texts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fruitless = texts
}

// fruitlessProbes describes why the last probes have found no node; empty if there is no reason.
func (b *addressBook) fruitlessProbes() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return someOf(b.fruitless)
}

// errUnknown is the error for a voter without a known address.
var errUnknown = errors.New("address unknown: gossip has not seen the node, and no probed peer " +
	"has this name")

// missingAfter is how long a voter's address must be missing before errors suggest a wrong name in
// Voters.
const missingAfter = 30 * time.Second

// errMissing replaces errUnknown when the address has been unknown for missingAfter.
var errMissing = fmt.Errorf("no node of this name has been seen for %v: is it started, and does "+
	"its configuration have the same Name?", missingAfter)

// maxUnansweredShown bounds the number of addresses and peers in an error, since every call without
// a majority includes the text in its error.
const maxUnansweredShown = 3

// unknownError returns the error for a voter without a known address, sought for the given time;
// the voter may be at an address that doesn't answer.
func (b *addressBook) unknownError(sought time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.unanswered) == 0 && len(b.failing) > 0 && sought >= missingAfter:
		return fmt.Errorf("%w (%s)", errMissing, someOf(b.failing))
	case len(b.unanswered) == 0 && len(b.failing) > 0:
		return fmt.Errorf("address unknown: gossip has not seen the node, and no probed peer has "+
			"this name; %s", someOf(b.failing))
	case len(b.unanswered) == 0 && sought >= missingAfter:
		return errMissing
	case len(b.unanswered) == 0:
		return errUnknown
	}
	return fmt.Errorf("address unknown; %s: %w", someOf(b.unanswered), transport.ErrNoAnswer)
}

// someOf returns the first of the texts, and how many more there are.
func someOf(texts []string) string {
	some := strings.Join(texts[:min(len(texts), maxUnansweredShown)], ", ")
	if more := len(texts) - maxUnansweredShown; more > 0 {
		some += fmt.Sprintf(" and %d more", more)
	}
	return some
}

// find returns the possible addresses of a voter, the likeliest first. Without any address, shunned
// says why no peer tells, if known. Gossip may go on reporting a process after it gave way; its
// address comes last.
func (b *addressBook) find(voter vote.NodeID) (addrs []string, refusal *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.gossip[voter]; ok {
		addrs = append(addrs, a)
	}
	if a, ok := b.probed[voter]; ok && a != b.gossip[voter] {
		addrs = append(addrs, a)
	}
	if len(addrs) == 2 && addrs[0] == b.duplicates[voter] {
		slices.Reverse(addrs)
	}
	if len(addrs) == 0 {
		refusal = b.refusal
	}
	return addrs, refusal
}

// inGossip reports whether gossip knows a voter's address, other than the address of a duplicate
// process that gave way.
func (b *addressBook) inGossip(voter vote.NodeID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	addr, ok := b.gossip[voter]
	return ok && b.duplicates[voter] != addr
}
