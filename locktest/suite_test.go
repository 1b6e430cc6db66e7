package locktest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q doesn't say %q", text, part)
		}
	}
}

func TestOptionsThatCantBeAreRefusedWithAllComplaints(t *testing.T) {
	_, err := Examine(t.Context(), newMemory(time.Second, ""), Options{
		TTL: -1, Timeout: -1, Settle: -1, Clients: 3, Handovers: 1, Keys: 1, Ops: 1, Only: []string{"nothing"},
		Expect: []Expected{
			{Promise: "soak", Outcome: Broken}, {Promise: "soak", Outcome: Kept}, {Promise: "wake", Outcome: "odd", Reason: "it is"},
			{Promise: "nothing"}, {Promise: "fifo", Outcome: NotOffered, Flaky: true, Reason: "chance"},
		},
	})
	if err == nil {
		t.Fatal("no error")
	}
	wantText(t, err.Error(), "TTL", "Timeout", "Settle", "3 is not from 4 to 64", "Turns", "Keys", "Ops", `no promise "nothing"; there are exclusion,`,
		`"soak" has no reason`, `"soak" is listed twice`, `"wake" has the outcome "odd"`, `"fifo" is not offered at times`)
}

// minimalClient is a client with the core and nothing else, and locks likewise.
type minimalClient struct{ c Client }

type minimalLock struct{ l Lock }

func (p *minimalClient) Client(ctx context.Context) (Client, error) {
	c, err := newMemory(time.Second, "").Client(ctx)
	return &minimalClient{c}, err
}

func (p *minimalClient) lock(l Lock, err error) (Lock, error) {
	if err != nil {
		return nil, err
	}
	return &minimalLock{l}, nil
}

func (p *minimalClient) Lock(ctx context.Context, key string) (Lock, error) {
	return p.lock(p.c.Lock(ctx, key))
}

func (p *minimalClient) TryLock(ctx context.Context, key string) (Lock, error) {
	return p.lock(p.c.TryLock(ctx, key))
}

func (p *minimalClient) Close() error { return p.c.Close() }

func (l *minimalLock) Unlock(ctx context.Context) error { return l.l.Unlock(ctx) }

func TestWhatIsntOfferedIsToldAndWhatIsExpectedIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		only := []string{"exclusion", "unlock-twice", "tokens-rise", "crash-tokens", "fifo", "empty-key", "odd-keys"}
		// Each client has a service of its own, so there is no exclusion.
		report, err := Examine(t.Context(), &minimalClient{}, Options{TTL: time.Second, Only: only})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(report.Results); n != len(only) {
			t.Errorf("%d results", n)
		}
		text := report.String()
		wantText(t, text, "2 promises kept, 2 broken, 3 not offered", "it lacks Crasher and Fenced", "not offered  fifo", "kept         empty-key", "broken       exclusion")
		if c := report.Mismatches(); len(c) != 2 || !strings.HasPrefix(c[0], "exclusion: broken: ") {
			t.Errorf("complaints %q", c)
		}
		if _, ok := report.Result("wake"); ok {
			t.Error("wake wasn't examined, and has a result")
		}

		report, err = Examine(t.Context(), &minimalClient{}, Options{TTL: time.Second, Only: only, Expect: []Expected{
			{Promise: "exclusion", Outcome: Broken, Reason: "there are as many services as clients"},
			{Promise: "odd-keys", Outcome: Broken, Flaky: true, Reason: "chance"},
			{Promise: "unlock-twice", Outcome: Broken, Reason: "a rumour"},
			{Promise: "empty-key", Outcome: Broken, Flaky: true, Reason: "chance"},
			Lacking("nobody sees the queue", HasQueue)[0],
		}})
		if err != nil {
			t.Fatal(err)
		}
		complaints := strings.Join(report.Mismatches(), "\n")
		wantText(t, complaints, "unlock-twice: kept, and expected to be broken (a rumour)", "tokens-rise: not offered, and expected to be kept", "crash-tokens: not offered")
		if strings.Count(complaints, "\n") != 2 {
			t.Errorf("complaints:\n%s", complaints)
		}
		wantText(t, report.String(), "known: there are as many services as clients")
	})
}

func TestLackingNamesEachPromiseOnce(t *testing.T) {
	var got []string
	for _, e := range Lacking("none", HasCrash, HasTokens) {
		if e.Outcome != NotOffered || e.Reason != "none" {
			t.Errorf("%+v", e)
		}
		got = append(got, e.Promise)
	}
	want := []string{"tokens-rise", "crash-frees", "crash-not-early", "crash-of-waiter", "crash-tokens", "reader-tokens", "reader-crash", "permits-crash"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestAServiceThatGivesNothingIsAnError(t *testing.T) {
	for fault, text := range map[string]string{
		"Lock returns nothing": "neither a lock nor an error", "there are no clients": "no client: " + errStopped.Error(), "Close fails": "closing client 1",
		"Client hangs": "Client hasn't returned 20s after the end",
	} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, err := Examine(t.Context(), newMemory(10*time.Second, fault), Options{Only: []string{"try-free"}})
				if err == nil {
					t.Fatal("no error")
				}
				wantText(t, err.Error(), text)
				time.Sleep(time.Hour) // until a hanging call has ended
			})
		})
	}
}

func TestAnExaminationThatIsBrokenOffSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		report, err := Examine(ctx, newMemory(time.Hour, ""), Options{TTL: time.Hour})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if report == nil || len(report.Names(Kept)) == 0 || len(report.Names(Broken)) > 0 {
			t.Errorf("%v", report)
		}
		if _, ok := report.Result("outlives-ttl"); ok {
			t.Error("what takes hours has a result")
		}
	})
}

func TestABusyMachineIsAnExcuseForWhatItMayCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			name     string
			wrong    bool
			busy     int // in so many attempts
			attempts int
			outcome  Outcome
		}{
			{"lost, on a quiet machine", false, 0, 1, Broken},
			{"lost, on a machine that is busy at first", false, 2, 3, Kept},
			{"lost, on a busy machine", false, 9, 4, Broken},
			{"two holders, on a busy machine", true, 9, 1, Broken},
		} {
			x, err := newSuite(t.Context(), newMemory(time.Second, ""), Options{TTL: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			attempts := 0
			r := x.examine(Promise{Name: row.name, probe: func(p *probe) {
				attempts++
				if attempts <= row.busy {
					p.cleanups = append(p.cleanups, func() { p.maxDelay = p.o.TTL })
				}
				switch {
				case row.wrong:
					p.inexcusablef("two hold it")
				case row.outcome == Broken || attempts <= row.busy:
					p.fatalf("it was lost")
				}
			}})
			if r.Outcome != row.outcome || attempts != row.attempts {
				t.Errorf("%s: %v in %d attempts", row.name, r, attempts)
			}
			if err := x.end(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A timer closes Done, and fires late on a machine that stops.
func TestABusyMachineIsAnExcuseForATimerThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, err := newSuite(t.Context(), newMemory(time.Second, "a loss is told late"), Options{TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		attempts := 0
		r := x.examine(Promise{Name: "lost-is-told", probe: func(p *probe) {
			attempts++
			p.cleanups = append(p.cleanups, func() { p.maxDelay = p.o.TTL })
			p.lostIsTold()
		}})
		if r.Outcome != Broken || attempts != 1+x.o.Repeats {
			t.Errorf("%v in %d attempts", r, attempts)
		}
		if err := x.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestSpansAreJudged(t *testing.T) {
	for _, row := range []struct {
		name  string
		spans []span
		want  int
	}{
		{"none", nil, 0},
		{"one after the other", []span{{from: 3, to: 4, maxHolders: 1}, {from: 1, to: 2, maxHolders: 1}}, 0},
		{"two at once", []span{{from: 1, to: 3, maxHolders: 1}, {from: 2, to: 4, maxHolders: 1}}, 1},
		{"one within another", []span{{from: 1, to: 9, maxHolders: 1}, {from: 2, to: 3, maxHolders: 1}, {from: 4, to: 5, maxHolders: 1}}, 2},
		{"readers", []span{{from: 1, to: 3}, {from: 2, to: 4}, {from: 2, to: 9}}, 0},
		{"a reader and a writer", []span{{from: 1, to: 3}, {from: 2, to: 4, maxHolders: 1}}, 1},
		{"two of two permits, by turns", []span{{from: 1, to: 5, maxHolders: 2}, {from: 2, to: 3, maxHolders: 2}, {from: 4, to: 6, maxHolders: 2}}, 0},
		{"three of two permits", []span{{from: 1, to: 5, maxHolders: 2}, {from: 2, to: 4, maxHolders: 2}, {from: 3, to: 6, maxHolders: 2}}, 2},
	} {
		if texts := overlaps(row.spans); len(texts) != row.want {
			t.Errorf("%s: %q", row.name, texts)
		}
	}
	rising := []span{{from: 5, token: 9}, {from: 1, token: 3}, {from: 3}}
	if texts := tokenRegressions(rising); len(texts) > 0 {
		t.Errorf("they rise: %q", texts)
	}
	if texts := tokenRegressions(append(rising, span{from: 6, token: 9})); len(texts) != 1 {
		t.Errorf("one repeats: %q", texts)
	}
}

func TestThePageHasEveryPromiseAndCapability(t *testing.T) {
	source, err := os.ReadFile("../docs/locktest.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(source), "\r\n", "\n")
	for _, p := range Promises() {
		need := make([]string, len(p.Needs))
		for i, c := range p.Needs {
			need[i] = "`" + string(c) + "`"
		}
		wantRow(t, page, "\n| `"+p.Name+"` | "+p.Text+" | "+strings.Join(need, ", ")+" |\n")
	}
	for c := range capabilitiesOf(nil, nil, nil) {
		wantRow(t, page, "\n| `"+string(c)+"` |")
	}
	if rows := strings.Count(page, "\n| `"); rows != len(promises)+len(capabilitiesOf(nil, nil, nil)) {
		t.Errorf("the page has %d rows", rows)
	}
}

func wantRow(t *testing.T, page, row string) {
	t.Helper()
	if !strings.Contains(page, row) {
		t.Errorf("the page lacks %q", row)
	}
}
