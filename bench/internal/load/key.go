package load

import (
	"fmt"
	"strings"
)

// KeySize is the length of keys in bytes.
const KeySize = 32

// Key returns the ith key of a name, padded to KeySize bytes.
func Key(name string, i int) string {
	number := fmt.Sprint(i)
	return name + "/" + strings.Repeat("0", max(0, KeySize-1-len(name)-len(number))) + number
}
