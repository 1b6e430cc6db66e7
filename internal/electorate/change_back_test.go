package electorate

import (
	"errors"
	"testing"
)

// A joint electorate goes back to the old voters if too few of the new voters are reachable, and
// only then.
func TestTheOldOnesGoBack(t *testing.T) {
	for _, c := range []struct{ name, e, others, want string }{
		{"the new ones are gone", "4: a d e (a b c)", "b c d=gone e=gone", "5: a b c"},
		{"one of them is there", "4: a d e (a b c)", "b c d e=gone", ""},
		{"they are another's directories", "4: a d e (a b c)", "b c d=otherdir e=stuck", "5: a b c"},
		{"the old ones are gone as well", "4: a d e (a b c)", "b=gone c=gone d=gone e=gone", ""},
		// a may propose the return, and the old voters decide.
		{"a new one alone can't say", "4: a d e (b c d)", "b c d=gone e=gone", "5: b c d"},
	} {
		b := scene(t, c.e, c.others)
		b.m.move()
		got := ""
		if b.m.race != nil {
			v := b.m.race.value
			got = text(&v)
		}
		if want := c.want; want != "" {
			e := electorate(want)
			want = text(&e)
			if got != want {
				t.Errorf("%s: it runs for %q, want %q", c.name, got, want)
			}
		} else if got != "" {
			t.Errorf("%s: it runs for %q", c.name, got)
		}
	}
}

// While too few of the new voters are reachable, nothing is lost: a recovery beside old voters that
// go back would make two electorates.
func TestNothingIsLostWhileTheOldOnesCanGoBack(t *testing.T) {
	for _, c := range []struct {
		e, others string
		lost      bool
	}{
		{"4: a d e (a b c)", "b c d=gone e=gone", false},
		{"4: a d e (a b c)", "b=gone c=gone d e", true},
		{"4: a d e (a b c)", "b c=gone d=gone e=gone", false},
		{"4: a d e (a b c)", "b=gone c=gone d=gone e=gone", true},
		{"3: a b c", "b=gone c=gone", true},
	} {
		b := scene(t, c.e, c.others)
		if s := b.m.Status(b.now).Lost; (s != "") != c.lost {
			t.Errorf("%s with %s: lost: %q", c.e, c.others, s)
		}
		if err := b.m.Recover(b.now, nodes("a"), 0); errors.Is(err, ErrNotLost) == c.lost {
			t.Errorf("%s with %s: founded again: %v", c.e, c.others, err)
		}
	}
}
