package transport

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test, and is no expectation: a test that waits so long has
// failed.
const patience = 30 * time.Second

// get waits for a value.
func get[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

type linked struct {
	conn   vote.Conn
	peer   vote.SessionID
	dialed bool
	fixed  bool
}

type received struct {
	conn vote.Conn
	peer vote.SessionID
	m    *vote.Message
}

type ended struct {
	conn vote.Conn
	peer vote.SessionID
	err  error
}

// witness is a Handler that reports all events on channels, large enough for every test that
// doesn't fill a channel on purpose.
type witness struct {
	linked   chan linked
	received chan received
	closed   chan ended
}

func newWitness() *witness {
	return &witness{make(chan linked, 100), make(chan received, 10_000), make(chan ended, 100)}
}

func (w *witness) Linked(c vote.Conn, peer vote.SessionID, dialed, fixed bool) {
	w.linked <- linked{c, peer, dialed, fixed}
}

func (w *witness) Received(c vote.Conn, peer vote.SessionID, b *Batch) {
	for i := range b.Messages {
		m := b.Messages[i]
		w.received <- received{c, peer, &m}
	}
	b.Free()
}

func (w *witness) Closed(c vote.Conn, peer vote.SessionID, err error) {
	w.closed <- ended{c, peer, err}
}

// logbook is where a port of a test logs to.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// has reports whether a single line has all the words.
func (l *logbook) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
lines:
	for _, line := range strings.Split(l.buf.String(), "\n") {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		return line != ""
	}
	return false
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func logTo(l *logbook) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// side is a port of a test with its handler, log and address.
type side struct {
	*Port
	*witness
	log *logbook
	at  string
}

var (
	secretA = []byte("0123456789abcdef-a")
	secretB = []byte("0123456789abcdef-b")
)

// secrets returns a list of one secret, or an empty list.
func secrets(secret []byte) [][]byte {
	if secret == nil {
		return nil
	}
	return [][]byte{secret}
}

// config is a valid configuration for a node of a test.
func config(name string, secret []byte) Config {
	return Config{
		Bind: "127.0.0.1:0", Secrets: secrets(secret),
		Self:  vote.SessionID{Node: vote.NodeID(name), Incarnation: vote.Incarnation(len(name)) + 1000 + vote.Incarnation(name[0])},
		Terms: Terms{Mesh: "default", MaxTTL: 10 * time.Second, Voters: []vote.NodeID{"b", "a", "c"}},
	}
}

func open(t testing.TB, cfg Config) *side { return openBuild(t, cfg, thisBuild) }

func openBuild(t testing.TB, cfg Config, b build) *side {
	t.Helper()
	s := &side{witness: newWitness(), log: new(logbook)}
	cfg.Handler = s.witness
	cfg.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	p, err := listen(t.Context(), cfg, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	s.Port, s.at = p, p.Addr().String()
	return s
}

// modes are the two ways to run a mesh.
var modes = []struct {
	name   string
	secret []byte
}{{"tls", secretA}, {"plain", nil}}
