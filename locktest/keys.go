package locktest

import "strings"

var keyPromises = []Promise{
	{"independent-keys", "A key that is held, and waited for, keeps nobody from another.", nil, (*probe).independentKeys},
	{"odd-keys", "Any UTF-8 of up to 255 bytes without control characters is a key: spaces, slashes, wildcards, quotes, any script.", nil, (*probe).oddKeys},
	{"alike-keys", "Names that look alike are different keys: \"a\", \"a/b\", \"A\", \"a \".", nil, (*probe).alikeKeys},
	{"long-keys", "Names too long for the service are refused, and never cut: two that differ at the end aren't one key.", nil, (*probe).longKeys},
	{"empty-key", "The empty name is refused.", nil, (*probe).emptyKey},
}

// keyLen is how long a name every service should take, in bytes; longKeys are lengths that it may refuse.
const keyLen = 255

var longLengths = []int{1 << 10, 1 << 14, 1 << 18}

func (p *probe) independentKeys() {
	cs, key := p.some(3), p.key()
	g := p.lock(cs[0], key)
	waiter := p.start(cs[1], key, byLock)
	p.queued(key, 1)
	for range 10 {
		other := p.key()
		for _, c := range cs {
			p.release(p.hold(c, other, byTry))
			p.release(p.lock(c, other))
		}
	}
	p.held(g)
	if !waiter.waits() {
		p.fatalf("%s waits for a key that is held, and Lock returned %v", cs[1].name, waiter.err)
	}
	p.release(g)
	p.release(waiter.served(0))
}

var oddNames = []string{
	" ", "a b", ".", "..", "../x", "/", "//", "/a", "a/", "a//b", `\`, `a\b`, "*", "?", "[a-z]", "{a}", "$HOME", "%00", "%s", "%2f", "#", "&a=b", "a:b", "a,b", "a;b",
	`"`, "'", "`", "<a>", "null", "nil", "0", "-1", "__proto__", "'; DROP TABLE locks; --",
	"ключ", "鍵", "مفتاح", "🔑", "e\u0301", "\u200d", "\ufeffa", "\u202ea",
}

func (p *probe) oddKeys() {
	cs := p.some(2)
	prefix := p.key() + "/"
	long := strings.Repeat("x", keyLen-len(prefix))
	for _, name := range append(oddNames, long) {
		ctx, cancel := p.within()
		g, err := p.take(ctx, cs[0], prefix+name, byTry)
		cancel()
		if err != nil {
			p.errorf("the key %q is free, and TryLock returned %v", prefix+name, err)
			continue
		}
		_ = p.refused(cs[1], byTry, g)
		p.release(g)
		p.release(p.hold(cs[1], prefix+name, byTry))
	}
}

// alikeNames come from those with more in them to those with less, since a service that takes a name for a folder notices what is below it.
var alikeNames = []string{
	"a/b/c", "a/b/", "a//b", "a/b", "a/", "/a", "a/..", "a/./b", "ab", "a b", "a ", " a", "A", "a10", "a1", "a01", "a.", "a*", "a%2fb", `a\b`,
	"é", "e\u0301", "E\u0301", "ǆ", "ß", "ss", "a\u200d", "\u0430", "a",
}

func (p *probe) alikeKeys() {
	cs := p.some(2)
	for _, step := range []int{1, -1} {
		prefix := p.key() + "/"
		at := 0
		if step < 0 {
			at = len(alikeNames) - 1
		}
		var held []*grip
		for ; at >= 0 && at < len(alikeNames); at += step {
			ctx, cancel := p.within()
			g, err := p.take(ctx, cs[at%2], prefix+alikeNames[at], byTry)
			cancel()
			if err != nil {
				p.errorf("nobody holds %q, but names that look like it are held, and TryLock returned %v", prefix+alikeNames[at], err)
				continue
			}
			held = append(held, g)
		}
		for _, g := range held {
			p.release(g)
		}
	}
}

func (p *probe) longKeys() {
	cs := p.some(2)
	for _, n := range longLengths {
		prefix := p.key() + "/"
		stem := prefix + strings.Repeat("x", n-len(prefix)-1)
		ctx, cancel := p.within()
		first, err := p.take(ctx, cs[0], stem+"1", byTry)
		if err != nil {
			if ctx.Err() != nil {
				p.errorf("TryLock of a key of %d bytes waited for %v", n, p.o.Patience)
			}
			cancel()
			continue // it is refused, which is all right
		}
		cancel()
		p.release(p.hold(cs[1], stem+"2", byTry))
		p.release(first)
	}
}

func (p *probe) emptyKey() {
	c := p.client()
	for _, m := range []mode{byLock, byTry} {
		ctx, cancel := p.within()
		g, err := p.take(ctx, c, "", m)
		if err == nil {
			_ = p.unlock(p.ctx, g)
			p.errorf("%s got the empty key", m.name)
		} else if ctx.Err() != nil {
			p.errorf("%s of the empty key waited for %v", m.name, p.o.Patience)
		}
		cancel()
	}
}
