package load

import "runtime"

// Usage is the memory and the goroutines used by a process.
type Usage struct {
	Heap       uint64 // bytes of live objects
	Goroutines int
}

// Measure collects garbage twice, since objects with finalizers go in the second collection, and
// then measures.
func Measure() Usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Usage{Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine()}
}
