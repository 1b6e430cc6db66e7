package main

import (
	"fmt"
	"os"
	"strings"
)

// traffic is the traffic of all processes over loopback since the machine was started.
type traffic struct{ bytes, packets float64 }

// loopback reads the system's counters, known on Linux only.
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

// written returns how much processes have written so far, almost all of it to streams. Gossip's
// packets aren't included; the membership lists that gossip compares over a stream now and then
// are. Unlike traffic, written excludes other processes on this machine and packets sent by the
// kernel itself. The counters are known on Linux only.
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
