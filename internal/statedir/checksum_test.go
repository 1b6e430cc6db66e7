package statedir

import "testing"

// A last line that happens to be a number is no checksum without the prefix.
func TestAFileWithoutAChecksumHasNone(t *testing.T) {
	for _, row := range []struct {
		file string
		ok   bool
	}{
		{"{}\n" + sumPrefix + "0123abcd\n", true},
		{"{}\n0123abcd\n", false},
		{"{}\n" + sumPrefix + "0123ABCD\n", false},
		{"{}\n" + sumPrefix + "0123abcd", false},
		{"", false},
	} {
		if _, _, ok := cutSum([]byte(row.file)); ok != row.ok {
			t.Errorf("%q: has a checksum: %v, want %v", row.file, ok, row.ok)
		}
	}
}
