package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// client leaves no connections behind.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get returns the answer of a page.
func get(t *testing.T, url string) (code int, header http.Header, body string) {
	t.Helper()
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, r.Header, string(text)
}

// shown opens the page of a board of its own.
func shown(t *testing.T, s state) *page {
	t.Helper()
	b := newBoard(s.Election, s.Node)
	b.update(func(old *state) { *old = s })
	p, err := openPage("127.0.0.1:0", b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func sample() state {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := state{Election: "e", Node: "a", Ready: true, Waiters: []waiter{{"c", "http://127.0.0.1:3/"}, {"d", ""}}}
	s.setLeader(term{Node: "b", Page: "http://127.0.0.1:2/", Token: 7, Since: at})
	s.clearLeader(at.Add(time.Minute))
	s.setLeader(term{Node: "a", Page: "http://127.0.0.1:1/", Token: 9, Since: at.Add(time.Hour)})
	return s
}

func TestThePageShowsTheLeader(t *testing.T) {
	t.Parallel()
	p := shown(t, sample())
	code, header, body := get(t, p.url())
	if code != http.StatusOK {
		t.Fatalf("it answers %d", code)
	}
	for _, want := range []string{
		`<html lang="en">`, `<title>a leads – e</title>`, `<span class="who">a</span> <span class="tag">this node</span>`, `<dd>9</dd>`, `>13:00:00</time>`,
		`<li><a href="http://127.0.0.1:3/">c</a></li><li>d</li>`, `<th scope="row">b</th>`, `>12:01:00</time></td><td>7</td>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s:\n%s", want, body)
		}
	}
	nonces := regexp.MustCompile(`nonce="(\w+)"`).FindAllStringSubmatch(body, -1)
	if len(nonces) != 2 || !strings.Contains(header.Get("Content-Security-Policy"), "script-src 'nonce-"+nonces[1][1]+"'") {
		t.Errorf("the script's nonce %q isn't that of the policy %q", nonces, header.Get("Content-Security-Policy"))
	}
	if _, _, again := get(t, p.url()); strings.Contains(again, nonces[0][1]) {
		t.Error("a nonce is used twice")
	}
	if code, _, _ := get(t, p.url()+"nonsense"); code != http.StatusNotFound {
		t.Errorf("a page that there isn't answers %d", code)
	}
}

func TestWhatNodesSayOfThemselvesIsNoMarkup(t *testing.T) {
	t.Parallel()
	s := sample()
	s.Leader.Node, s.Leader.Page, s.Waiters[0].Node = "<b>&</b>", "javascript:alert(1)", "<i>"
	_, _, body := get(t, shown(t, s).url())
	for _, bad := range []string{"<b>", "<i>", `href="javascript:`} {
		if strings.Contains(body, bad) {
			t.Errorf("the page has %s:\n%s", bad, body)
		}
	}
}

func TestThePageSaysWhenThereIsNoLeader(t *testing.T) {
	t.Parallel()
	p := shown(t, state{Election: "e", Node: "a"})
	_, _, body := get(t, p.url())
	for _, want := range []string{"No node leads – e", "Too few voters answer", `<p class="who">no node</p>`, "none since this node has started"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s:\n%s", want, body)
		}
	}
	if code, _, body := get(t, p.url()+"healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, `"Ready": false`) {
		t.Errorf("healthz answers %d: %s", code, body)
	}
}

func TestProgramsCanReadTheState(t *testing.T) {
	t.Parallel()
	p := shown(t, sample())
	_, _, body := get(t, p.url()+"state.json")
	var s state
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if s.Leader == nil || s.Leader.Node != "a" || s.Leader.Token != 9 || len(s.Past) != 1 || s.Past[0].Token != 7 || len(s.Waiters) != 2 {
		t.Errorf("state.json says %s", body)
	}
	if code, _, body := get(t, p.url()+"healthz"); code != http.StatusOK || !strings.Contains(body, `"Leads": true`) {
		t.Errorf("healthz answers %d: %s", code, body)
	}
}

func TestTheStreamTellsOfEachChange(t *testing.T) {
	t.Parallel()
	p := shown(t, sample())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url()+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() (parts map[string]string) {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &parts); err != nil {
					t.Fatal(err)
				}
				return parts
			}
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return nil
	}
	if first := next(); first["title"] != "a leads – e" || !strings.Contains(first["news"], "Node a has led since") {
		t.Errorf("it begins with %q", first)
	}
	p.board.update(func(s *state) { s.Waiters = s.Waiters[:2] }) // no visible change
	p.board.update(func(s *state) { s.clearLeader(time.Now()) })
	if second := next(); second["title"] != "No node leads – e" || strings.Count(second["live"], `<th scope="row">`) != 2 {
		t.Errorf("it goes on with %q", second)
	}
	p.close() // ends the stream, too
	for lines.Scan() {
		if lines.Text() != "" {
			t.Errorf("after the end it says %q", lines.Text())
		}
	}
}

func TestOnlySoManyLeadersAreRemembered(t *testing.T) {
	t.Parallel()
	var s state
	for i := range uint64(3 * maxPast) {
		s.setLeader(term{Node: "a", Token: i + 1})
	}
	if len(s.Past) != maxPast || s.Past[0].Token != 3*maxPast-1 {
		t.Errorf("%d are remembered, the newest has token %d", len(s.Past), s.Past[0].Token)
	}
}
