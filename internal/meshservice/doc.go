// Package meshservice makes a mesh a service that package locktest can examine. It is for tests of
// lockmesh.
package meshservice
