package engine

import "fmt"

// turn says which goroutine owns the loop: which may run it.
//
//	turn        event                                               next turn
//	turnLoop    (the beginning)
//	turnLoop    the loop's own goroutine asks                       turnTaken
//	turnIdle    the loop's own goroutine asks                       turnTaken
//	turnIdle    a caller or a reader puts an input                  turnTaken
//	turnIdle    an input for the loop's own goroutine is put        turnLoop
//	turnTaken   the loop's own goroutine asks, in vain              turnWanted
//	turnTaken   the owner finds no input and gives ownership up     turnIdle
//	turnTaken   the owner has run long enough and hands over        turnLoop
//	turnWanted  the owner gives ownership up, or hands over         turnLoop
type turn uint8

const (
	// turnLoop: the loop's own goroutine owns the loop, and may not know this yet.
	turnLoop turn = iota
	// turnIdle: no goroutine owns the loop, and no input waits.
	turnIdle
	// turnTaken: a goroutine runs the loop: a caller, a reader or the loop's own goroutine.
	turnTaken
	// turnWanted: as turnTaken, and the loop's own goroutine has asked in vain. It was woken,
	// perhaps by a timer unnoticed by the owner, so it is the next owner.
	turnWanted
)

// become changes the turn; from are the only turns from which this change is right.
func (t *turn) become(next turn, from ...turn) {
	for _, f := range from {
		if *t == f {
			*t = next
			return
		}
	}
	panic(fmt.Sprintf("the ownership of the loop changes from %d to %d", *t, next))
}
