package locktest

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// Run examines a service, each promise in a subtest of its name, so that -run selects them; and logs the report, which it returns.
// A subtest fails when its promise is broken, or, where o.Expect is set, when it comes out otherwise than that says.
//
// Run can't be called in a bubble of testing/synctest, which has no subtests: call [Examine] there.
func Run(t *testing.T, s Service, o Options) *Report {
	t.Helper()
	x, err := begin(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		t.Log(x.report)
		if err := x.end(); err != nil {
			t.Error(err)
		}
	}()
	for _, promise := range x.chosen() {
		t.Run(promise.Name, func(t *testing.T) {
			result := x.examine(promise)
			if text := x.o.complaint(result); text != "" {
				t.Errorf("%s It was %s", promise.Text, text)
			} else {
				t.Log(result)
			}
		})
	}
	return x.report
}

// Examine examines a service, one promise after the other, and returns the report. The error is about the examination: options that can't
// be, a service that gives no client or no lock to begin with, or a client that can't be closed in the end. A broken promise is none.
//
// When ctx ends the examination breaks off, and that is an error, too; the report has what was examined until then.
func Examine(ctx context.Context, s Service, o Options) (*Report, error) {
	x, err := begin(ctx, s, o)
	if err != nil {
		return nil, err
	}
	for _, promise := range x.chosen() {
		x.examine(promise)
		if ctx.Err() != nil {
			x.report.Results = x.report.Results[:len(x.report.Results)-1] // it was broken off, which says nothing
			break
		}
	}
	return x.report, errors.Join(ctx.Err(), x.end())
}

// chosen returns the promises to examine.
func (x *exam) chosen() []Promise {
	if len(x.o.Only) == 0 {
		return Promises()
	}
	return slices.DeleteFunc(Promises(), func(p Promise) bool { return !slices.Contains(x.o.Only, p.Name) })
}
