package main

import (
	"fmt"
	"os"
	"strings"
)

// traffic is what has passed over loopback since the machine was started, of all processes.
type traffic struct{ bytes, packets float64 }

// loopback reads the system's count. It is known on Linux only.
func loopback() (t traffic, ok bool) {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return t, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), "lo:"); found {
			_, err := fmt.Sscan(rest, &t.bytes, &t.packets)
			return t, err == nil
		}
	}
	return t, false
}

func (t traffic) since(before traffic) traffic {
	return traffic{t.bytes - before.bytes, t.packets - before.packets}
}

// written is what processes have written so far: to streams, and hardly to anything else. Gossip's packets aren't in it; the lists of members that gossip compares
// over a stream now and then are. Unlike traffic it leaves out what others on this machine do, and what the kernel sends by itself. It is known on Linux only.
func written(pids []int) (bytes, calls float64, ok bool) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		if err != nil {
			return 0, 0, false
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			var n float64
			if _, err := fmt.Sscan(value, &n); err != nil {
				return 0, 0, false
			}
			switch name {
			case "wchar":
				bytes += n
			case "syscw":
				calls += n
			}
		}
	}
	return bytes, calls, true
}
