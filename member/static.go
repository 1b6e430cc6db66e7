package member

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Static is a group with members set by its owner, for tests and for programs that know the members
// by other means. A Static starts no goroutine.
type Static struct {
	mu      sync.Mutex
	members []Member
}

var _ Group = (*Static)(nil)

// NewStatic returns a group of exactly these members.
func NewStatic(members ...Member) *Static {
	s := &Static{}
	s.Set(members...)
	return s
}

// Set replaces the members.
func (s *Static) Set(members ...Member) {
	members = slices.Clone(members)
	sortMembers(members)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = members
}

// Keys returns nothing: there is no traffic.
func (s *Static) Keys() []KeyUse { return nil }

// SetKeys does nothing: there is no traffic.
func (s *Static) SetKeys([][]byte) error { return nil }

// SetDir does nothing: the owner sets the members.
func (s *Static) SetDir(vote.Dir) {}

// Ping answers for live members.
func (s *Static) Ping(_ context.Context, name vote.NodeID) (time.Duration, error) {
	for _, m := range s.Members() {
		if m.Name == name && m.State == Alive {
			return 0, nil
		}
	}
	return 0, ErrUnknown
}

// Members returns the members by name.
func (s *Static) Members() []Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.members)
}

// Leave does nothing.
func (*Static) Leave(context.Context) error { return nil }

// Close does nothing.
func (*Static) Close() error { return nil }

// sortMembers sorts members by name, so that no result depends on a map's order.
func sortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(string(a.Name), string(b.Name)) })
}
