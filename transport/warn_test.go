package transport

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestWarningsAreBoundedAndCounted(t *testing.T) {
	var book logbook
	now := time.Unix(1000, 0)
	w := newWarner(slog.New(slog.NewTextHandler(&book, nil)))
	w.now = func() time.Time { return now }
	for range 5 {
		w.warn(topicGarbage, "first")
	}
	w.warn(topicTerms, "another topic")
	if n := strings.Count(book.String(), "\n"); n != 2 {
		t.Fatalf("%d lines:\n%s", n, book.String())
	}
	now = now.Add(warnEvery)
	w.warn(topicGarbage, "second")
	if !book.has("second", "suppressed=4") {
		t.Fatalf("the log:\n%s", book.String())
	}
	w.warn(topicGarbage, "third")
	w.flush()
	w.flush()
	if !book.has("suppressed=1") || strings.Count(book.String(), "\n") != 4 {
		t.Fatalf("the log:\n%s", book.String())
	}
}
