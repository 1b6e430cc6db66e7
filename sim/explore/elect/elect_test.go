package elect

import "testing"

func TestTry(t *testing.T) {
	for _, o := range []Options{
		{Propose: []string{"a:ab"}},
		{Propose: []string{"a:abcd"}, Conclude: []string{"a"}},
		{Propose: []string{"a:ab", "a:abcd"}, Crashes: 1, Crash: []string{"a"}, Conclude: []string{}},
		{Propose: []string{"a:ab", "b:ab"}, Conclude: []string{"a"}},
	} {
		o.MaxStates = 400000
		r, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(o.Propose, r, r.Violation)
	}
}
