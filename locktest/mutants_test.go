package locktest

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// mutants are faults of the reference, each with promises broken by the fault; a fault may break
// other promises, too.
var mutants = []struct {
	fault  string
	breaks []string
}{
	{"a second comes in where many wait", []string{"exclusion"}},
	{"a client excludes only others", []string{"exclusion-in-client"}},
	{"Unlock returns before it has happened", []string{"try-free"}},
	{"TryLock waits", []string{"try-held"}},
	{"a TryLock that fails stays in line", []string{"try-held"}},
	{"TryLocks are in each other's way", []string{"try-one-wins"}},
	{"IsHeld says yes to all", []string{"held-is-told"}},
	{"IsHeld says no", []string{"held-is-told"}},
	{"a request that no server has answered holds the key", []string{"held-is-told"}},
	{"who is cut off takes keys for held", []string{"held-on-evidence"}},
	{"a lock's own context cuts its Unlock short", []string{"unlock-own-context"}},
	{"who looks sees a lock that was given back", []string{"seen-at-once"}},
	{"a watch takes an Unlock for a loss", []string{"watch-is-true"}},
	{"a watch forgets", []string{"watch-is-true"}},
	{"a second Unlock is silent", []string{"unlock-twice"}},
	{"Unlock frees whoever holds", []string{"unlock-stale", "unlock-retried", "soak"}},
	{"Unlock frees what its client holds", []string{"unlock-stale", "unlock-retried"}},
	{"an Unlock cut short is forgotten", []string{"unlock-cut-short", "soak"}},
	{"Done stays open", []string{"done", "lost-is-told"}},
	{"Done is closed at once", []string{"done", "exclusion", "soak", "outlives-ttl", "many-keys", "permits-all"}},
	{"Err stays nil", []string{"err"}},
	{"tokens repeat", []string{"tokens-rise", "soak"}},
	{"tokens fall now and then", []string{"soak"}},
	{"values get lost", []string{"value"}},
	{"values stay", []string{"value"}},
	{"values are read late", []string{"value", "value-changes"}},
	{"a value stays as it was written first", []string{"value-changes"}},
	{"nobody is woken where two wait", []string{"wake"}},
	{"who gives up hears something else", []string{"cancel-error"}},
	{"Lock doesn't heed its context", []string{"cancel-error"}},
	{"who gives up stays in line", []string{"cancel-leaves-nothing", "soak"}},
	{"who gives up takes those behind along", []string{"cancel-leaves-nothing"}},
	{"a grant that comes too late is kept", []string{"cancel-at-request", "cancel-at-grant", "soak"}},
	{"contexts that have ended aren't noticed", []string{"ended-context"}},
	{"a request goes out before the context is looked at", []string{"ended-context"}},
	{"one lock for all keys", []string{"independent-keys", "many-keys"}},
	{"keys are ASCII", []string{"odd-keys"}},
	{"some keys panic", []string{"odd-keys"}},
	{"keys are paths", []string{"alike-keys"}},
	{"keys are folded", []string{"alike-keys"}},
	{"a key is held with all below it", []string{"alike-keys"}},
	{"long keys are cut", []string{"long-keys"}},
	{"the empty key is a key", []string{"empty-key"}},
	{"nothing is renewed", []string{"outlives-ttl"}},
	{"the deadline stands still", []string{"deadline"}},
	{"the deadline is far ahead", []string{"deadline", "crash-not-early"}},
	{"the dead hold for ever", []string{"crash-frees", "crash-tokens", "reader-crash", "permits-crash"}},
	{"the dead are forgotten at once", []string{"crash-not-early"}},
	{"the dead stay in line", []string{"crash-of-waiter", "leave-of-waiter", "cut-waiter"}},
	{"tokens begin again after a crash", []string{"crash-tokens"}},
	{"Leave is a crash", []string{"leave-frees"}},
	{"who has left may lock", []string{"leave-frees"}},
	{"a loss is told late", []string{"lost-is-told"}},
	{"the Unlock of what was lost is silent", []string{"lost-is-lost"}},
	{"the last to come is served first", []string{"fifo"}},
	{"some clients are favourites", []string{"fifo", "fair-share"}},
	{"readers exclude each other", []string{"readers-share"}},
	{"an Unlock lets one reader in", []string{"readers-share"}},
	{"a writer comes in beside readers", []string{"writer-alone", "readers-and-writers"}},
	{"a writer that waits comes in beside two readers", []string{"readers-and-writers"}},
	{"readers overtake writers", []string{"writer-not-starved"}},
	{"a writer that gave up bars readers", []string{"writer-gives-up"}},
	{"readers have the token of those before", []string{"reader-tokens"}},
	{"dead readers stay", []string{"reader-crash"}},
	{"one permit too many", []string{"permits-bound", "permits-all"}},
	{"one permit too few", []string{"permits-all"}},
	{"permits may differ", []string{"permits-mismatch"}},
	{"the permits of the dead are gone", []string{"permits-crash"}},
	{"500 keys are enough", []string{"many-keys"}},
	{"beyond 500 keys one is forgotten", []string{"many-keys"}},
	{"one in fifty is granted to two", []string{"soak"}},
	{"errors come with a lock", []string{"try-held"}},
}

func TestEachMutantIsCaughtByThePromisesThatItBreaks(t *testing.T) {
	sampled.Computes(t)
	for _, m := range mutants {
		t.Run(m.fault, func(t *testing.T) {
			report := examineInBubble(t, m.fault, Options{Only: m.breaks, Timeout: 2 * time.Second})
			if report == nil {
				return
			}
			for _, name := range m.breaks {
				if r, ok := report.Result(name); !ok || r.Outcome != Broken || len(r.Findings) == 0 {
					t.Errorf("%s isn't found broken:\n%v", name, report)
				}
			}
		})
	}
}

func TestEachPromiseIsBrokenByAMutant(t *testing.T) {
	var broken []string
	for _, m := range mutants {
		broken = append(broken, m.breaks...)
	}
	for _, name := range names() {
		if !slices.Contains(broken, name) {
			t.Errorf("no mutant breaks %s: can it fail?", name)
		}
	}
}
