package registerhttp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh/internal/registerhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// forwarder forwards connections to a server, until the connections are cut without notice.
type forwarder struct {
	net.Listener
	to     string
	mu     sync.Mutex
	conns  []*forwarded
	silent chan struct{} // gets a value for data that isn't forwarded
	done   sync.WaitGroup
}

type forwarded struct {
	client, server net.Conn
	cut            bool
	ended          chan struct{} // closed once nothing comes from the client any more
	answered       chan struct{} // closed once nothing comes from the server any more
}

func forward(t *testing.T, to string) *forwarder {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{Listener: l, to: to, silent: make(chan struct{}, 100)}
	f.done.Go(f.accept)
	t.Cleanup(func() {
		f.Close()
		f.mu.Lock()
		for _, c := range f.conns {
			c.client.Close()
			c.server.Close()
		}
		f.mu.Unlock()
		f.done.Wait()
	})
	return f
}

func (f *forwarder) accept() {
	for {
		client, err := f.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", f.to)
		if err != nil {
			client.Close()
			return
		}
		c := &forwarded{client: client, server: server, ended: make(chan struct{}), answered: make(chan struct{})}
		f.mu.Lock()
		f.conns = append(f.conns, c)
		f.mu.Unlock()
		f.done.Go(func() {
			f.copy(c, server, client)
			close(c.ended)
		})
		f.done.Go(func() {
			f.copy(c, client, server)
			close(c.answered)
		})
	}
}

func (f *forwarder) copy(c *forwarded, to, from net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			to.Close()
			return
		}
		f.mu.Lock()
		cut := c.cut
		f.mu.Unlock()
		if cut {
			f.silent <- struct{}{}
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// awaitEnd waits until the client has ended the first connection.
func (f *forwarder) awaitEnd(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	first := f.conns[0]
	f.mu.Unlock()
	for _, over := range []chan struct{}{first.ended, first.answered} {
		select {
		case <-over:
		case <-time.After(10 * time.Second):
			t.Fatal("the client keeps its connection")
		}
	}
}

// cut loses all data of the connections that exist.
func (f *forwarder) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.cut = true
	}
}

// TestAConnectionThatDiedWithoutNotice: as of http.DefaultTransport, with HTTP/2 (shown here),
// each request fails until TCP gives up.
func TestAConnectionThatDiedWithoutNotice(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "record")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	trustInDefault(t, server)
	for _, test := range []struct {
		name   string
		client *http.Client
		want   bool
	}{
		{"http.DefaultTransport", &http.Client{Transport: http.DefaultTransport}, false},
		{"of a register", registerhttp.Client(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := forward(t, server.Listener.Addr().String())
			url := "https://" + f.Addr().String()
			if err := get(t.Context(), test.client, url); err != nil {
				t.Fatal(err)
			}
			if test.want {
				f.awaitEnd(t) // the connection's last bytes are no request
			}
			f.cut()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- get(ctx, test.client, url) }()
			var err error
			select {
			case <-f.silent: // the request went into the dead connection
				cancel()
				err = <-ended
			case err = <-ended:
			}
			if (err == nil) != test.want {
				t.Errorf("a request after the connection died: %v", err)
			}
		})
	}
}

// trustInDefault makes http.DefaultTransport trust a server, as a program may do.
func trustInDefault(t *testing.T, server *httptest.Server) {
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	before := http.DefaultTransport
	changed := before.(*http.Transport).Clone()
	changed.TLSClientConfig = &tls.Config{RootCAs: roots}
	http.DefaultTransport = changed
	t.Cleanup(func() {
		changed.CloseIdleConnections()
		http.DefaultTransport = before
	})
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

type another struct{ http.RoundTripper }

func TestAProgramsOwnDefault(t *testing.T) {
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	own := &another{before}
	http.DefaultTransport = own
	if got := registerhttp.Transport(); got != own {
		t.Errorf("%T", got)
	}
}
