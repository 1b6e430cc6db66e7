// Package meshservice makes a mesh a service for package locktest, in tests of lockmesh.
package meshservice
