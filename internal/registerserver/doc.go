// Package registerserver has servers for tests of registers: one stands for an API server of
// Kubernetes, one for an object storage with conditional writes.
package registerserver
