// Web is a program with a server for HTTPS, and nothing else: what most applications have anyway. It is for comparing sizes.
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	if err := http.ListenAndServeTLS("127.0.0.1:0", "cert.pem", "key.pem", nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
