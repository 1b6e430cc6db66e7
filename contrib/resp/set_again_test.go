package resp

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/meshtest"
)

// TestAValueThatAScriptHasSetHasNoToken: the client of the first value may still use its token.
func TestAValueThatAScriptHasSetHasNoToken(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("+OK", "SET", "k", "A", "NX", "PX", 1000)
		first := c.do("LOCKMESH.TOKEN", "k", "A")
		const hands = `if redis.call("get",KEYS[1]) then return redis.call("set",KEYS[1],ARGV[1],"PX",1000) end`
		c.want("+OK", "EVAL", hands, 1, "k", "A")
		c.want(first, "LOCKMESH.TOKEN", "k", "A")
		c.want("+OK", "EVAL", hands, 1, "k", "B")
		for _, ask := range [][]any{{"LOCKMESH.TOKEN", "k", "B"}, {"LOCKMESH.TOKEN", "k"}} {
			c.want("-REFUSED a script has given…", ask...)
		}
		c.want("nil", "LOCKMESH.TOKEN", "k", "A")
		c.want(":1", "DEL", "k")
		c.want("+OK", "SET", "k", "B", "NX", "PX", 1000)
		if second := c.do("LOCKMESH.TOKEN", "k", "B"); second <= first {
			t.Errorf("token %s follows %s", second, first)
		}
	})
}

// TestTheLastOfSeveralTimesCounts: as in Redis 7.
func TestTheLastOfSeveralTimesCounts(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		c := newSite(t, m, "a").client()
		c.want("+OK", "SET", "k", "v", "NX", "PX", 5000, "PX", 100)
		time.Sleep(200 * time.Millisecond)
		c.want("+OK", "SET", "k", "v", "NX", "EX", 1, "EX", 2)
		c.want("-ERR syntax…", "SET", "k", "v", "PX", 1000, "EX", 1)
	})
}
