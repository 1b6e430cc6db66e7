package member

import (
	"testing"
	"time"

	"github.com/hashicorp/serf/serf"
)

// Only a process that may come back with a vote is remembered for long.
func TestHowLongMembersAreRemembered(t *testing.T) {
	const usual = 100 * time.Hour
	voter, counted := map[string]string{tagDir: "7"}, map[string]string{tagDir: "7", tagBirth: "3/3"}
	for _, row := range []struct {
		name   string
		status serf.MemberStatus
		tags   map[string]string
		want   time.Duration
	}{
		{"a voter that has failed", serf.StatusFailed, voter, usual},
		{"a voter that has left", serf.StatusLeft, voter, usual},
		{"a member without a directory that has failed", serf.StatusFailed, nil, usual},
		{"a member without a directory that has left", serf.StatusLeft, nil, forgetSoon},
		{"a process born by count that has failed", serf.StatusFailed, counted, forgetSoon},
		{"a process born by count that has left", serf.StatusLeft, counted, forgetSoon},
	} {
		if got := (memory{}).ReconnectTimeout(&serf.Member{Status: row.status, Tags: row.tags}, usual); got != row.want {
			t.Errorf("%s is remembered for %v, want %v", row.name, got, row.want)
		}
	}
}
