package top

// helpText explains the screen, in lines of at most 78 columns.
var helpText = []string{
	"s      sort: longest wait, grants, held, name     enter  holders and waiters",
	"/      only keys that begin so                    esc    back; then all keys",
	"p      pause, go on                               q      quit, as ctrl-C",
	"arrows, PgUp, PgDn, Home, End: move",
	"",
	"The first line is the node's verdict: how many voters count, how many are",
	"needed, and how many may fail, whichever they are. A voter that has started is",
	"quiet at first: it answers, and doesn't count yet.",
	"",
	"least time left  of the node's leases; falls while leases aren't renewed",
	"HELD             since the key's oldest lease was granted",
	"LEFT             how long voters wait, at most, once the holder is silent",
	"WAITING          requests that wait for the key; LONGEST of these waits",
	"GRANTS           leases that this process has seen to be granted",
	"(kept)           no node holds the key, and none gets it while LEFT lasts",
	"NAME?            the voters don't know whether the lease was granted",
	"",
	"While grants are counted, nodes hand no key off between their own callers, and",
	"each lock asks the voters, which takes longer. --no-grants doesn't count.",
	"Any key goes back.",
}

// helpLines returns the help.
func (m *Model) helpLines() []line {
	var out []line
	for _, text := range helpText {
		switch {
		case text == "" && m.height < len(helpText)+1:
		case cells(text) <= m.width:
			out = append(out, say(none, "%s", text))
		default:
			out = append(out, wrap(text, m.width, 4, none)...)
		}
	}
	if len(out) > m.height {
		out = append(out[:max(0, m.height-1)], say(bold, "a larger window shows more; any key goes back"))
	}
	return out
}
