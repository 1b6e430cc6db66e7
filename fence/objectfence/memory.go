package objectfence

import (
	"context"
	"slices"
	"strconv"
	"sync"
)

// Memory is a [Store] in memory, for tests. The zero value is empty. A Memory may be used from any
// goroutine and must not be copied.
type Memory struct {
	mu      sync.Mutex
	objects map[string]Object
	version int
}

var _ Store = (*Memory)(nil)

// Get returns a copy of the object.
func (m *Memory) Get(ctx context.Context, name string) (Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[name]
	o.Data = slices.Clone(o.Data)
	return o, ctx.Err()
}

// Put stores a copy of the object if its version is the current version.
func (m *Memory) Put(ctx context.Context, name string, o Object) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.objects[name].Version != o.Version {
		return ErrChanged
	}
	if m.objects == nil {
		m.objects = map[string]Object{}
	}
	m.version++
	m.objects[name] = Object{Token: o.Token, Data: slices.Clone(o.Data), Version: Version(strconv.Itoa(m.version))}
	return nil
}
