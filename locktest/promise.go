package locktest

import "slices"

// Promise is something that a lock service should do, with a probe to test the service.
type Promise struct {
	// Name is short and never changes: -run, Options.Only and Options.Expect refer to the promise
	// by name.
	Name string
	// Text is the promise in words.
	Text string
	// Needs are the capabilities required by the probe.
	Needs []Capability

	probe func(*probe)
}

// Promises returns all promises in the order of examination. The caller owns the slice.
func Promises() []Promise { return slices.Clone(promises) }

func requires(c ...Capability) []Capability { return c }

var promises []Promise

// The probes ask for promises by name, so the list is filled in at program start.
func init() {
	promises = slices.Concat(exclusivePromises, reportingPromises, waitingPromises, keyPromises, lifecyclePromises, orderPromises, readerPromises, permitPromises, loadPromises)
}

func names() []string {
	all := make([]string, len(promises))
	for i, p := range promises {
		all[i] = p.Name
	}
	return all
}

func known(name string) bool { return slices.Contains(names(), name) }
