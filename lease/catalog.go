package lease

import (
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// catalog is a sorted index of the names of a voter's keys, for finding the keys with a prefix
// without scanning all keys. The index is built when a query for a prefix arrives, and maintained
// as keys come and go until no query has arrived for a while: a permanent index would make each
// lock of a new key more expensive.
type catalog struct {
	state  catalogState
	blocks [][]vote.Key // sorted; no block is empty
	left   int          // while building: how many keys at the start of keyTable.every are missing
	until  vote.Instant // when the index is dropped, unless another query arrives
}

type catalogState uint8

const (
	catalogNone catalogState = iota
	catalogPart              // a task is building the index
	catalogWhole
)

// blockMax is the maximum number of names in a block of the catalog. Inserting a name into a block
// moves up to as many names.
const blockMax = 512

// find returns the position of a name in the catalog, or the position at which to insert the name.
func (c *catalog) find(name vote.Key) (block, at int, found bool) {
	// The block is the last block with a first name that doesn't follow the given name.
	block, found = slices.BinarySearchFunc(c.blocks, name, func(b []vote.Key, n vote.Key) int { return strings.Compare(string(b[0]), string(n)) })
	if found {
		return block, 0, true
	}
	if block = max(block-1, 0); len(c.blocks) == 0 {
		return 0, 0, false
	}
	at, found = slices.BinarySearch(c.blocks[block], name)
	return block, at, found
}

func (c *catalog) add(name vote.Key) {
	if c.state == catalogNone {
		return
	}
	i, at, found := c.find(name)
	switch {
	case found:
		return
	case len(c.blocks) == 0:
		c.blocks = append(c.blocks, append(make([]vote.Key, 0, blockMax), name))
		return
	}
	b := slices.Insert(c.blocks[i], at, name)
	if c.blocks[i] = b; len(b) < blockMax {
		return
	}
	c.blocks[i] = b[:blockMax/2]
	c.blocks = slices.Insert(c.blocks, i+1, append(make([]vote.Key, 0, blockMax), b[blockMax/2:]...))
	clear(b[blockMax/2:])
}

func (c *catalog) remove(name vote.Key) {
	if c.state == catalogNone {
		return
	}
	if i, at, found := c.find(name); found {
		if c.blocks[i] = slices.Delete(c.blocks[i], at, at+1); len(c.blocks[i]) == 0 {
			c.blocks = slices.Delete(c.blocks, i, i+1)
		}
	}
}

// next returns the first name after the given name. With same, the given name itself counts, too.
func (c *catalog) next(name vote.Key, same bool) (vote.Key, bool) {
	i, at, found := c.find(name)
	if found && !same {
		at++
	}
	if i < len(c.blocks) && at == len(c.blocks[i]) {
		i, at = i+1, 0
	}
	if i >= len(c.blocks) {
		return "", false
	}
	return c.blocks[i][at], true
}

// cataloging is the task of building the catalog.
type cataloging struct{}

func (cataloging) run(v *Voter) (done bool) {
	c := &v.keys.catalog
	// The build runs from the end of keyTable.every: when a key is removed, the last key takes its
	// place, and the keys at the end are in the catalog already.
	for c.left = min(c.left, v.keys.number()); c.left > 0; c.left-- {
		if v.exhausted() {
			return false
		}
		v.spend(1)
		c.add(v.keys.every[c.left-1].name)
	}
	c.state = catalogWhole
	return true
}

// needCatalog reports whether the catalog is complete. If there is no catalog, needCatalog starts
// the task of building the catalog.
func (v *Voter) needCatalog() bool {
	c := &v.keys.catalog
	c.until = v.now.Slow.Add(v.cfg.MaxTTL)
	v.at(c.until)
	if c.state == catalogNone {
		c.state, c.left = catalogPart, v.keys.number()
		v.startTask(cataloging{})
	}
	return c.state == catalogWhole
}

// advanceCatalog drops a catalog that is no longer used.
func (v *Voter) advanceCatalog() {
	c := &v.keys.catalog
	switch {
	case c.state == catalogNone:
	case c.state == catalogPart || v.queries.any():
		c.until = max(c.until, v.now.Slow.Add(v.cfg.MaxTTL))
		v.at(c.until)
	case c.until <= v.now.Slow:
		*c = catalog{}
	default:
		v.at(c.until)
	}
}
