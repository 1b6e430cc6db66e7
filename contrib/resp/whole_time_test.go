package resp

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/meshtest"
)

// TestAKeyLastsForItsWholeTime: a client counts on its key for the time of its SET or PEXPIRE,
// from the moment of the request on.
func TestAKeyLastsForItsWholeTime(t *testing.T) {
	for ms := 9700; ms <= 10000; ms += 5 {
		meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
			c := newSite(t, m, "a").client()
			from := time.Now()
			c.want("+OK", "SET", "job", "v", "NX", "PX", ms)
			_, err := m.Node("b").Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			if early := time.Duration(ms)*time.Millisecond - time.Since(from); early > 0 {
				t.Errorf("PX %d: b has the key %v before the end of the client's time", ms, early)
			}
		})
	}
}

// TestAKeyLastsThroughACut: the same where the node is cut off while it would extend the lease.
func TestAKeyLastsThroughACut(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		from := time.Now()
		c.want("+OK", "SET", "job", "v", "NX", "PX", 10000)
		go func() {
			time.Sleep(3 * time.Second)
			m.Partition([]string{"a"}, []string{"b", "c"})
			time.Sleep(6760 * time.Millisecond)
			m.Heal()
		}()
		_, err := m.Node("b").Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if early := 10*time.Second - time.Since(from); early > 0 {
			t.Errorf("b has the key %v before the end of the client's time", early)
		}
	})
}

// TestPTTLIsKeptAfterACrash: the voters keep a key after a crash of the node for the time that
// PTTL has told.
func TestPTTLIsKeptAfterACrash(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		time.Sleep(5 * time.Second)
		c.want("+OK", "SET", "job", "v", "NX", "PX", 10000)
		left, err := strconv.Atoi(strings.TrimPrefix(c.do("PTTL", "job"), ":"))
		if err != nil || left < 9900 {
			t.Errorf("PTTL %d, %v", left, err)
		}
		end := time.Now().Add(time.Duration(left) * time.Millisecond)
		m.Crash("a")
		if _, err = m.Node("b").Lock(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		if early := time.Until(end); early > 0 {
			t.Errorf("b has the key %v before the end that PTTL told", early)
		}
	}, meshtest.WithLatency(20*time.Millisecond))
}
