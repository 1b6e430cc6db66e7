package otellock

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmesh/lockmesh"
)

// The attributes of spans.
const (
	keyOp        attribute.Key = "lockmesh.op"
	keyMode      attribute.Key = "lockmesh.mode"
	keyPermits   attribute.Key = "lockmesh.permits"
	keyPrefix    attribute.Key = "lockmesh.key_prefix"
	keyKey       attribute.Key = "lockmesh.key"
	keyOutcome   attribute.Key = "lockmesh.outcome"
	keyWaited    attribute.Key = "lockmesh.waited"
	keyReentry   attribute.Key = "lockmesh.reentry"
	keyToken     attribute.Key = "lockmesh.token"
	keyReason    attribute.Key = "lockmesh.end_reason"
	keyHeld      attribute.Key = "lockmesh.held"
	keyErrorType attribute.Key = "error.type" // of OpenTelemetry's semantic conventions
)

// Spans makes the spans of one node. All methods may be called from any goroutine.
type Spans struct {
	config
	tracer trace.Tracer
}

// NewSpans returns the spans of a node that is yet to join. Set [Spans.Observer] as
// Observer in the node's configuration.
//
// The attempt to take a lock is a span from the call to its outcome, named by the call, such as
// "lockmesh lock" or "lockmesh trylock" ([lockmesh.LockRequested].Op). The parent is the span of
// the caller's context. LockAll makes a span for each key. The attributes:
//
//	lockmesh.op          the call
//	lockmesh.mode        the requested mode: exclusive, shared or permit
//	lockmesh.permits     the number of permits of a semaphore
//	lockmesh.outcome     granted, or the reason of the error, as in [lockmesh.Outcome]
//	lockmesh.waited      from the call to the outcome, in seconds
//	lockmesh.token       the fencing token of the granted lease
//	lockmesh.reentry     true if the call has entered a held lease again
//	lockmesh.key_prefix  with WithPrefixes
//	lockmesh.key         with WithKeys, for allowed keys
//	error.type           the outcome, if the span has failed
//
// A span fails, with the status Error, if the attempt wasn't granted, except for TryLock and its
// relatives with the outcome held, their ordinary answer.
//
// The lease is a second span, named "lockmesh lease", from the grant to the end of the lease, with
// the op, mode, permits, key and token of the first, and with these:
//
//	lockmesh.end_reason  as in [lockmesh.EndReason]
//	lockmesh.held        from the grant to the end, in seconds
//	error.type           the reason, if the span has failed
//
// The span of the lease has the same parent, or the attempt's span if the caller had no span, and a
// link to the attempt's span. It is made at the end of the lease, so a lease held for days has its
// span after days; only an attempt with a recorded span gets a span of its lease. The span fails if
// the lease was lost or evicted.
//
// The error is [lockmesh.ErrConfig] for a nil provider and for an option that can't be used.
func NewSpans(provider trace.TracerProvider, options ...SpansOption) (*Spans, error) {
	s := &Spans{}
	if provider == nil {
		return nil, misuse("NewSpans", errors.New(
			"the provider is nil; pass the application's, or otel.GetTracerProvider()"))
	}
	for _, o := range options {
		o.forSpans(&s.config)
	}
	if err := s.check(); err != nil {
		return nil, misuse("NewSpans", err)
	}
	s.tracer = provider.Tracer(scope)
	return s, nil
}

// Observer returns the observer that makes spans, for [lockmesh.Config].Observer of one node. Use
// [lockmesh.JoinObservers] if there is another observer: observers behind this observer get the
// context with the span of the attempt.
//
// If events are dropped since an observer was too slow ([lockmesh.Stats].Dropped), spans are
// missing.
func (s *Spans) Observer() *lockmesh.Observer {
	return &lockmesh.Observer{
		LockRequested: s.asked,
		LockGranted:   s.granted,
		LockRefused:   s.refused,
		LeaseEnded:    s.ended,
	}
}

// attempt is a span that has begun, for the later events of the request.
type attempt struct {
	caller context.Context
	span   trace.Span
	began  time.Time
}

// attemptKey is the key of an attempt in a context. Two Spans may observe one node.
type attemptKey struct{ of *Spans }

func (s *Spans) attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{s}).(*attempt)
	return a // nil if the attempt's span isn't recorded
}

// asked begins the span of an attempt, in the caller's goroutine.
func (s *Spans) asked(ctx context.Context, e lockmesh.LockRequested) context.Context {
	// The time of the event is rounded to microseconds, so the span would begin before its parent.
	began := time.Now()
	with, span := s.tracer.Start(ctx, "lockmesh "+e.Op,
		trace.WithTimestamp(began), trace.WithAttributes(s.describe(&e)...))
	// Nil hides an attempt that the caller's context may have: an observer calls Lock with its own.
	var a *attempt
	if span.IsRecording() {
		a = &attempt{ctx, span, began}
	}
	return context.WithValue(with, attemptKey{s}, a)
}

func (s *Spans) granted(ctx context.Context, e lockmesh.LockGranted) {
	a := s.attemptOf(ctx)
	if a == nil {
		return
	}
	a.span.SetAttributes(token(e.Token))
	if e.Reentry {
		a.span.SetAttributes(keyReentry.Bool(true))
	}
	a.end(lockmesh.OutcomeGranted, e.Waited)
}

func (s *Spans) refused(ctx context.Context, e lockmesh.LockRefused) {
	a := s.attemptOf(ctx)
	if a == nil {
		return
	}
	if !ordinary(&e) {
		fail(a.span, string(e.Outcome)) // the text of e.Err has the key
	}
	a.end(e.Outcome, e.Waited)
}

// ordinary reports whether a refusal is the ordinary answer of a call that doesn't wait.
func ordinary(e *lockmesh.LockRefused) bool {
	tried := []string{"trylock", "tryrlock", "tryacquire"}
	return e.Outcome == lockmesh.OutcomeHeld && slices.Contains(tried, e.Request.Op)
}

// end ends the span of an attempt. The length comes from a clock that isn't set.
func (a *attempt) end(outcome lockmesh.Outcome, waited time.Duration) {
	a.span.SetAttributes(keyOutcome.String(string(outcome)), keyWaited.Float64(waited.Seconds()))
	a.span.End(trace.WithTimestamp(a.began.Add(waited)))
}

// ended makes the span of a lease.
func (s *Spans) ended(ctx context.Context, e lockmesh.LeaseEnded) {
	a := s.attemptOf(ctx)
	if a == nil {
		return
	}
	granted := e.At.Add(-e.Held)
	if a.span.IsRecording() { // LockGranted was dropped
		a.span.SetAttributes(token(e.Token))
		a.end(lockmesh.OutcomeGranted, granted.Sub(e.Request.At))
	}
	parent := a.caller
	if !trace.SpanContextFromContext(parent).IsValid() {
		parent = ctx // with the attempt's span
	}
	attributes := append(s.describe(&e.Request), token(e.Token),
		keyReason.String(string(e.Reason)), keyHeld.Float64(e.Held.Seconds()))
	_, span := s.tracer.Start(parent, "lockmesh lease",
		trace.WithTimestamp(granted), trace.WithAttributes(attributes...),
		trace.WithLinks(trace.Link{SpanContext: a.span.SpanContext()}))
	if e.Reason == lockmesh.EndLost || e.Reason == lockmesh.EndEvicted {
		fail(span, string(e.Reason))
	}
	span.End(trace.WithTimestamp(e.At))
}

// describe returns the attributes of a request.
func (s *Spans) describe(asked *lockmesh.LockRequested) []attribute.KeyValue {
	const most = 8 // with those of the outcome
	attributes := make([]attribute.KeyValue, 0, most+len(s.attributes))
	attributes = append(attributes, s.attributes...)
	attributes = append(attributes, keyOp.String(asked.Op), keyMode.String(asked.Mode.String()))
	if asked.Permits > 0 {
		attributes = append(attributes, keyPermits.Int(asked.Permits))
	}
	if s.hasPrefixes {
		attributes = append(attributes, keyPrefix.String(s.prefixOf(asked.Key)))
	}
	if s.allows(asked.Key) {
		attributes = append(attributes, keyKey.String(asked.Key))
	}
	return attributes
}

// token returns the attribute of a fencing token. A token has 63 bits, so the signed integers of
// OpenTelemetry have room.
func token(t uint64) attribute.KeyValue {
	return keyToken.Int64(int64(t))
}

// fail gives a span the status Error. The reason is a word of lockmesh, without a key.
func fail(span trace.Span, reason string) {
	span.SetStatus(codes.Error, reason)
	span.SetAttributes(keyErrorType.String(reason))
}
