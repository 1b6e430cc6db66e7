//go:build hunt

package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// nodeModules installs the clients of Node.js in a directory of the test, and returns the directory
// with the programs.
func nodeModules(t *testing.T) string {
	t.Helper()
	need(t, "node", "npm")
	dir := t.TempDir()
	for _, name := range []string{"package.json", "clients.cjs", "contend.cjs"} {
		text, err := os.ReadFile(filepath.Join("testdata", "node", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("!!!! NOT TRIED: the packages of npm can't be had: %v\n%s", err, out)
	}
	return dir
}

// program runs a program for two minutes at most, and fails the test unless it ends with 0.
func program(t *testing.T, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, filepath.Base(args[0]), err, out)
	}
}

// python returns the Python with Debian's python3-redis.
func python(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(p, "-c", "import redis").Run() == nil {
			return p
		}
	}
	t.Skip("!!!! NOT TRIED: no python3 has the module redis")
	return ""
}

func TestClientsOfOtherLanguages(t *testing.T) {
	m := newMesh(t)
	first, second := served(t, m, "a"), served(t, m, "b")
	t.Run("node", func(t *testing.T) { program(t, "node", filepath.Join(nodeModules(t), "clients.cjs"), first, second) })
	t.Run("python", func(t *testing.T) { program(t, python(t), "testdata/clients.py", first, second) })
	t.Run("ruby", func(t *testing.T) {
		need(t, "ruby")
		if exec.Command("ruby", "-e", "require 'redis'").Run() != nil {
			t.Skip("!!!! NOT TRIED: ruby has no redis")
		}
		program(t, "ruby", "testdata/clients.rb", first, second)
	})
	t.Run("php", func(t *testing.T) {
		need(t, "php")
		if exec.Command("php", "-r", "exit(class_exists('Redis') ? 0 : 1);").Run() != nil {
			t.Skip("!!!! NOT TRIED: php has no redis")
		}
		program(t, "php", "testdata/clients.php", first, second)
	})
}

// TestAllKindsTogether has a Python client, a Node.js client, a shell and a program with lockmesh
// contend for a key. Each client appends the begin and the end of each hold to a file, with the
// token.
func TestAllKindsTogether(t *testing.T) {
	need(t, "redis-cli", "bash")
	py, node := python(t), nodeModules(t)
	m := newMesh(t)
	first, second := served(t, m, "a"), served(t, m, "b")
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const rounds = 30
	var wg sync.WaitGroup
	for _, words := range [][]string{
		{py, "testdata/contend.py", first}, {"node", filepath.Join(node, "contend.cjs"), second}, {"bash", "testdata/contend.sh", first},
	} {
		wg.Go(func() { program(t, words[0], append(words[1:], "together", fmt.Sprint(rounds), file)...) })
	}
	wg.Go(func() {
		log, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer log.Close()
		for range rounds {
			lease, err := m.Node("c").Lock(t.Context(), "together")
			if err != nil {
				t.Errorf("lockmesh: %v", err)
				return
			}
			fmt.Fprintf(log, "begin go %d\n", lease.Token())
			fmt.Fprintf(log, "end go %d\n", lease.Token())
			if err := lease.Unlock(t.Context()); err != nil {
				t.Errorf("lockmesh: %v", err)
			}
		}
	})
	wg.Wait()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 4*2*rounds {
		t.Fatalf("%d lines", len(lines))
	}
	held := make(map[string]int)
	newest := uint64(0)
	for i := 0; i < len(lines); i += 2 {
		var who, other string
		var token, again uint64
		_, err1 := fmt.Sscanf(lines[i], "begin %s %d", &who, &token)
		_, err2 := fmt.Sscanf(lines[i+1], "end %s %d", &other, &again)
		if err1 != nil || err2 != nil || who != other || token != again {
			t.Fatalf("two held the key at a time: %q, %q", lines[i], lines[i+1])
		}
		if token <= newest {
			t.Fatalf("token %d after %d", token, newest)
		}
		newest = token
		held[who]++
	}
	t.Log(held)
}
