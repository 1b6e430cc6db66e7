package objectfence_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"

	"github.com/lockmesh/lockmesh/fence/objectfence"
)

// A holder replaces an object behind a server with conditional writes. The tokens are the tokens of
// leases.
func ExampleHTTP() {
	server := httptest.NewServer(&storage{hashed: true}) // stands for a bucket
	defer server.Close()
	base, err := url.Parse(server.URL + "/bucket")
	if err != nil {
		fmt.Println(err)
		return
	}
	store := &objectfence.HTTP{Base: base, Client: server.Client()}

	ctx := context.Background() // lease.Context(), where there is a lease
	fmt.Println("fit for it:", objectfence.Probe(ctx, store, "probe") == nil)
	report := objectfence.New(store, "reports/november.txt")
	fmt.Println(report.Put(ctx, 33, []byte("by the first holder")))
	fmt.Println(report.Put(ctx, 34, []byte("by the second")))
	fmt.Println(report.Put(ctx, 33, []byte("by the first, late")))
	o, err := report.Get(ctx)
	fmt.Printf("%s, by token %d, %v\n", o.Data, o.Token, err)
	// Output:
	// fit for it: true
	// <nil>
	// <nil>
	// fence: token 33 is stale: "reports/november.txt" has seen 34
	// by the second, by token 34, <nil>
}
