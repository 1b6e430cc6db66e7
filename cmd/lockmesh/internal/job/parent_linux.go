package job

import (
	"os"
	"strconv"
)

// parentOf returns the parent of a process; zero after the end of the process.
func parentOf(pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	s, _ := readStat(text)
	return s.parent
}
