package lockmesh

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// ListMax is the largest number of keys returned by [Mesh.ListPage]. With values of the greatest
// length, the voters' answers for so many keys are a few megabytes.
const ListMax = 1000

// Page is a part of the keys in use.
type Page struct {
	Keys []Info // in order of their names
	// Next is the argument after of ListPage for the next page; empty if there are no more keys.
	Next string
}

// ListPage returns the state of keys that begin with prefix, as [Mesh.Inspect] does for a single
// key: keys that are held, waited for or kept from others. The page has up to most keys: the first
// by name among those after the name after. An empty prefix means all keys, an empty after the
// first page, and a most of zero [ListMax]. A page may have fewer keys, or none, although there are
// more keys; Next is then not empty. Each key is shown as of some moment, which may differ from key
// to key.
//
// Errors: ErrKey; ErrOption if most is negative or above ListMax; ErrNoQuorum if too few voters
// answer within a TTL; ErrClosed; ErrBusy; or ctx's error.
func (m *Mesh) ListPage(ctx context.Context, prefix, after string, most int) (Page, error) {
	m.checkUsable("Mesh.ListPage")
	checkContext(ctx, "Mesh.ListPage")
	for _, part := range []string{prefix, after} {
		if part != "" {
			if err := checkKey("list", part); err != nil {
				return Page{}, err
			}
		}
	}
	if most < 0 || most > ListMax {
		return Page{}, &Error{
			Op: "list", Key: prefix, Reason: ErrOption,
			Text: fmt.Sprintf("a page of %d keys; 1 to %d are possible, and 0 means the maximum",
				most, ListMax),
		}
	}
	if most == 0 {
		most = ListMax
	}
	found, err := m.eng.Page(ctx, vote.Key(prefix), vote.Key(after), most)
	if err != nil {
		return Page{}, err
	}
	var page Page
	for views := found.Views; len(views) > 0; {
		key, n, permits := views[0].Key, 0, uint16(0)
		for ; n < len(views) && views[n].Key == key; n++ {
			permits = max(permits, views[n].Permits)
		}
		if len(page.Keys) == most {
			page.Next = page.Keys[most-1].Key
			return page, nil
		}
		page.Keys = append(page.Keys, m.info(string(key), permits, views[:n]))
		views = views[n:]
	}
	if found.Truncated {
		page.Next = string(found.Last)
	}
	return page, nil
}

// List returns an iterator over all keys that begin with prefix. The iterator calls [Mesh.ListPage]
// as it reaches each page, and ends with the first error. Keys that come into use or go out of use
// meanwhile may or may not be listed; each key in use all the while is listed once.
//
//	for info, err := range mesh.List(ctx, "jobs/") {
func (m *Mesh) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	m.checkUsable("Mesh.List")
	checkContext(ctx, "Mesh.List")
	return func(yield func(Info, error) bool) {
		after := ""
		for {
			page, err := m.ListPage(ctx, prefix, after, 0)
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, info := range page.Keys {
				if !yield(info, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}
