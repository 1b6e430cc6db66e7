package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/fence"
)

// join returns a mesh of a single node, enough for the example.
func join() (*lockmesh.Mesh, error) {
	return lockmesh.Join(context.Background(), lockmesh.Config{
		Name: "a", Bind: "127.0.0.1:0", Voters: []string{"a"}, MaxTTL: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
}

// A guard in front of the resource checks the token of each writer's lease.
func ExampleGuard() {
	mesh, err := join()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mesh.Close()

	var guard fence.Guard // belongs to the resource, not to the holders
	write := func(token uint64, text string) error {
		return guard.Do(token, func() error {
			fmt.Println("written:", text)
			return nil
		})
	}

	first, err := mesh.Lock(context.Background(), "billing/nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(write(first.Token(), "one"), write(first.Token(), "two"))
	if err := first.Unlock(context.Background()); err != nil {
		fmt.Println(err)
	}

	second, err := mesh.Lock(context.Background(), "billing/nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Unlock(context.Background())
	fmt.Println(write(second.Token(), "three"))

	err = write(first.Token(), "late")
	var stale *fence.StaleError
	fmt.Println(errors.Is(err, fence.ErrStale), errors.As(err, &stale) && stale.Token == first.Token() && stale.Newest == second.Token())
	// Output:
	// written: one
	// written: two
	// <nil> <nil>
	// written: three
	// <nil>
	// true true
}

// A service with many resources takes the token from a header, and answers late writers with 409.
func ExampleGuards() {
	guards := fence.NewGuards(0)
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := strconv.ParseUint(r.Header.Get("Lock-Token"), 10, 64)
		if err != nil {
			http.Error(w, "the header Lock-Token should have the token of a lease", http.StatusBadRequest)
			return
		}
		err = guards.Do(r.URL.Path, token, func() error {
			_, err := fmt.Fprintln(w, "stored") // and whatever there is to store
			return err
		})
		switch {
		case errors.Is(err, fence.ErrStale):
			http.Error(w, err.Error(), http.StatusConflict)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})

	for _, token := range []string{"33", "34", "33", "0", ""} {
		r := httptest.NewRequest(http.MethodPut, "/accounts/7", nil)
		r.Header.Set("Lock-Token", token)
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	}
	// Output:
	// 200 stored
	// 200 stored
	// 409 fence: token 33 is stale: "/accounts/7" has seen 34
	// 400 fence: not a token: it is 0, which no lease has; was it never set?
	// 400 the header Lock-Token should have the token of a lease
}
