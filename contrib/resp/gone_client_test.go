package resp

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/meshtest"
)

// TestAGoneClientInBLPOPTakesNoSignal: a client that waits in BLPOP has sent more than MaxRequest
// behind, and is gone. The end of its connection lies behind these bytes.
func TestAGoneClientInBLPOPTakesNoSignal(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		s := newSite(t, m, "a")
		gone, waits, other := s.client(), s.client(), s.client()
		gone.send("BLPOP", "signal", 0)
		synctest.Wait()
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = gone.nc.Write([]byte(strings.Repeat(request("GET", "k"), 2*MaxRequest/len(request("GET", "k")))))
		}()
		synctest.Wait()
		gone.nc.Close()
		<-written
		time.Sleep(time.Second)
		if info := other.do("INFO", "clients"); !strings.Contains(info, "connected_clients:2") {
			t.Errorf("a second after the client's end: %s", info)
		}
		waits.send("BLPOP", "signal", 5)
		synctest.Wait()
		other.want(":1", "LPUSH", "signal", "x")
		if got := waits.read(); got != `["signal" "x"]` {
			t.Errorf("the client that waits got %s", got)
		}
	})
}
