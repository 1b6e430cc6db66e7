package register

import (
	"context"
	"slices"
	"strconv"
	"sync"
)

// Memory is a [Register] in memory, for tests. The zero value has no record. A Memory may be used
// from any goroutine, and must not be copied.
type Memory struct {
	mu      sync.Mutex
	record  []byte
	version int
	err     error
}

var _ Register = (*Memory)(nil)

// Load returns a copy of the record.
func (m *Memory) Load(ctx context.Context) (record []byte, version string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(ctx); err != nil {
		return nil, "", err
	}
	return slices.Clone(m.record), strconv.Itoa(m.version), nil
}

// Store stores a copy of the record if the version is the present version.
func (m *Memory) Store(ctx context.Context, record []byte, version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(ctx); err != nil {
		return err
	}
	if version != strconv.Itoa(m.version) {
		return ErrChanged
	}
	m.version++
	m.record = slices.Clone(record)
	return nil
}

// Fail has all further calls fail with err, until Fail is called with nil.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *Memory) fail(ctx context.Context) error {
	if m.err != nil {
		return m.err
	}
	return ctx.Err()
}
