//go:build hunt

package sampled

// whole says that all cases are tried.
const whole = true
