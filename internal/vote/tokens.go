package vote

import "time"

// Limits for tokens named by other nodes. A single wrong token near the largest possible token,
// from a program error or a broken machine, would use up the tokens of every key: each later lease
// needs a larger token.
const (
	// TokenStep is how far a token named by a peer may be above the receiver's knowledge: its own
	// clock, the voters' clocks, and the highest known token. A day is far above the differences
	// between clocks that are set at all, and so small a part of all tokens that the tokens would
	// last for 200 years even at a day per minute.
	TokenStep = Token(24 * time.Hour / time.Microsecond)

	// LastClock is the token of the latest time that a working clock may show, in the year 3111. A
	// clock with a later time is broken, and is read as LastClock.
	LastClock Token = 1 << 55

	// MaxMinToken bounds the minimum token of an electorate, since no voter can refuse an
	// electorate once it is decided. MaxMinToken is a sixteenth of all tokens, so that the keys
	// above the minimum token have room for 274,000 years.
	MaxMinToken = MaxToken / 16
)

// TokenAt returns the token of a wall-clock time: zero for times before 1970, and at most
// [LastClock].
func TokenAt(w Micros) Token {
	if w < 0 {
		return 0
	}
	return min(Token(w), LastClock)
}

// MaxFrom returns the largest token accepted from a peer, if known is the highest known token.
func MaxFrom(known Token) Token { return min(known, MaxToken-TokenStep) + TokenStep }
