package shrink

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/sim"
)

// simplify simplifies what remains of a run: first the network and the clocks, then the time
// between acts and requests, then each act and each request.
func (s *Result) simplify(ctx context.Context) {
	s.changeAll(ctx, []func(o *sim.Options){
		func(o *sim.Options) { o.Names = nil; rename(o, s.Options.NodeNames()) },
		func(o *sim.Options) { o.TTL = nil },
		func(o *sim.Options) { o.Net = sim.Net{Least: time.Millisecond, Most: time.Millisecond, Jitter: -1} },
		func(o *sim.Options) { o.Coalesce = 0 },
		func(o *sim.Options) { o.Turn = 0 },
		func(o *sim.Options) { o.Net.Spikes = 0 },
		func(o *sim.Options) { o.Net.Jitter = -1 },
		func(o *sim.Options) { o.Net.Least = o.Net.Most },
		func(o *sim.Options) { o.Net.Most = o.Net.Least },
		func(o *sim.Options) { o.Clocks = sim.Clocks{Exact: true} },
		func(o *sim.Options) { o.Clocks.PPM = nil; o.Clocks.Exact = true },
		func(o *sim.Options) { o.Clocks.Wall = nil; o.Clocks.Exact = true },
		func(o *sim.Options) { o.Load.Keys = 0 },
		func(o *sim.Options) {
			o.Load.Asks = slices.Clone(o.Load.Asks)
			for i := range o.Load.Asks {
				o.Load.Asks[i].Key = "key-0"
			}
		},
	})
	s.changeTime(ctx, false, func(o *sim.Options) *time.Duration { return &o.Net.Least })
	s.changeTime(ctx, false, func(o *sim.Options) *time.Duration { return &o.Net.Most })
	s.changeTime(ctx, false, func(o *sim.Options) *time.Duration { return &o.Coalesce })
	for i := range s.Options.Clocks.PPM {
		s.changeAll(ctx, []func(o *sim.Options){func(o *sim.Options) { o.Clocks.PPM = slices.Clone(o.Clocks.PPM); o.Clocks.PPM[i] = 0 }})
	}
	for i := range s.Options.Clocks.Wall {
		wall := func(o *sim.Options) *time.Duration {
			o.Clocks.Wall = slices.Clone(o.Clocks.Wall)
			return &o.Clocks.Wall[i]
		}
		s.changeTime(ctx, true, wall)
	}
	s.closeGaps(ctx)
	// A changed run may violate the check sooner, which drops later acts and requests. So the lists
	// may shrink meanwhile.
	for i := 0; i < len(s.Options.Acts); i++ {
		s.simplifyAct(ctx, i)
	}
	for i := 0; i < len(s.Options.Load.Asks); i++ {
		s.simplifyAsk(ctx, i)
	}
}

// change tries a simplification.
func (s *Result) change(ctx context.Context, f func(o *sim.Options)) bool {
	o := s.Options
	f(&o)
	return literal(o) != literal(s.Options) && s.try(ctx, o, s.Length)
}

func (s *Result) changeAll(ctx context.Context, all []func(o *sim.Options)) {
	for _, f := range all {
		s.change(ctx, f)
	}
}

// changeTime simplifies a duration: to zero, if zero is allowed, or else to a value as round as
// possible. The function of returns the duration's address within the given options.
func (s *Result) changeTime(ctx context.Context, zero bool, of func(o *sim.Options) *time.Duration) {
	if zero && s.change(ctx, func(o *sim.Options) { *of(o) = 0 }) {
		return
	}
	for _, unit := range []time.Duration{time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond, 100 * time.Microsecond} {
		if s.change(ctx, func(o *sim.Options) {
			if d := of(o); d.Round(unit) != 0 {
				*d = d.Round(unit)
			}
		}) {
			return
		}
	}
}

func (s *Result) simplifyAct(ctx context.Context, i int) {
	act := func(o *sim.Options) *sim.Act {
		o.Acts = slices.Clone(o.Acts)
		return &o.Acts[min(i, len(o.Acts)-1)]
	}
	for _, far := range []bool{false, true} {
		for j := 0; ; {
			names := s.Options.Acts[min(i, len(s.Options.Acts)-1)].Hosts
			if far {
				names = s.Options.Acts[min(i, len(s.Options.Acts)-1)].Far
			}
			if j >= len(names) || len(names) == 1 {
				break
			}
			if !s.change(ctx, func(o *sim.Options) {
				if a := act(o); far {
					a.Far = withoutItem(a.Far, j)
				} else {
					a.Hosts = withoutItem(a.Hosts, j)
				}
			}) {
				j++
			}
		}
	}
	s.change(ctx, func(o *sim.Options) { act(o).Seed = 0 })
	s.changeTime(ctx, true, func(o *sim.Options) *time.Duration { return &act(o).For })
	s.changeTime(ctx, true, func(o *sim.Options) *time.Duration { return &act(o).By })
	s.changeTime(ctx, false, func(o *sim.Options) *time.Duration { return &act(o).At })
}

func (s *Result) simplifyAsk(ctx context.Context, i int) {
	ask := func(o *sim.Options) *sim.Ask {
		o.Load.Asks = slices.Clone(o.Load.Asks)
		return &o.Load.Asks[min(i, len(o.Load.Asks)-1)]
	}
	s.changeAll(ctx, []func(o *sim.Options){
		func(o *sim.Options) { ask(o).Try = false },
		func(o *sim.Options) { ask(o).Value = false },
		func(o *sim.Options) { ask(o).Revoke = false },
		func(o *sim.Options) { ask(o).Fixed = false },
		func(o *sim.Options) { a := ask(o); a.Length, a.Fixed = 0, false },
		func(o *sim.Options) { a := ask(o); a.Mode, a.Permits = 0, 0 },
	})
	s.changeTime(ctx, true, func(o *sim.Options) *time.Duration { return &ask(o).Turn })
	s.changeTime(ctx, true, func(o *sim.Options) *time.Duration { return &ask(o).Delay })
	s.changeTime(ctx, true, func(o *sim.Options) *time.Duration { return &ask(o).MinHold })
	s.changeTime(ctx, false, func(o *sim.Options) *time.Duration { return &ask(o).Length })
	s.changeTime(ctx, true, func(o *sim.Options) *time.Duration { return &ask(o).Patience })
	s.changeTime(ctx, true, func(o *sim.Options) *time.Duration { return &ask(o).Hold })
	s.changeTime(ctx, false, func(o *sim.Options) *time.Duration { return &ask(o).At })
}

// gapLeast is the shortest time between acts or requests that is worth closing.
const gapLeast = 50 * time.Millisecond

// closeGaps removes time without acts and requests.
func (s *Result) closeGaps(ctx context.Context) {
	for n, before := 0, time.Duration(0); ; n++ {
		times := times(&s.Options)
		if n >= len(times) {
			return
		}
		gap, at := times[n]-before, times[n]
		for _, cut := range []time.Duration{gap, gap * 3 / 4, gap / 2, gap / 4} {
			if gap >= gapLeast && s.change(ctx, func(o *sim.Options) { sooner(o, at, cut) }) {
				at -= cut
				break
			}
		}
		before = at
	}
}

// times returns the distinct times of all acts and requests, sorted.
func times(o *sim.Options) []time.Duration {
	times := make([]time.Duration, 0, len(o.Acts)+len(o.Load.Asks))
	for _, a := range o.Acts {
		times = append(times, a.At)
	}
	for _, a := range o.Load.Asks {
		times = append(times, a.At)
	}
	slices.Sort(times)
	return slices.Compact(times)
}

// sooner moves all acts and requests from a time on to an earlier time.
func sooner(o *sim.Options, from, by time.Duration) {
	o.Acts, o.Load.Asks = slices.Clone(o.Acts), slices.Clone(o.Load.Asks)
	for i := range o.Acts {
		if a := &o.Acts[i]; a.At >= from {
			a.At -= by
		}
	}
	for i := range o.Load.Asks {
		if a := &o.Load.Asks[i]; a.At >= from {
			a.At -= by
		}
	}
}

// rename replaces old node names in acts and requests by the nodes' present names.
func rename(o *sim.Options, old []string) {
	names := o.NodeNames()
	is := func(name string) string {
		base := strings.TrimRight(name, "'")
		if i := slices.Index(old, base); i >= 0 {
			return names[i] + name[len(base):]
		}
		return name
	}
	o.Acts, o.Load.Asks = slices.Clone(o.Acts), slices.Clone(o.Load.Asks)
	for i := range o.Acts {
		a := &o.Acts[i]
		a.Hosts, a.Far = slices.Clone(a.Hosts), slices.Clone(a.Far)
		for j := range a.Hosts {
			a.Hosts[j] = is(a.Hosts[j])
		}
		for j := range a.Far {
			a.Far[j] = is(a.Far[j])
		}
	}
	for i := range o.Load.Asks {
		o.Load.Asks[i].Node = is(o.Load.Asks[i].Node)
	}
}
