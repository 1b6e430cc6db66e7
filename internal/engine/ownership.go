package engine

import "fmt"

// ownership says which goroutine owns the loop: which may run it.
//
//	ownership     event                                               next ownership
//	ownerLoop     (the beginning)
//	ownerLoop     the loop's own goroutine asks                       ownerRunning
//	ownerNone     the loop's own goroutine asks                       ownerRunning
//	ownerNone     a caller or a reader puts an input                  ownerRunning
//	ownerNone     an input for the loop's own goroutine is put        ownerLoop
//	ownerRunning  the loop's own goroutine asks, in vain              ownerWanted
//	ownerRunning  the owner finds no input and gives ownership up     ownerNone
//	ownerRunning  the owner has run long enough and hands over        ownerLoop
//	ownerWanted   the owner gives ownership up, or hands over         ownerLoop
type ownership uint8

const (
	// ownerLoop: the loop's own goroutine owns the loop, and may not know this yet.
	ownerLoop ownership = iota
	// ownerNone: no goroutine owns the loop, and no input waits.
	ownerNone
	// ownerRunning: a goroutine runs the loop: a caller, a reader or the loop's own goroutine.
	ownerRunning
	// ownerWanted: as ownerRunning, and the loop's own goroutine has asked in vain. It was woken,
	// perhaps by a timer unnoticed by the owner, so it is the next owner.
	ownerWanted
)

// become changes the ownership; from are the only states from which this change is right.
func (o *ownership) become(next ownership, from ...ownership) {
	for _, f := range from {
		if *o == f {
			*o = next
			return
		}
	}
	panic(fmt.Sprintf("the ownership of the loop changes from %d to %d", *o, next))
}
