package locktest

import "strings"

var keyPromises = []Promise{
	{"independent-keys", "A held key with waiters does not block any other key.", nil, (*probe).independentKeys},
	{"odd-keys", "Any UTF-8 of up to 255 bytes without control characters is a key: spaces, slashes, wildcards, quotes, any script.", nil, (*probe).oddKeys},
	{"alike-keys", "Similar names are different keys: \"a\", \"a/b\", \"A\", \"a \".", nil, (*probe).alikeKeys},
	{"long-keys", "Names too long for the service are refused and never truncated: two names with different ends are different keys.", nil, (*probe).longKeys},
	{"empty-key", "The empty key is refused.", nil, (*probe).emptyKey},
}

// keyLen is the length in bytes up to which every service should take a name. A service may refuse
// names of the lengths in longLengths.
const keyLen = 255

var longLengths = []int{1 << 10, 1 << 14, 1 << 18}

func (p *probe) independentKeys() {
	cs, key := p.nClients(3), p.key()
	g := p.lock(cs[0], key)
	waiter := p.startAcquire(cs[1], key, lockMode)
	p.awaitQueued(key, 1)
	for range 10 {
		other := p.key()
		for _, c := range cs {
			p.release(p.mustAcquire(c, other, tryLockMode))
			p.release(p.lock(c, other))
		}
	}
	p.mustBeHeld(g)
	if !waiter.waiting() {
		p.fatalf("%s waits for a key that is held, and Lock returned %v", cs[1].name, waiter.err)
	}
	p.release(g)
	p.release(waiter.mustAcquire(0))
}

var oddNames = []string{
	" ", "a b", ".", "..", "../x", "/", "//", "/a", "a/", "a//b", `\`, `a\b`, "*", "?", "[a-z]", "{a}", "$HOME", "%00", "%s", "%2f", "#", "&a=b", "a:b", "a,b", "a;b",
	`"`, "'", "`", "<a>", "null", "nil", "0", "-1", "__proto__", "'; DROP TABLE locks; --",
	"ключ", "鍵", "مفتاح", "🔑", "e\u0301", "\u200d", "\ufeffa", "\u202ea",
}

func (p *probe) oddKeys() {
	cs := p.nClients(2)
	prefix := p.key() + "/"
	long := strings.Repeat("x", keyLen-len(prefix))
	for _, name := range append(oddNames, long) {
		ctx, cancel := p.timeoutContext()
		g, err := p.acquire(ctx, cs[0], prefix+name, tryLockMode)
		cancel()
		if err != nil {
			p.errorf("the key %q is free, and TryLock returned %v", prefix+name, err)
			continue
		}
		_ = p.mustRefuse(cs[1], tryLockMode, g)
		p.release(g)
		p.release(p.mustAcquire(cs[1], prefix+name, tryLockMode))
	}
}

// alikeNames are ordered from longer to shorter paths, since a service with folders for names
// notices the names below a folder.
var alikeNames = []string{
	"a/b/c", "a/b/", "a//b", "a/b", "a/", "/a", "a/..", "a/./b", "ab", "a b", "a ", " a", "A", "a10", "a1", "a01", "a.", "a*", "a%2fb", `a\b`,
	"é", "e\u0301", "E\u0301", "ǆ", "ß", "ss", "a\u200d", "\u0430", "a",
}

func (p *probe) alikeKeys() {
	cs := p.nClients(2)
	for _, step := range []int{1, -1} {
		prefix := p.key() + "/"
		at := 0
		if step < 0 {
			at = len(alikeNames) - 1
		}
		var held []*heldLock
		for ; at >= 0 && at < len(alikeNames); at += step {
			ctx, cancel := p.timeoutContext()
			g, err := p.acquire(ctx, cs[at%2], prefix+alikeNames[at], tryLockMode)
			cancel()
			if err != nil {
				p.errorf("no client holds %q, but similar names are held, and TryLock returned %v",
					prefix+alikeNames[at], err)
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
	cs := p.nClients(2)
	for _, n := range longLengths {
		prefix := p.key() + "/"
		stem := prefix + strings.Repeat("x", n-len(prefix)-1)
		ctx, cancel := p.timeoutContext()
		first, err := p.acquire(ctx, cs[0], stem+"1", tryLockMode)
		if err != nil {
			if ctx.Err() != nil {
				p.errorf("TryLock of a key of %d bytes waited for %v", n, p.o.Timeout)
			}
			cancel()
			continue // the key is refused, as the service may
		}
		cancel()
		p.release(p.mustAcquire(cs[1], stem+"2", tryLockMode))
		p.release(first)
	}
}

func (p *probe) emptyKey() {
	c := p.client()
	for _, m := range []mode{lockMode, tryLockMode} {
		ctx, cancel := p.timeoutContext()
		g, err := p.acquire(ctx, c, "", m)
		if err == nil {
			_ = p.unlock(p.ctx, g)
			p.errorf("%s got the empty key", m.name)
		} else if ctx.Err() != nil {
			p.errorf("%s of the empty key waited for %v", m.name, p.o.Timeout)
		}
		cancel()
	}
}
