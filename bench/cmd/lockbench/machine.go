package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// machine describes the machine and the versions of the measured software.
func machine(ctx context.Context, o *options) map[string]string {
	m := map[string]string{
		"processor": cpuModel(),
		"cores":     fmt.Sprint(runtime.NumCPU()),
		"system":    runtime.GOOS + "/" + runtime.GOARCH + kernel(),
		"go":        runtime.Version(),
	}
	if out, err := exec.CommandContext(ctx, redisServer, "--version").Output(); err == nil {
		if v := regexp.MustCompile(`v=(\S+)`).FindSubmatch(out); v != nil {
			m["redis-server"] = string(v[1])
		}
	}
	// Report the lack of Redis here, too: the first message has scrolled away by the end.
	if _, err := exec.LookPath(redisServer); err != nil && o.wantsRedis() {
		m["redis-server"] = "not on PATH: **nothing is compared with Redis**"
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			for _, path := range modules {
				if dep.Path == path {
					m[path] = dep.Version
				}
			}
		}
	}
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output(); err == nil {
		// go run doesn't record the commit. "-dirty" means uncommitted changes.
		m["lockmesh"] = strings.TrimSpace(string(out))
	}
	return m
}

// modules are the modules with versions worth reporting.
var modules = []string{
	"github.com/bsm/redislock", "github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9", "github.com/redis/rueidis",
	"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/server/v3",
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return "unknown"
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return ", kernel " + strings.TrimSpace(string(text))
}
