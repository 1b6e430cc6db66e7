package transport

import (
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// batchMessages is how many messages a batch holds: enough to make the cost per batch negligible,
// few enough to make the memory of a batch, kept for reuse, negligible too.
const batchMessages = 32

// Batch is a sequence of at least one message received over a link, in order. A batch belongs to
// its holder, who returns it with Free once the messages are no longer needed; a batch never freed
// costs only its memory.
type Batch struct {
	// Messages own the Entries, Views, Value and Consensus to which they refer; the receiver may
	// keep those.
	Messages []vote.Message
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// NewBatch returns an empty batch, owned by the caller.
func NewBatch() *Batch { return batches.Get().(*Batch) }

// Free returns the batch for reuse. Its messages must not be used afterwards.
func (b *Batch) Free() {
	clear(b.Messages)
	b.Messages = b.Messages[:0]
	batches.Put(b)
}

// Add appends an empty message and returns a pointer to the message.
func (b *Batch) Add() *vote.Message {
	b.Messages = append(b.Messages, vote.Message{})
	return &b.Messages[len(b.Messages)-1]
}
