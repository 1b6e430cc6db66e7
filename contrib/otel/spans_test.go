package otellock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmesh/lockmesh"
	otellock "github.com/lockmesh/lockmesh/contrib/otel"
	"github.com/lockmesh/lockmesh/meshtest"
)

// The attempt is a child of the caller's span, and so is the lease, with a link to the attempt.
func TestSpansAreChildrenOfTheCallersSpan(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		other := lock(t.Context(), t, m.Node("b"), "k")
		time.AfterFunc(4*time.Second, func() {
			if err := other.Unlock(context.Background()); err != nil {
				t.Error(err)
			}
		})
		ctx, caller := o.tracer.Start(t.Context(), "order")
		began := time.Now()
		l := lock(ctx, t, m.Node("a"), "k")
		granted := time.Now()
		attempt := o.one("lockmesh lock")
		o.has(attempt, map[string]string{
			"lockmesh.op": "lock", "lockmesh.mode": "exclusive", "lockmesh.outcome": "granted",
			"lockmesh.waited": attributes(attempt)["lockmesh.waited"],
		})
		if got := attempt.Parent(); !got.Equal(caller.SpanContext()) {
			t.Errorf("the parent of the attempt is %v, want the caller's span", got)
		}
		if !attempt.StartTime().Equal(began) || !near(attempt.EndTime(), granted) || granted.Sub(began) < 4*time.Second {
			t.Errorf("the attempt was from %v to %v, and its span from %v to %v", began, granted, attempt.StartTime(), attempt.EndTime())
		}
		if got := attempt.Status().Code; got != codes.Unset {
			t.Errorf("the status is %v", got)
		}

		time.Sleep(time.Hour)
		unlock(t, l)
		caller.End()
		lease := o.one("lockmesh lease")
		o.has(lease, map[string]string{
			"lockmesh.op": "lock", "lockmesh.mode": "exclusive", "lockmesh.end_reason": "unlocked",
			"lockmesh.held": attributes(lease)["lockmesh.held"],
		})
		if got := lease.Parent(); !got.Equal(caller.SpanContext()) {
			t.Errorf("the parent of the lease is %v, want the caller's span", got)
		}
		if links := lease.Links(); len(links) != 1 || !links[0].SpanContext.Equal(attempt.SpanContext()) {
			t.Errorf("the lease has the links %v, want the attempt", links)
		}
		if !near(lease.StartTime(), granted) || !near(lease.EndTime(), granted.Add(time.Hour)) {
			t.Errorf("the lease's span is from %v to %v", lease.StartTime(), lease.EndTime())
		}
		if a, l := attributes(attempt)["lockmesh.token"], attributes(lease)["lockmesh.token"]; a == "" || a != l {
			t.Errorf("the token is %s, and then %s", a, l)
		}
	})
}

// near reports whether two times are the same in the microseconds of the node's clock, or a few
// hops of messages apart.
func near(a, b time.Time) bool { return a.Sub(b).Abs() < 10*time.Millisecond }

// The waits and their lengths follow the node's clocks, in seconds.
func TestTheLengthsOfWaitAndLease(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		start := time.Now()
		asked := lockmesh.LockRequested{Op: "lock", Key: "k", Mode: lockmesh.ModeExclusive, At: start}
		tell := o.spans.Observer()
		ctx := tell.LockRequested(t.Context(), asked)
		m.SetClock("a", -time.Hour) // the wall clock is set meanwhile
		tell.LockGranted(ctx, lockmesh.LockGranted{Request: asked, At: start.Add(-time.Hour), Waited: 1500 * time.Millisecond, Token: 7})
		tell.LeaseEnded(ctx, lockmesh.LeaseEnded{Request: asked, At: start.Add(-50 * time.Minute), Held: 10 * time.Minute, Token: 7, Reason: lockmesh.EndUnlocked})
		attempt, lease := o.one("lockmesh lock"), o.one("lockmesh lease")
		if d := attempt.EndTime().Sub(attempt.StartTime()); d != 1500*time.Millisecond || attributes(attempt)["lockmesh.waited"] != "1.5" {
			t.Errorf("the attempt took %v, with the attributes %v", d, attributes(attempt))
		}
		if d := lease.EndTime().Sub(lease.StartTime()); d != 10*time.Minute || attributes(lease)["lockmesh.held"] != "600" {
			t.Errorf("the lease took %v, with the attributes %v", d, attributes(lease))
		}
		if attributes(attempt)["lockmesh.token"] != "7" || attributes(lease)["lockmesh.token"] != "7" {
			t.Error("the token isn't 7")
		}
	})
}

func TestRefusedAttempts(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		other := lock(t.Context(), t, m.Node("b"), "k")
		a := m.Node("a")
		if _, err := a.TryLock(t.Context(), "k"); !errors.Is(err, lockmesh.ErrHeld) {
			t.Fatal(err)
		}
		if _, err := a.Lock(within(t.Context(), t, 2*time.Second), "k"); !errors.Is(err, lockmesh.ErrHeld) {
			t.Fatal(err)
		}
		m.Crash("b")
		m.Crash("c")
		time.Sleep(time.Minute)
		if _, err := a.TryRLock(within(t.Context(), t, 2*time.Second), "k2"); !errors.Is(err, lockmesh.ErrNoQuorum) {
			t.Fatal(err)
		}
		_ = other // lost with its node
		for _, row := range []struct {
			name, outcome, mode string
			failed              bool
		}{
			{"lockmesh trylock", "held", "exclusive", false}, // the answer to the question
			{"lockmesh lock", "held", "exclusive", true},
			{"lockmesh tryrlock", "no_quorum", "shared", true},
		} {
			s := o.one(row.name)
			want := map[string]string{
				"lockmesh.op": row.name[len("lockmesh "):], "lockmesh.mode": row.mode, "lockmesh.outcome": row.outcome,
				"lockmesh.waited": attributes(s)["lockmesh.waited"],
			}
			status := sdktrace.Status{}
			if row.failed {
				want["error.type"] = row.outcome
				status = sdktrace.Status{Code: codes.Error, Description: row.outcome}
			}
			o.has(s, want)
			if s.Status() != status {
				t.Errorf("%s has the status %v, want %v", row.name, s.Status(), status)
			}
		}
		if leases := o.named("lockmesh lease"); len(leases) != 0 {
			t.Errorf("there are leases: %v", leases)
		}
	})
}

// The span of a lease has the reason of the lease's end, and fails if the work under the lease
// wasn't over.
func TestTheEndsOfLeases(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		a := m.Node("a")
		expires, err := a.Lock(t.Context(), "expires", lockmesh.WithTTL(2*time.Second), lockmesh.WithoutRenewal())
		if err != nil {
			t.Fatal(err)
		}
		evicted := lock(t.Context(), t, a, "evicted")
		if err := m.Node("b").Evict(t.Context(), "evicted", evicted.Token()); err != nil {
			t.Fatal(err)
		}
		<-evicted.Done()
		<-expires.Done()
		lost := lock(t.Context(), t, a, "lost")
		m.Crash("b")
		m.Crash("c")
		<-lost.Done()
		time.Sleep(time.Second)
		var got []string
		for _, s := range o.named("lockmesh lease") {
			text := attributes(s)["lockmesh.end_reason"] + " " + s.Status().Code.String() + " " + attributes(s)["error.type"]
			got = append(got, text)
		}
		want := []string{"evicted Error evicted", "expired Unset ", "lost Error lost"}
		if len(got) != len(want) {
			t.Fatalf("%q, want %q", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%q, want %q", got[i], want[i])
			}
		}
	})
}

// A caller without a span: the attempt begins a trace, and the lease belongs to this trace.
func TestWithoutASpanOfTheCaller(t *testing.T) {
	setUp{}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		unlock(t, lock(t.Context(), t, m.Node("a"), "k"))
		attempt, lease := o.one("lockmesh lock"), o.one("lockmesh lease")
		if attempt.Parent().IsValid() {
			t.Errorf("the parent of the attempt is %v", attempt.Parent())
		}
		if got := lease.Parent(); !got.Equal(attempt.SpanContext()) {
			t.Errorf("the parent of the lease is %v, want the attempt", got)
		}
	})
}

// A trace that isn't sampled has no spans here, and the sampler isn't called again for the lease.
func TestWhatIsNotSampledHasNoSpans(t *testing.T) {
	asked := make(map[string]int)
	sampler := samplerFunc(func(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
		asked[p.Name]++
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	})
	setUp{provider: []sdktrace.TracerProviderOption{sdktrace.WithSampler(sampler)}}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		unlock(t, lock(t.Context(), t, m.Node("a"), "k"))
		synctest.Wait()
		if n := len(o.ended.Started()); n != 0 || asked["lockmesh lock"] != 1 || asked["lockmesh lease"] != 0 {
			t.Errorf("%d spans, and the sampler was asked for %v", n, asked)
		}
	})
}

// An observer may acquire a lock with the context of an event. If this attempt isn't sampled, its
// outcome isn't recorded for the attempt in the context.
func TestAnAttemptInTheContextIsLeftAlone(t *testing.T) {
	sampler := samplerFunc(func(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
		if trace.SpanContextFromContext(p.ParentContext).IsValid() {
			return sdktrace.SamplingResult{Decision: sdktrace.Drop}
		}
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	})
	o := setUp{provider: []sdktrace.TracerProviderOption{sdktrace.WithSampler(sampler)}}.telemetry(t)
	tell := o.spans.Observer()
	first := tell.LockRequested(t.Context(), lockmesh.LockRequested{Op: "lock", Key: "k", Mode: lockmesh.ModeExclusive})
	second := tell.LockRequested(first, lockmesh.LockRequested{Op: "trylock", Key: "k2", Mode: lockmesh.ModeExclusive})
	tell.LockRefused(second, lockmesh.LockRefused{Outcome: lockmesh.OutcomeNoQuorum})
	if n := len(o.ended.Ended()); n != 0 {
		t.Errorf("%d spans have ended by the outcome of another attempt", n)
	}
	tell.LockGranted(first, lockmesh.LockGranted{})
	if all := o.ended.Ended(); len(all) != 1 || attributes(all[0])["lockmesh.outcome"] != "granted" {
		t.Errorf("the spans are %v", all)
	}
}

type samplerFunc func(sdktrace.SamplingParameters) sdktrace.SamplingResult

func (f samplerFunc) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult { return f(p) }
func (f samplerFunc) Description() string                                                { return "a test's" }

// Each kind of lock has its span, named by the call; and each key of LockAll has a span.
func TestEachKindOfLock(t *testing.T) {
	setUp{options: []otellock.Option{otellock.WithPrefixes("many/")}, spans: []otellock.SpansOption{otellock.WithKeys("many/")}}.run(t, func(t *testing.T, m *meshtest.Mesh, o *telemetry) {
		a := m.Node("a")
		ctx, caller := o.tracer.Start(t.Context(), "order")
		useAllKinds(ctx, t, a, "many/")
		caller.End()
		synctest.Wait()
		count := make(map[string]int)
		for _, s := range o.ended.Ended() {
			count[s.Name()]++
			if s.Name() == "order" {
				continue
			}
			if got := s.Parent(); !got.Equal(caller.SpanContext()) {
				t.Errorf("the parent of %s is %v, want the caller's span", s.Name(), got)
			}
			attrs := attributes(s)
			if attrs["lockmesh.key_prefix"] != "many/" || len(attrs["lockmesh.key"]) <= len("many/") {
				t.Errorf("%s has %v", s.Name(), attrs)
			}
			if mode := attrs["lockmesh.mode"]; (mode == "permit") != (attrs["lockmesh.permits"] == "2") {
				t.Errorf("%s has the mode %s and %s permits", s.Name(), mode, attrs["lockmesh.permits"])
			}
		}
		for name, want := range map[string]int{
			"lockmesh lock": 2, "lockmesh trylock": 1, "lockmesh rlock": 1, "lockmesh tryrlock": 1, "lockmesh upgrade": 1, "lockmesh acquire": 1,
			"lockmesh tryacquire": 1, "lockmesh lockall": 2, "lockmesh campaign": 1, "lockmesh countdown": 1, "lockmesh lease": 10, "order": 1,
		} {
			if count[name] != want {
				t.Errorf("there are %d spans named %q, want %d", count[name], name, want)
			}
		}
		var reentries int
		for _, s := range o.named("lockmesh lock") {
			if attributes(s)["lockmesh.reentry"] == "true" {
				reentries++
			}
		}
		if reentries != 1 {
			t.Errorf("%d re-entries, want 1", reentries)
		}
	})
}

// useAllKinds acquires and releases a lock of each kind, on keys with a prefix: ten leases and a
// re-entry.
func useAllKinds(ctx context.Context, t *testing.T, mesh *lockmesh.Mesh, prefix string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	got := func(l *lockmesh.Lease, err error) *lockmesh.Lease {
		t.Helper()
		must(err)
		return l
	}
	l := got(mesh.Lock(ctx, prefix+"lock"))
	unlock(t, got(mesh.Lock(l.Context(), prefix+"lock")))
	unlock(t, l)
	unlock(t, got(mesh.TryLock(ctx, prefix+"trylock")))
	unlock(t, got(mesh.RLock(ctx, prefix+"rlock")))
	reader := got(mesh.TryRLock(ctx, prefix+"tryrlock"))
	must(reader.Upgrade(ctx))
	unlock(t, reader)
	unlock(t, got(mesh.Semaphore(prefix+"semaphore", 2).Acquire(ctx)))
	unlock(t, got(mesh.Semaphore(prefix+"semaphore", 2).TryAcquire(ctx)))
	all, err := mesh.LockAll(ctx, prefix+"one", prefix+"two")
	must(err)
	must(all.Unlock(ctx))
	leader, err := mesh.Election(prefix+"election").Campaign(ctx, nil)
	must(err)
	must(leader.Resign(ctx))
	count, err := mesh.CountDownLatch(prefix+"latch", 2).CountDown(ctx)
	must(err)
	must(count.TakeBack(ctx))
}
