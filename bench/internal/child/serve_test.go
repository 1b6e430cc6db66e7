package child

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	in, write := io.Pipe()
	read, out := io.Pipe()
	done := make(chan struct{})
	go func() {
		serve(in, out, map[string]Op{"double": Handler(func(n int) (int, error) {
			if n < 0 {
				return 0, fmt.Errorf("%d is too small", n)
			}
			return 2 * n, nil
		})})
		close(done)
	}()
	lines := bufio.NewReader(read)
	for _, c := range [][2]string{
		{`{"Op":"double","Args":21}`, `{"Result":42}`}, {`{"Op":"double","Args":-1}`, `{"Error":"-1 is too small"}`},
		{`{"Op":"halve"}`, `halve`}, {`what?`, `unreadable`}, {`{"Op":"double","Args":"x"}`, `Error`},
	} {
		fmt.Fprintln(write, c[0])
		if got, err := lines.ReadString('\n'); err != nil || !strings.Contains(got, c[1]) {
			t.Errorf("%s is answered %s, %v; want %s", c[0], got, err, c[1])
		}
	}
	write.Close()
	<-done
}
