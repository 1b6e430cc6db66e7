package sim

import (
	"errors"
	"io"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/timeline"
)

// WritePicture draws the recording of Options.Picture: see [timeline.Recording.Write]. It fails if
// nothing was recorded.
func (w *World) WritePicture(out io.Writer) error {
	if w.pic == nil {
		return errors.New("the run wasn't recorded: set Options.Picture before it starts")
	}
	r := timeline.Run{
		Seed: w.opt.Seed, Voters: w.opt.Voters, MaxTTL: w.opt.MaxTTL, Lasted: w.Now(),
		KeyIndex: func(key string) int { return w.judge.byName[vote.Key(key)].i },
	}
	if v := w.failed; v != nil {
		r.Violation = &timeline.Violation{Check: v.Check, At: v.At, Text: v.Text}
	}
	return w.pic.Write(out, r)
}

// picturesQuiet records the start and the end of a voter's startup quarantine.
func (w *World) picturesQuiet(p *process) {
	if w.pic == nil || p.dead {
		return
	}
	if v := p.m.Voter(); v != nil {
		w.pic.Quiet(w.Now(), p.host.i, v.Quiet() > 0)
	}
}

// picturesGrant records a lease.
func (w *World) picturesGrant(r *Request) {
	if w.pic != nil {
		w.pic.Granted(w.Now(), r.p.host.i, r.pictured(), timeline.Lease{
			Key: r.Key, Token: r.Token, Granted: r.Had,
			Believed: func() time.Duration { return time.Duration(r.until.Add(-vote.Margin(r.p.host.ttl))) },
		})
	}
}

// picturesEnd records the end of a request.
func (w *World) picturesEnd(r *Request, how State) {
	if w.pic != nil {
		w.pic.Ended(w.Now(), r.p.host.i, r.pictured(), how.String(), how == Lost)
	}
}

// pictured identifies the request in a recording.
func (r *Request) pictured() timeline.RequestID {
	return timeline.RequestID{Session: r.p.id, Number: r.Number}
}

// hosts returns the hosts' numbers.
func (l *link) hosts() [2]int { return [2]int{l.ends[0].host.i, l.ends[1].host.i} }
