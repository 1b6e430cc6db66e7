// Web is a program with just an HTTPS server, as most applications have anyway, for comparing
// sizes.
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
