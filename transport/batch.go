package transport

import (
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// batchMessages is how many messages a batch takes: enough that what each batch costs vanishes, few enough that the memory of a
// batch, which is kept for the next one, doesn't matter.
const batchMessages = 32

// Batch is messages that came over one link, in order: at least one. Whoever has it owns it, and gives it back with Free when the messages are
// not needed any more; one that is never given back costs only its memory.
type Batch struct {
	Messages []vote.Message // that of Entries, Sights, Value and Electing they refer to is theirs alone, and may be kept
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// NewBatch returns an empty batch. The caller owns it.
func NewBatch() *Batch { return batches.Get().(*Batch) }

// Free gives the batch back, to be used again. Nobody may look at its messages after that.
func (b *Batch) Free() {
	clear(b.Messages)
	b.Messages = b.Messages[:0]
	batches.Put(b)
}

// Add returns room for another message, which is empty.
func (b *Batch) Add() *vote.Message {
	b.Messages = append(b.Messages, vote.Message{})
	return &b.Messages[len(b.Messages)-1]
}
