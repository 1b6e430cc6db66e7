package locktest

import "slices"

// Promise is something that a lock service should do, and the means to try whether it does.
type Promise struct {
	// Name is short and stays the same: -run, Options.Only and Options.Expect know the promise by it.
	Name string
	// Text says what is promised.
	Text string
	// Needs are the capabilities without which it can't be examined.
	Needs []Capability

	probe func(*probe)
}

// Promises returns all promises in the order in which they are examined. The caller owns the slice.
func Promises() []Promise { return slices.Clone(promises) }

func needs(c ...Capability) []Capability { return c }

var promises []Promise

// The probes ask for promises by name, so the list is filled in when the program starts.
func init() {
	promises = slices.Concat(exclusivePromises, waitingPromises, keyPromises, timePromises, orderPromises, readerPromises, permitPromises, crowdPromises)
}

func names() []string {
	all := make([]string, len(promises))
	for i, p := range promises {
		all[i] = p.Name
	}
	return all
}

func known(name string) bool { return slices.Contains(names(), name) }
