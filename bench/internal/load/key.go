// Package load has what is measured: it runs in the process of the node that is measured, and asks nothing but the node's interface.
package load

import (
	"fmt"
	"strings"
)

// KeySize is how long keys are, in bytes.
const KeySize = 32

// Key returns the ith key of a name, of KeySize bytes.
func Key(name string, i int) string {
	number := fmt.Sprint(i)
	return name + "/" + strings.Repeat("0", max(0, KeySize-1-len(name)-len(number))) + number
}
