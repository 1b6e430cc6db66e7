package load

import "runtime"

// Usage is what a process takes of itself.
type Usage struct {
	Heap       uint64 // bytes of live objects
	Goroutines int
}

// Measure collects garbage, twice since what has a finalizer goes the second time, and looks.
func Measure() Usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Usage{Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine()}
}
