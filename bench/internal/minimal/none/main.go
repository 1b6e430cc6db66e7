// None is a program that does nothing, for comparing sizes.
package main

import (
	"io"
	"os"
)

func main() { _, _ = io.Copy(io.Discard, os.Stdin) }
