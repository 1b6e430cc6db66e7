package top

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

// asks fails unless the model has sent exactly these requests since the last call.
func (s *screen) asks(t *testing.T, want ...string) {
	t.Helper()
	if got := s.requests.take(); !slices.Equal(got, want) {
		t.Fatalf("the screen asks %q, not %q", got, want)
	}
}

// TestALookIsOneRequestAfterTheOther: a request begins when the previous request is answered, and
// the next look begins an interval after the last look began.
func TestALookIsOneRequestAfterTheOther(t *testing.T) {
	s := newScreen(Settings{Every: 2 * time.Second})
	s.sends(beat{start})
	s.asks(t, "look")
	s.sends(beat{start.Add(time.Second)}, beat{start.Add(time.Minute)})
	s.asks(t)
	at := start.Add(10 * time.Millisecond)
	s = newScreen(Settings{Every: 2 * time.Second})
	s.sends(beat{start}, looked{at: at, status: healthy(at)})
	s.asks(t, "look", "list ")
	s.sends(beat{at})
	s.asks(t)
	s.sends(listed{at: at, locks: keys(at)}, beat{start.Add(1999 * time.Millisecond)})
	s.asks(t)
	s.sends(beat{start.Add(2 * time.Second)})
	s.asks(t, "look")

	// With a key in detail there is a third request.
	s.presses("enter")
	at = s.now
	s.sends(looked{at: at, status: healthy(at)}, listed{at: at, locks: keys(at)})
	s.asks(t, "list ", "inspect jobs/1")
	s.sends(inspected{at: at, key: "jobs/1", lock: &keys(at)[1]}, beat{at.Add(2 * time.Second)})
	s.asks(t, "look")
}

// TestALookLeavesTheNodeTime: the screen asks a node that needs three seconds for a look at most
// every six seconds.
func TestALookLeavesTheNodeTime(t *testing.T) {
	s := newScreen(Settings{})
	s.sends(beat{start}, looked{at: start.Add(time.Second), status: healthy(start)}, listed{at: start.Add(3 * time.Second)})
	s.asks(t, "look", "list ")
	s.sends(beat{start.Add(5999 * time.Millisecond)})
	s.asks(t)
	s.sends(beat{start.Add(6 * time.Second)})
	s.asks(t, "look")
}

// TestNoKeysWithoutAMajority: the screen doesn't ask for keys while the voters can't decide.
func TestNoKeysWithoutAMajority(t *testing.T) {
	s := newScreen(Settings{})
	status := healthy(start)
	status.Electorate.Ready = false
	s.sends(beat{start}, looked{at: start, status: status})
	s.asks(t, "look")
	if !strings.Contains(s.frame(), "the keys aren't known") {
		t.Errorf("the screen shows\n%s", s.frame())
	}
	s.looks(healthy(s.now), keys(s.now), seen{})
	if s.list.why != "" || len(s.rows) != len(keys(start)) {
		t.Errorf("with a majority the screen shows\n%s", s.frame())
	}
}

// TestALostNodeIsAskedAgain: the pauses grow up to a limit, and an answer ends them.
func TestALostNodeIsAskedAgain(t *testing.T) {
	s := newScreen(Settings{})
	var pauses []time.Duration
	for range 4 {
		s.sends(beat{s.next}, looked{at: s.next, why: "gone"})
		s.asks(t, "look")
		pauses = append(pauses, s.next.Sub(s.now))
	}
	if want := []time.Duration{time.Second, 2 * time.Second, backoffMost, backoffMost}; !slices.Equal(pauses, want) {
		t.Errorf("the pauses are %v, not %v", pauses, want)
	}
	if !strings.HasPrefix(s.frame(), "NO ANSWER from the node for 6.0s") {
		t.Errorf("the screen shows\n%s", s.frame())
	}
	s.looks(healthy(s.now), keys(s.now), seen{})
	if s.lost != nil || !strings.HasPrefix(s.frame(), "locks can be granted") {
		t.Errorf("when the node is back the screen shows\n%s", s.frame())
	}
	s.sends(beat{s.next}, looked{at: s.next, why: "gone"})
	if d := s.next.Sub(s.now); d != time.Second {
		t.Errorf("after an answer the first pause is %v", d)
	}
}

// TestAnAnswerForAnotherFilterIsNotShown: the list for the new filter is requested at once,
// without a wait for the interval.
func TestAnAnswerForAnotherFilterIsNotShown(t *testing.T) {
	s := newScreen(Settings{})
	s.sends(beat{start}, looked{at: start, status: healthy(start)})
	s.presses("/", "jobs/", "enter")
	s.sends(listed{at: start, locks: keys(start)})
	s.asks(t, "look", "list ", "list jobs/")
	if len(s.rows) != 0 {
		t.Errorf("the screen has %d rows of another filter", len(s.rows))
	}
	s.sends(listed{at: start, prefix: "jobs/", locks: keys(start)[1:4]})
	if len(s.rows) != 3 {
		t.Errorf("the screen has %d rows", len(s.rows))
	}
	s.presses("esc") // all keys again, with the next beat
	s.sends(beat{s.now})
	s.asks(t, "look")
	if s.filter != "" {
		t.Errorf("the filter is %q", s.filter)
	}
}

// TestAFailedListLeavesTheOldOne: the old list stays, with the reason.
func TestAFailedListLeavesTheOldOne(t *testing.T) {
	s := newScreen(Settings{})
	s.looks(healthy(start), keys(start), seen{})
	at := s.next
	s.sends(beat{at}, looked{at: at, status: healthy(at)}, listed{at: at.Add(time.Second), why: "the voters are slow"})
	if len(s.rows) != len(keys(start)) || !strings.Contains(s.frame(), "as of 03:04:06, the voters are slow: 6 keys") {
		t.Errorf("the screen shows\n%s", s.frame())
	}
}

func TestTheCursorFollowsItsKey(t *testing.T) {
	s := newScreen(Settings{Sort: ByName})
	all := many(30)
	s.looks(healthy(s.now), all, seen{})
	if s.cursor.key != "shard/0000" {
		t.Errorf("at first %q is selected", s.cursor.key)
	}
	s.looks(healthy(s.now), all[1:], seen{})
	if s.cursor.key != "shard/0001" {
		t.Errorf("an unmoved cursor follows %q", s.cursor.key)
	}
	s.presses("down", "down", "up", "j", "k", "j", "end", "home", "down")
	if s.cursor.key != "shard/0002" {
		t.Fatalf("%q is selected", s.cursor.key)
	}
	s.looks(healthy(s.now), all[2:], seen{})
	if s.cursor.key != "shard/0002" || s.cursor.at != 0 {
		t.Errorf("%q in row %d is selected", s.cursor.key, s.cursor.at)
	}
	s.looks(healthy(s.now), all[3:], seen{}) // the key is gone
	if s.cursor.key != "shard/0003" || s.cursor.at != 0 {
		t.Errorf("%q in row %d is selected", s.cursor.key, s.cursor.at)
	}
	s.presses("end", "pgup", "pgdown", "pgdown", "down")
	if s.cursor.key != "shard/0029" {
		t.Errorf("at the end %q is selected", s.cursor.key)
	}
	s.looks(healthy(s.now), nil, seen{})
	s.presses("down", "enter")
	if s.cursor.key != "" || s.detail != nil {
		t.Errorf("without rows %q is selected", s.cursor.key)
	}
}

func TestOrders(t *testing.T) {
	for order, want := range map[Order][]string{
		ByWait:   {"jobs/1", "jobs/2", "encoder"},
		ByGrants: {"hot", "jobs/3", "encoder"},
		ByHeld:   {"jobs/3", "encoder", "jobs/1"},
		ByName:   {"encoder", "jobs/1", "jobs/2"},
	} {
		s := newScreen(Settings{Sort: order, Count: true})
		s.looks(healthy(s.now), keys(s.now), grantsOf(map[string]int{"jobs/3": 2, "hot": 3}))
		var got []string
		for _, r := range s.rows[:3] {
			got = append(got, r.key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("sorted by %s the rows are %q, not %q", orderTexts[order], got, want)
		}
	}
	for i, word := range orderWords {
		if o, ok := OrderOf(word); !ok || o != Order(i) {
			t.Errorf("%s is %d, %v", word, o, ok)
		}
	}
	if _, ok := OrderOf("size"); ok {
		t.Error("size is an order")
	}
	s := newScreen(Settings{})
	var seenOrders []Order
	for range orders {
		seenOrders = append(seenOrders, s.Sort)
		s.presses("s")
	}
	if want := []Order{ByWait, ByHeld, ByName, ByWait}; !slices.Equal(seenOrders, want) {
		t.Errorf("without a count the key s goes through %v", seenOrders)
	}
}

// TestHotKeysRespectTheFilter: a key out of use is shown with its grants.
func TestHotKeysRespectTheFilter(t *testing.T) {
	s := newScreen(Settings{Sort: ByGrants, Count: true})
	s.presses("/", "jobs/", "enter")
	s.looks(healthy(s.now), keys(s.now)[1:2], grantsOf(map[string]int{"jobs/9": 2, "hot": 3}))
	if len(s.rows) != 2 || s.rows[0].key != "jobs/9" || s.rows[1].key != "jobs/1" {
		t.Errorf("the rows are %+v", s.rows)
	}
}

func TestPause(t *testing.T) {
	s := newScreen(Settings{})
	s.presses("p")
	s.sends(beat{start.Add(time.Hour)})
	s.asks(t)
	if !strings.HasPrefix(s.frame(), "PAUSED") {
		t.Errorf("the screen shows\n%s", s.frame())
	}
	s.presses("p")
	s.sends(beat{start.Add(time.Hour)})
	s.asks(t, "look")
}

func TestQuitAndStop(t *testing.T) {
	for _, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		s := newScreen(Settings{})
		_, c := s.Update(key)
		if c == nil || c() != (tea.QuitMsg{}) {
			t.Errorf("%s doesn't quit", key.String())
		}
	}
	s := newScreen(Settings{})
	s.presses("/", "q", "ctrl+z")
	s.sends(stopped{})
	if s.quit || *s.edit != "q" {
		t.Error("a q in a filter quits")
	}
	s.asks(t, "stop", "stop")
	s.presses("ctrl+c")
	if !s.quit {
		t.Error("ctrl-C doesn't quit while a filter is typed")
	}
}

func TestTyping(t *testing.T) {
	s := newScreen(Settings{Prefix: "a/"})
	s.presses("/")
	if *s.edit != "a/" {
		t.Errorf("the filter begins with %q", *s.edit)
	}
	s.presses("日é", "backspace", "backspace", "x", "esc")
	if s.edit != nil || s.filter != "a/" {
		t.Errorf("after esc the filter is %q", s.filter)
	}
	s.presses("/", "ctrl+u", "backspace", "b")
	s.sends(tea.PasteMsg{Content: "c\r\nrest"})
	s.presses("enter")
	if s.filter != "bc" {
		t.Errorf("the filter is %q", s.filter)
	}
	s.presses("/")
	s.sends(tea.PasteMsg{Content: strings.Repeat("x", lockmesh.MaxKeyLen)})
	s.presses("enter")
	if s.filter != "bc" {
		t.Errorf("a filter longer than a key is taken: %d bytes", len(s.filter))
	}
	s.sends(tea.PasteMsg{Content: "x"})
	if s.edit != nil {
		t.Error("a paste begins a filter")
	}
}

func TestHelpAndDetail(t *testing.T) {
	s := newScreen(Settings{})
	s.looks(healthy(s.now), keys(s.now), seen{})
	s.presses("?", "s")
	if s.help || s.Sort != ByWait {
		t.Error("a key in the help does more than go back")
	}
	s.requests.take()
	s.presses("enter")
	s.sends(beat{s.now})
	s.asks(t, "look") // at once
	at := s.now
	s.sends(looked{at: at, status: healthy(at)}, listed{at: at, locks: keys(at)},
		inspected{at: at, key: "other", lock: &admin.Lock{}})
	if s.detail.lock != nil {
		t.Error("another key's answer is shown")
	}
	s.sends(inspected{at: at, key: "jobs/1", why: "the voters are slow"})
	if !strings.Contains(s.frame(), "no answer about the key: the voters are slow") {
		t.Errorf("the screen shows\n%s", s.frame())
	}
	s.presses("up", "esc")
	if s.detail != nil {
		t.Error("esc doesn't go back")
	}
}

// TestEachColumnFits: the column of the sort order stays, and no column is wider than its share.
func TestEachColumnFits(t *testing.T) {
	names := func(width int, by Order) (all []string) {
		s := newScreen(Settings{Sort: by, Count: true})
		s.sends(tea.WindowSizeMsg{Width: width, Height: 24})
		s.looks(healthy(s.now), keys(s.now), seen{})
		for _, c := range s.columns() {
			all = append(all, c.name)
		}
		return all
	}
	for _, c := range []struct {
		width int
		by    Order
		want  string
	}{
		{200, ByWait, "[KEY HOLDER HELD LEFT WAITING LONGEST GRANTS VALUE]"},
		{80, ByWait, "[KEY HOLDER HELD LEFT WAITING LONGEST GRANTS]"},
		{60, ByWait, "[KEY HOLDER HELD WAITING LONGEST]"},
		{60, ByGrants, "[KEY HOLDER WAITING LONGEST GRANTS]"},
		{40, ByWait, "[KEY HOLDER LONGEST]"},
		{40, ByHeld, "[KEY HOLDER HELD WAITING]"},
		{20, ByWait, "[KEY LONGEST]"},
		{10, ByName, "[KEY]"},
	} {
		if got := fmt.Sprint(names(c.width, c.by)); got != c.want {
			t.Errorf("%d wide, sorted by %s, the columns are %s, not %s", c.width, orderTexts[c.by], got, c.want)
		}
	}
}

func TestTexts(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 1240 * time.Millisecond: "1.2s", 9949 * time.Millisecond: "9.9s", 9950 * time.Millisecond: "10s",
		59 * time.Second: "59s", 59600 * time.Millisecond: "1m00s", 83 * time.Second: "1m23s", 3599600 * time.Millisecond: "1h00m",
		90 * time.Minute: "1h30m", 49 * time.Hour: "2d01h",
	} {
		if got := age(d); got != want {
			t.Errorf("%v is %s, not %s", d, got, want)
		}
	}
	for us, want := range map[int64]string{0: "-", 312: "0.31ms", 14_100: "14ms", 1_240_000: "1.2s"} {
		if got := roundTrip(us); got != want {
			t.Errorf("%d µs is %s, not %s", us, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := group(n); got != want {
			t.Errorf("%d is %s, not %s", n, got, want)
		}
	}
	// Widths are counted in cells: 日 has two, and a combining accent none.
	for text, want := range map[string]string{
		"日本語": "日… ", "日本": "日本", "e\u0301e\u0301": "e\u0301e\u0301  ", "abcd": "abcd", "abcde": "abc…", "a\nb": "a�b ",
	} {
		if got := fit(text, 4, false); got != want {
			t.Errorf("%q in four cells is %q, not %q", text, got, want)
		}
	}
	if got := fit("7", 3, true); got != "  7" {
		t.Errorf("7 is %q", got)
	}
	l := line{{"abc", none}, {"def", bad}, {"ghi", none}}
	for width, want := range map[int]string{9: "abcdefghi", 8: "abcdefg…", 6: "abcde…", 3: "ab…", 1: "…"} {
		if got := l.render(width, false); got != want {
			t.Errorf("in %d cells the line is %q, not %q", width, got, want)
		}
	}
	if got := l.render(5, true); got != "abc\x1b[1;31md…\x1b[0m" {
		t.Errorf("with colours the line is %q", got)
	}
}

func TestRate(t *testing.T) {
	var r rate
	if _, ok := r.perSecond(); ok {
		t.Error("a rate is known from the start")
	}
	r.add(start, 1000) // counted before the start
	for i := range 20 {
		r.add(start.Add(time.Duration(i+1)*time.Second), 2)
	}
	if got, ok := r.perSecond(); !ok || got != 2 || r.total != 40 {
		t.Errorf("the rate is %v, %v, of %d grants", got, ok, r.total)
	}
	if span := r.points[len(r.points)-1].at.Sub(r.points[0].at); span > rateWindow+time.Second {
		t.Errorf("the rate is one of %v", span)
	}
	for i := range 10_000 {
		r.add(start.Add(time.Minute+time.Duration(i)*time.Millisecond), 0)
	}
	if len(r.points) > rateMost {
		t.Errorf("%d points are kept", len(r.points))
	}
	r.pause()
	if _, ok := r.perSecond(); ok {
		t.Error("a rate is known after a pause")
	}
}

// TestTheHottestKeysStay: of too many keys, the keys with the most grants stay.
func TestTheHottestKeysStay(t *testing.T) {
	h := hot{}
	h.add(map[string]int{"hot": 100, "warm": 50})
	for i := range 3 * hotMost {
		h.add(map[string]int{fmt.Sprintf("cold/%d", i): 1})
		if len(h) > hotMost {
			t.Fatalf("%d keys are kept", len(h))
		}
	}
	if got := h.keys()[:2]; !reflect.DeepEqual(got, []string{"hot", "warm"}) {
		t.Errorf("the hottest keys are %q", got)
	}
}

func TestTally(t *testing.T) {
	var y tally
	y.event("granted", "before", true)
	y.event("synced", "", false)
	for range 3 {
		y.event("granted", "k", false)
	}
	y.event("released", "k", false)
	y.event("gap", "", false)
	if n := y.take(); n.total != 3 || n.keys["k"] != 3 || len(n.keys) != 1 || n.gaps != 1 || !n.live {
		t.Errorf("the count is %+v", n)
	}
	for i := range hotMost + 5 {
		y.event("granted", fmt.Sprint(i), false)
	}
	y.ended("broke off")
	if n := y.take(); n.total != hotMost+5 || len(n.keys) != hotMost || n.live || n.gaps != 1 || n.why != "broke off" {
		t.Errorf("of %d grants %d keys are counted; live %v, gaps %d", n.total, len(n.keys), n.live, n.gaps)
	}
	if n := y.take(); n.total != 0 || n.gaps != 0 || n.why != "broke off" {
		t.Errorf("afterwards the count is %+v", n)
	}
}
