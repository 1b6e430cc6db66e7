// Grafana prints the dashboard of lockmesh's metrics (contrib/prometheus) for import into Grafana.
// dashboard.json, beside this file, is its output; `go generate` writes it again.
package main

import (
	"encoding/json"
	"os"
)

//go:generate sh -c "go run . >dashboard.json"

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	if err := out.Encode(Dashboard()); err != nil {
		panic(err) // the standard output can't be written
	}
}
