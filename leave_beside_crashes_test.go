package lockmesh

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// One of three healthy voters leaves beside a process that crashes soon after each start, under
// another name each time. None of these processes takes the voter's place, and gossip always shows
// one that has just started.
func TestLeaveBesideProcessesOfEverNewNames(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*Config){"by list": found, "by count": expect(3)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLivingBubble(t, func(t *testing.T, w *living) {
				w.SlowGossip(3 * time.Second)
				for _, founder := range []string{"a", "b", "c"} {
					w.start(founder, func(c *Config) { edit(c); c.Peers = addrsOf("a", "b", "c") })
				}
				for _, founder := range []string{"a", "b", "c"} {
					w.ready(founder)
				}
				time.Sleep(3 * DefaultMaxTTL)
				left := make(chan error, 1)
				var began time.Time
				for i := 0; ; i++ {
					crash := fmt.Sprintf("j%d", i)
					w.start(crash, func(c *Config) { edit(c); c.Bootstrap, c.Peers = false, addrsOf("a", "b", "c") })
					time.Sleep(time.Second)
					w.crash(crash)
					time.Sleep(100 * time.Millisecond)
					if i == 10 {
						began = time.Now()
						c := w.nodes["c"]
						go func() { left <- c.Leave(testwait.Within(t, 30*time.Second)) }()
					}
					select {
					case err := <-left:
						if name == "by list" && err != nil {
							t.Error(err)
						}
						if name == "by count" {
							wantIs(t, err, ErrStillVoter)
						}
						if took := time.Since(began); took > 2*DefaultMaxTTL+6*time.Second {
							t.Errorf("it took %v", took)
						}
						return
					default:
					}
				}
			})
		})
	}
}
