package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// siege keeps a number of connections open to an address until the test ends. Each connection sends
// the words and then nothing; siege replaces each closed connection.
func siege(t *testing.T, at string, many int, words string) {
	t.Helper()
	stop := make(chan struct{})
	var mu sync.Mutex
	var open []net.Conn
	var work sync.WaitGroup
	began := make(chan struct{}, many)
	for range many {
		work.Go(func() {
			for first := true; ; {
				c, err := net.Dial("tcp", at)
				if err != nil {
					select {
					case <-stop:
						return
					// so that a missing port takes no processor
					case <-time.After(time.Millisecond):
						continue
					}
				}
				mu.Lock()
				select {
				case <-stop:
					mu.Unlock()
					_ = c.Close()
					return
				default:
				}
				open = append(open, c)
				mu.Unlock()
				_, _ = io.WriteString(c, words)
				if first {
					first = false
					began <- struct{}{}
				}
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}
		})
	}
	t.Cleanup(func() {
		mu.Lock()
		close(stop)
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	for range many {
		get(t, began, "a stranger's connection")
	}
}

// Strangers hold as many connections as possible, from the same address as an honest node, and
// reconnect at once when dropped: the honest node gets in nevertheless, and the log and the
// counters report the strangers.
func TestStrangersDontShutHonestOnesOut(t *testing.T) {
	sampled.Waits(t)
	t.Parallel()
	for _, words := range []string{"", "L", "\x16\x03\x01\x06"} {
		for _, m := range modes {
			t.Run(fmt.Sprintf("%s/%d bytes", m.name, len(words)), func(t *testing.T) {
				t.Parallel()
				patient := thisBuild
				// so that the honest node gets in only by the strangers' giving way
				patient.firstWordTime, patient.handshakeTimeout = patience, patience
				b := openBuild(t, config("b", m.secret), patient)
				a := open(t, config("a", m.secret))
				siege(t, b.at, 400, words)
				// on a busy machine the honest node may have to give way before its first message
				testwait.Until(t, "an honest node is linked", func() bool {
					_, err := a.Dial(t.Context(), b.at, "b")
					return err == nil
				})
				stream := func() error {
					c, err := a.Gossip().DialTimeout(b.at, patience)
					if err == nil {
						_ = c.Close()
					}
					return err
				}
				testwait.Until(t, "its gossip is let in", func() bool { return stream() == nil })
				testwait.Until(t, "it is logged", func() bool { return b.log.has("did not complete the handshake", "127.0.0.1 (", "displaced=") })
				d := b.Stats().Admission
				if most := waitingKnown + waitingStrangers; d.Evicted == 0 || d.Open > most {
					t.Errorf("%+v; at most %d may be open", d, most)
				}
			})
		}
	}
}

func TestWhatComesByDropsIsCutOffBeforeTheHandshakesEnd(t *testing.T) {
	for _, m := range []struct {
		name, drop string
		secret     []byte
	}{{"tls", "\x16", secretA}, {"plain", "L", nil}} {
		t.Run(m.name, func(t *testing.T) {
			hasty := thisBuild
			hasty.firstWordTime = 20 * time.Millisecond // the limit of the handshake alone would be 5 s for each byte, or altogether
			hasty.handshakeTimeout = patience
			b := openBuild(t, config("b", m.secret), hasty)
			narrow(b.Port)
			c, err := net.Dial("tcp", b.at)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			drops := 0
			testwait.Until(t, "the connection is cut", func() bool {
				if drops++; drops <= 4 { // fewer than the first message has bytes
					_, _ = io.WriteString(c, m.drop)
				}
				_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
				_, err := c.Read(make([]byte, 1))
				return !errors.Is(err, os.ErrDeadlineExceeded)
			})
			testwait.Until(t, "it is counted", func() bool { return b.Stats().Admission.Silent == 1 })
		})
	}
}

// narrow makes the places before the first message scarce for each connection.
func narrow(p *Port) {
	p.admission.mu.Lock()
	defer p.admission.mu.Unlock()
	for i := range p.admission.waiting {
		p.admission.waiting[i].perSource = 1
	}
}

// A dialer without a processor sends its first message late. The node waits while there is room.
func TestALateFirstMessageIsReadWhileThereIsRoom(t *testing.T) {
	late := thisBuild
	late.firstWordTime = 1 // nanosecond: every first message is late
	late.handshakeTimeout = patience
	b := openBuild(t, config("b", nil), late)
	c, err := net.Dial("tcp", b.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	testwait.Until(t, "the connection is admitted", func() bool { return b.Stats().Admission.Open == 1 })
	for i := range magicLocks { // byte by byte, however slowly the machine runs
		if _, err := io.WriteString(c, magicLocks[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	answer := make([]byte, magicBytes)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != magicLocks {
		t.Errorf("the answer: %q, %v", answer, err)
	}
	if d := b.Stats().Admission; d.Silent != 0 {
		t.Errorf("%+v", d)
	}
}

// A node without a processor reads a first message late, though the message arrived long ago.
func TestAFirstMessageThatHasArrivedIsReadHoweverLate(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			starved := thisBuild
			starved.firstWordTime = 1 // nanosecond: over before the node reads
			starved.handshakeTimeout = patience
			b := openBuild(t, config("b", m.secret), starved)
			narrow(b.Port)
			a := open(t, config("a", m.secret))
			// the first message may come later than finalRead
			testwait.Until(t, "an honest node is linked", func() bool {
				_, err := a.Dial(t.Context(), b.at, "b")
				return err == nil
			})
		})
	}
}

func TestPlacesAreScarceWhenHalfAreTaken(t *testing.T) {
	d := newAdmission(discard())
	defer d.close()
	var first *visitor
	for range waitingStrangersEach / 2 {
		v, _ := visit(d, "10.0.0.1")
		if first == nil {
			first = v
		}
		if d.scarce(v) {
			t.Fatal("a source has half of its places, and they are scarce")
		}
	}
	last, _ := visit(d, "10.0.0.1")
	if !d.scarce(first) || !d.scarce(last) {
		t.Error("a source has more than half of its places, and they aren't scarce")
	}
	other, _ := visit(d, "10.0.0.2")
	if d.scarce(other) {
		t.Error("one source makes the places scarce for another")
	}
	for i := len(d.waiting[0].visitors); i <= waitingStrangers/2; i++ {
		visit(d, fmt.Sprintf("10.1.0.%d", i))
	}
	if !d.scarce(other) {
		t.Error("more than half of all places are taken, and they aren't scarce")
	}
	d.noteMember(netip.MustParseAddr("10.0.0.7"))
	if member, _ := visit(d, "10.0.0.7"); d.scarce(member) {
		t.Error("strangers make the places of members scarce")
	}
	d.remove(other)
	if !d.scarce(other) {
		t.Error("a visitor without a place may wait")
	}
}

// visit lets a visitor into an admission; left is set when the visitor has to leave.
func visit(d *admission, from string) (v *visitor, left *bool) {
	left = new(bool)
	v, _ = d.admit(netip.MustParseAddr(from), func() { *left = true })
	return v, left
}

func TestTheOldestOfTheHeaviestSourceGivesWay(t *testing.T) {
	d := newAdmission(discard())
	defer d.close()
	_, lone := visit(d, "10.0.0.9")
	_, oldest := visit(d, "10.0.0.1")
	for range waitingStrangersEach - 1 {
		visit(d, "10.0.0.1")
	}
	if *oldest {
		t.Fatal("the oldest left before its source had all its places")
	}
	visit(d, "10.0.0.1")
	if !*oldest {
		t.Fatal("a source has more places than it may have")
	}
	for i := range 2 * waitingStrangers { // each from an address of its own
		visit(d, fmt.Sprintf("10.1.%d.%d", i/200, i%200))
	}
	if n := len(d.waiting[0].visitors); n != waitingStrangers {
		t.Errorf("%d strangers are in a room for %d", n, waitingStrangers)
	}
	if n := d.waiting[0].bySource[netip.MustParseAddr("10.0.0.1")]; n > 1 {
		t.Errorf("the source that had most has %d places still", n)
	}
	if !*lone {
		t.Error("the oldest of all is there after twice as many newcomers as there is room for")
	}
}

func TestANetworkOfIPv6IsOneSourceToStrangers(t *testing.T) {
	d := newAdmission(discard())
	defer d.close()
	for i := range 2 * waitingStrangersEach {
		visit(d, fmt.Sprintf("2001:db8::%x", i+1))
	}
	if n := len(d.waiting[0].visitors); n != waitingStrangersEach {
		t.Errorf("one network has %d places, instead of %d", n, waitingStrangersEach)
	}
}

// However many strangers come, from however many addresses: a member's address keeps its place,
// before and after the member's first message.
func TestPlacesAreKeptForMembers(t *testing.T) {
	d := newAdmission(discard())
	defer d.close()
	d.noteMember(netip.MustParseAddr("::ffff:10.0.0.7"))
	v, left := visit(d, "10.0.0.7")
	for i := range 1000 {
		visit(d, fmt.Sprintf("10.2.%d.%d", i/200, i%200))
	}
	if *left || !d.beginHandshake(t.Context(), v) {
		t.Fatal("a member had to give way before its first word")
	}
	for i := range 1000 {
		s, _ := visit(d, fmt.Sprintf("10.3.%d.%d", i/200, i%200))
		d.tryHandshake(s)
	}
	if *left {
		t.Error("a member had to give way in its handshake")
	}
	if n := len(d.handshaking[0].visitors); n != handshakingStrangers {
		t.Errorf("%d strangers are in a room for %d", n, handshakingStrangers)
	}
}

// Visitors with a first message wait for a place, instead of pushing each other out.
func TestAHandshakeThatHasBegunIsGivenTime(t *testing.T) {
	d := newAdmission(discard())
	defer d.close()
	var all []*visitor
	for range handshakingStrangersEach {
		v, _ := visit(d, "10.0.0.1")
		if !d.beginHandshake(t.Context(), v) {
			t.Fatal("there is no place")
		}
		all = append(all, v)
	}
	late, _ := visit(d, "10.0.0.1")
	wait, freed, ok := d.tryHandshake(late)
	if ok || freed == nil || wait <= 0 || wait > unfinishedFor {
		t.Fatalf("the one too many: wait %v, goes on %t", wait, ok)
	}
	if d.counts().Evicted != 0 {
		t.Fatal("a young handshake had to give way")
	}
	d.remove(all[3])
	get(t, freed, "a place")
	if _, freed, ok = d.tryHandshake(late); freed != nil || !ok {
		t.Fatal("the place that was left isn't given to the one that waits")
	}
	older, _ := visit(d, "10.0.0.1")
	all[0].since = all[0].since.Add(-unfinishedFor)
	if !d.beginHandshake(t.Context(), older) || all[0].in != nil {
		t.Error("a handshake that takes too long doesn't give way")
	}
}

func TestOnlySoManyAddressesAreRemembered(t *testing.T) {
	d := newAdmission(discard())
	defer d.close()
	for i := range knownMost + 10 {
		d.noteMember(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if _, first := d.known[netip.AddrFrom4([4]byte{10, 0, 0, 0})]; first || len(d.known) != knownMost {
		t.Errorf("%d addresses are remembered, the first among them: %t", len(d.known), first)
	}
}

func TestStrangersAreALineAMinute(t *testing.T) {
	book := new(logbook)
	d := newAdmission(logTo(book))
	for range 3 {
		for range 500 {
			visit(d, "10.0.0.1")
		}
	}
	d.log.write() // as the timer does
	for range 500 {
		visit(d, "10.0.0.2")
	}
	if next := time.Until(d.log.last.Add(logEvery)); next < logEvery-patience {
		t.Errorf("the next line may come in %v", next)
	}
	if !book.has("did not complete the handshake", "10.0.0.1 (1468)") || book.has("10.0.0.2") {
		t.Errorf("the log:\n%s", book)
	}
	d.close()
	if !book.has("10.0.0.2 (468)") {
		t.Errorf("what was kept back isn't told at the end:\n%s", book)
	}
}
