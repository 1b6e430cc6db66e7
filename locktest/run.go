package locktest

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// Run examines a service and returns the report, which is also logged. Each promise is a subtest
// with the name of the promise, so -run selects promises. A subtest fails when its promise is
// broken, or, where o.Expect is set, when the outcome differs from the expected outcome.
//
// Run can't be called in a bubble of testing/synctest, where there are no subtests: call [Examine]
// there.
func Run(t *testing.T, s Service, o Options) *Report {
	t.Helper()
	x, err := newSuite(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		t.Log(x.report)
		if err := x.end(); err != nil {
			t.Error(err)
		}
	}()
	for _, promise := range x.selected() {
		t.Run(promise.Name, func(t *testing.T) {
			result := x.examine(promise)
			if text := x.o.mismatch(result); text != "" {
				t.Errorf("%s It was %s", promise.Text, text)
			} else {
				t.Log(result)
			}
		})
	}
	return x.report
}

// Examine examines a service, one promise after the other, and returns the report. An error is
// about the suite itself: impossible options, a service that fails to provide a first client or a
// first lock, or a client that can't be closed in the end. A broken promise is no error.
//
// When ctx ends, Examine stops early and returns an error, too; the report has the promises
// examined until then.
func Examine(ctx context.Context, s Service, o Options) (*Report, error) {
	x, err := newSuite(ctx, s, o)
	if err != nil {
		return nil, err
	}
	for _, promise := range x.selected() {
		x.examine(promise)
		if ctx.Err() != nil {
			// The last promise was interrupted, and so has no outcome.
			x.report.Results = x.report.Results[:len(x.report.Results)-1]
			break
		}
	}
	return x.report, errors.Join(ctx.Err(), x.end())
}

// selected returns the promises to examine.
func (s *suite) selected() []Promise {
	if len(s.o.Only) == 0 {
		return Promises()
	}
	return slices.DeleteFunc(Promises(), func(p Promise) bool { return !slices.Contains(s.o.Only, p.Name) })
}
