package lockmesh

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/register"
)

// Short jobs, or a process that crashes soon after each start, bring ever new names, and gossip
// sees each for seconds after its death. A first start takes longer then, by 6 MaxTTL at most.
func TestAFirstStartBesideProcessesOfEverNewNames(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string]func(register.Register) func(*Config){
		"by count": func(register.Register) func(*Config) { return expect(3) },
		"by count, registered": func(r register.Register) func(*Config) {
			return expect(3, func(c *Config) { c.Register = r })
		},
	} {
		for other, runs := range map[string]func(*Config){"jobs": func(c *Config) { c.NonVoting = true }, "crashes": func(*Config) {}} {
			for _, life := range []time.Duration{200 * time.Millisecond, time.Second} {
				t.Run(fmt.Sprintf("%s, %s of %v", name, other, life), func(t *testing.T) {
					t.Parallel()
					inLivingBubble(t, func(t *testing.T, w *living) {
						w.SlowGossip(3 * time.Second)
						all, edit := addrsOf("a", "b", "c", "j"), edits(new(register.Memory))
						var waits <-chan outcome
						for i := 0; ; i++ {
							if i < 3 { // the founders don't start at once
								w.start(string(rune('a'+i)), func(c *Config) { edit(c); c.Peers = all })
							}
							if i == 3 {
								b := w.nodes["b"]
								waits = later(func() (*Lease, error) { return b.Lock(testwait.Within(t, 8*DefaultMaxTTL), "k") })
							}
							job := fmt.Sprintf("job%d", i)
							w.start(job, func(c *Config) {
								edit(c)
								c.Peers = all
								runs(c)
							})
							time.Sleep(life)
							w.crash(job)
							time.Sleep(life)
							select {
							case r := <-waits:
								if r.err != nil {
									t.Fatal(r.err)
								}
								w.unlock(r.lease)
								return
							default:
							}
						}
					})
				})
			}
		}
	}
}
