package proctest

import (
	"strings"
	"testing"
)

// A node that must not take part is refused, with a clear message on both sides, and the mesh goes
// on undisturbed.
func TestANodeThatDiffersIsRefused(t *testing.T) {
	t.Parallel()
	m := startMesh(t, abc)
	a := m.procs["a"]
	a.lock("held throughout")
	outsider := launch(t, "d", secret, append(m.args(), "-bind", "127.0.0.1:0")...)
	outsider.reached("ready")

	t.Run("cases", func(t *testing.T) {
		for _, c := range []struct {
			name         string
			node, secret string
			args         []string
			text         []string // words of the error
			ours, theirs []string // words of a line of the newcomer's log, and of the mesh's log
		}{
			{"a wrong secret", "e", "another secret of some length", nil, []string{"secret"}, []string{"secret"}, []string{"secret"}},
			{"no secret", "g", "", nil, []string{"it has a secret, and this node has none"}, []string{"secret"}, []string{"it has no secret"}},
			{"another MaxTTL", "f", secret, []string{"-max-ttl", "1700ms"}, []string{"MaxTTL", "1.7s", "10s"}, []string{"MaxTTL", "1.7s at f", "10s at"}, []string{"MaxTTL", "1.7s at f", "10s at"}},
			{"the name of a voter that lives", "b", secret, nil, []string{"name"}, []string{"name"}, nil},
			{"the name of another node that lives", "d", secret, nil, []string{"name"}, []string{"name"}, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				p := launch(t, c.node, c.secret, append(append(m.args(), "-bind", "127.0.0.1:0"), c.args...)...)
				p.tell("lock something")
				refused := p.awaitError("lock", "refused")
				t.Logf("error: %s", refused.Text)
				for _, word := range c.text {
					if !strings.Contains(refused.Text, word) {
						t.Errorf("the error doesn't say %q: %s", word, refused.Text)
					}
				}
				p.awaitLog(c.ours...)
				if c.theirs != nil {
					a.awaitLog(c.theirs...)
				}
				p.tell("trylock something")
				p.awaitError("trylock", "refused")
				p.none("granted")
				p.none("ready")
			})
		}
	})

	a.renewed("held throughout", 5)
	a.tell("use held throughout")
	a.awaitEvent("used", "held throughout")
	m.procs["b"].lock("of the older b")
	outsider.lock("of the older d")
	for _, p := range []*process{a, m.procs["b"], outsider} {
		p.none("lost")
	}
}
