package resp

import "time"

const (
	// DefaultMaxConns is how many connections [Server.Serve] keeps open at a time unless
	// [WithMaxConns] says otherwise: the 10,000 of Redis's default, and room for operators. A
	// further connection is told so and closed.
	DefaultMaxConns = 10_064

	// DefaultMaxLeases is how many keys clients can hold at a time through one server unless
	// [WithMaxLeases] says otherwise. A lease takes about a kilobyte here and at each voter.
	DefaultMaxLeases = 16_384

	// MaxRequest is the length of the longest request in bytes, its framing included: a script of
	// the greatest length, and a value of [lockmesh.MaxValueLen] with some dozens of long keys.
	MaxRequest = 64 << 10

	// MaxArgs is the largest number of words of a request. The longest legitimate request is a
	// script for some hundred keys.
	MaxArgs = 1024

	// MaxScript is the length of the longest script in bytes. The scripts of lock clients have some
	// hundred bytes.
	MaxScript = 16 << 10

	// MaxScripts is how many scripts are remembered by their digests. A client of a forgotten
	// script is told NOSCRIPT, as after a restart of Redis, and sends the script again.
	MaxScripts = 256

	// MaxInstructions is how many instructions of Lua a script runs at most. A script of a lock
	// client takes some dozens for each key.
	MaxInstructions = 50_000

	// MaxScriptMemory is how many bytes of strings a script makes at most.
	MaxScriptMemory = 1 << 20

	// MaxString is the longest of these strings in bytes.
	MaxString = 16 << 10

	// MinPasswordLen is the least length of a password in bytes: 128 bits, which can't be guessed
	// if they are random.
	MinPasswordLen = 16

	// maxStrangerRequest and maxStrangerArgs bound a request before the password: AUTH and HELLO
	// are shorter.
	maxStrangerRequest = 4 << 10
	maxStrangerArgs    = 16

	// maxInline is the length of the longest request without framing, as typed by hand.
	maxInline = 1 << 10

	// maxLine is the longest line of the framing: a mark and a number.
	maxLine = 24

	// maxSignals is how many lists of signals exist at a time, maxSignalItems how many items a list
	// has, and maxSignalLen the length of the longest item: 4 MiB in all. An unlock leaves a list
	// for a single waiter; where there are more, the oldest list or item goes, and a waiter waits
	// until its timeout.
	maxSignals     = 1024
	maxSignalItems = 16
	maxSignalLen   = 256

	// maxBlock is the longest wait of BLPOP, also for a timeout of zero: a client waiting for a
	// day has most likely forgotten.
	maxBlock = 24 * time.Hour

	// maxName is the longest name of a connection in bytes (CLIENT SETNAME).
	maxName = 256

	// maxErrorText is the length of the longest text of an error in bytes. Texts quote a request's
	// words.
	maxErrorText = 512

	// leastPatience is how long a command waits for the voters beyond half of MaxTTL: for so long
	// an inspection may leave open who holds a key, after the crash of a voter. A majority answers
	// within milliseconds otherwise.
	leastPatience = time.Second

	// requestTime is how long a request may take to arrive after its first byte, and an unknown
	// client to send the password, whatever else the client sends. The longest request is sent in
	// milliseconds.
	requestTime = 10 * time.Second

	// writeTime is how long a client may take to read before the connection is cut. The system
	// buffers some hundred kilobytes, so only a client without a reader takes so long.
	writeTime = 10 * time.Second

	// flushLen is how many bytes of answers are collected while requests of the client are waiting.
	flushLen = 32 << 10

	// keepAlive is the pause between probes of an idle TCP connection, and vanishTime how long a
	// client acknowledges nothing before the connection ends, where the system can tell (Linux).
	keepAlive  = 15 * time.Second
	vanishTime = 20 * time.Second

	// stopGrace is how long the client of a key without an end of its own is given to notice
	// the cut of its connection when the server stops, before the key is released.
	stopGrace = time.Second

	// releaseTime is how long the release of a key is waited for where no client waits. The release
	// was sent before.
	releaseTime = 5 * time.Second

	// logPause is the pause between lines of the log about the same complaint of a listener.
	logPause = time.Minute

	// leastStretch is how much a lease must lack to be extended for its client, and have left: a
	// timer fires late, and the voters take a moment.
	leastStretch = 20 * time.Millisecond

	// A lease is requested for a 32nd and spanExtra longer than its client's time: the holder's
	// lease ends a fortieth before the voters' promise.
	spanShare = 32
	spanExtra = 5 * time.Millisecond

	// maxReruns is how often an overtaken script runs anew: each time some
	// node has got the key, so the mesh makes progress.
	maxReruns = 3
)
